import { providerBroken, type ProviderError, ProviderFailure, type BrokenReason } from "@kiln/core/providers"
import * as Effect from "effect/Effect"

/** The behavior of a fake when it is called. */
export type Behavior<A> =
  | { readonly _tag: "Answer"; readonly value: A }
  | { readonly _tag: "AnswerLate"; readonly value: A; readonly delayMs: number }
  | { readonly _tag: "Trickle"; readonly value: A; readonly pieces: number; readonly intervalMs: number }
  | { readonly _tag: "Malformed"; readonly value: unknown }
  | { readonly _tag: "Huge"; readonly bytes: number }
  | { readonly _tag: "Fail"; readonly failure: ProviderError }
  | { readonly _tag: "Hang" }

export const answer = <A>(value: A): Behavior<A> => ({ _tag: "Answer", value })

/** Answers after `delayMs` milliseconds of the `Clock`, which are virtual under a test clock. */
export const answerLate = <A>(delayMs: number, value: A): Behavior<A> => ({ _tag: "AnswerLate", value, delayMs })

/**
 * Answers after this many pieces, one every `intervalMs` of the `Clock`: slowly, but never idle. The record of the call
 * contains the number of pieces so far, even after an interruption.
 */
export const trickle = <A>(pieces: number, intervalMs: number, value: A): Behavior<A> => ({
  _tag: "Trickle",
  value,
  pieces,
  intervalMs,
})

/** Answers with a value of any shape, regardless of the provider's types. */
export const malformed = (value: unknown): Behavior<never> => ({ _tag: "Malformed", value })

/** Answers with a value that is valid except for its size: a file of at least `bytes` bytes, or a text of as many characters. */
export const huge = (bytes: number): Behavior<never> => ({ _tag: "Huge", bytes })

/** Fails. Default: the retryable `provider_unavailable`. */
export const failWith = (
  failure: Partial<Pick<ProviderFailure, "errorCode" | "retry" | "retryAfterMs" | "detail">> = {},
): Behavior<never> => ({
  _tag: "Fail",
  failure: new ProviderFailure({
    errorCode: "provider_unavailable",
    retry: true,
    detail: "failed by the test",
    ...failure,
  }),
})

/** Fails like a provider that its operator must fix. Default: `configuration`. */
export const failBroken = ({
  detail = "broken by the test",
  reason = "configuration",
  retryAfterMs,
}: {
  readonly reason?: BrokenReason
  readonly retryAfterMs?: number
  readonly detail?: string
} = {}): Behavior<never> => ({ _tag: "Fail", failure: providerBroken(reason, detail, retryAfterMs) })

/** Never answers; ends only by interruption. */
export const hang: Behavior<never> = { _tag: "Hang" }

/** Returns whether the behavior waits for time to pass. */
export const takesTime = ({ _tag }: Behavior<unknown>): boolean =>
  _tag === "AnswerLate" || _tag === "Trickle" || _tag === "Hang"

/** Callbacks of a fake during a call. */
export interface Performance<A> {
  /** Returns an answer of this size. */
  readonly enlarged: (bytes: number) => A
  /** Called after each piece of the answer. */
  readonly pieceCame: () => void
}

export const perform = <A>(
  behavior: Behavior<A>,
  { enlarged, pieceCame }: Performance<A>,
): Effect.Effect<A, ProviderError> => {
  switch (behavior._tag) {
    case "Answer":
      return Effect.succeed(behavior.value)
    case "AnswerLate":
      return Effect.as(Effect.sleep(behavior.delayMs), behavior.value)
    case "Trickle": {
      const piece = Effect.andThen(Effect.sleep(behavior.intervalMs), Effect.sync(pieceCame))
      return Effect.as(Effect.replicateEffect(piece, behavior.pieces, { discard: true }), behavior.value)
    }
    case "Malformed":
      return Effect.succeed(behavior.value as A)
    case "Huge":
      return Effect.sync(() => enlarged(behavior.bytes))
    case "Fail":
      return Effect.fail(behavior.failure)
    case "Hang":
      return Effect.never
  }
}
