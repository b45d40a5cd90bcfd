import { ProviderFailure } from "@kiln/core/ports"
import { Effect } from "effect"

/** What a fake does when it is called. */
export type Behavior<A> =
  | { readonly _tag: "Answer"; readonly value: A }
  | { readonly _tag: "AnswerLate"; readonly value: A; readonly delayMs: number }
  | { readonly _tag: "Fail"; readonly failure: ProviderFailure }
  | { readonly _tag: "Hang" }

export const answer = <A>(value: A): Behavior<A> => ({ _tag: "Answer", value })

/** Answers after that many milliseconds of the `Clock`: virtual ones under a test clock. */
export const answerLate = <A>(delayMs: number, value: A): Behavior<A> => ({ _tag: "AnswerLate", value, delayMs })

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

/** Never answers; ends by interruption only. */
export const hang: Behavior<never> = { _tag: "Hang" }

export const perform = <A>(behavior: Behavior<A>): Effect.Effect<A, ProviderFailure> => {
  switch (behavior._tag) {
    case "Answer":
      return Effect.succeed(behavior.value)
    case "AnswerLate":
      return Effect.as(Effect.sleep(behavior.delayMs), behavior.value)
    case "Fail":
      return Effect.fail(behavior.failure)
    case "Hang":
      return Effect.never
  }
}
