import { type BrokenReason, providerBroken, type ProviderError, ProviderFailure } from "@kiln/core/ports"
import { Effect } from "effect"

/** What a fake does when it is called. */
export type Behavior<A> =
  | { readonly _tag: "Answer"; readonly value: A }
  | { readonly _tag: "AnswerLate"; readonly value: A; readonly delayMs: number }
  | { readonly _tag: "Trickle"; readonly value: A; readonly pieces: number; readonly intervalMs: number }
  | { readonly _tag: "Malformed"; readonly value: unknown }
  | { readonly _tag: "Huge"; readonly bytes: number }
  | { readonly _tag: "Fail"; readonly failure: ProviderError }
  | { readonly _tag: "Hang" }

export const answer = <A>(value: A): Behavior<A> => ({ _tag: "Answer", value })

/** Answers after that many milliseconds of the `Clock`: virtual ones under a test clock. */
export const answerLate = <A>(delayMs: number, value: A): Behavior<A> => ({ _tag: "AnswerLate", value, delayMs })

/**
 * Answers once so many pieces have come, one each `intervalMs` of the `Clock`: slowly, and never idle. How many have come is
 * in the record of the call, also when it was interrupted between two of them.
 */
export const trickle = <A>(pieces: number, intervalMs: number, value: A): Behavior<A> => ({
  _tag: "Trickle",
  value,
  pieces,
  intervalMs,
})

/** Answers with a value of any shape, whatever the types of a provider say. */
export const malformed = (value: unknown): Behavior<never> => ({ _tag: "Malformed", value })

/** Answers with what is valid but for its size: a file of at least so many bytes, or a text of so many characters. */
export const huge = (bytes: number): Behavior<never> => ({ _tag: "Huge", bytes })

/** Without arguments, a failure that another attempt may heal: `provider_unavailable`, `retry: true`. */
export const failWith = (
  failure: Partial<Pick<ProviderFailure, "errorCode" | "retry" | "retryAfterMs" | "detail">> = {},
): Behavior<never> => ({
  _tag: "Fail",
  failure: new ProviderFailure({
    errorCode: "provider_unavailable",
    retry: true,
    detail: "the test made it fail",
    ...failure,
  }),
})

/** Fails like a provider that its operator has to mend. Without arguments: `configuration`. */
export const failBroken = ({
  detail = "the test broke it",
  reason = "configuration",
  retryAfterMs,
}: {
  readonly reason?: BrokenReason
  readonly retryAfterMs?: number
  readonly detail?: string
} = {}): Behavior<never> => ({ _tag: "Fail", failure: providerBroken(reason, detail, retryAfterMs) })

/** Never answers; ends by interruption only. */
export const hang: Behavior<never> = { _tag: "Hang" }

/** Whether it waits for time to pass. */
export const takesTime = ({ _tag }: Behavior<unknown>): boolean =>
  _tag === "AnswerLate" || _tag === "Trickle" || _tag === "Hang"

/** What a fake tells and is told while it performs. */
export interface Performance<A> {
  /** An answer of this size. */
  readonly enlarged: (bytes: number) => A
  /** One more piece of the answer has come. */
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
