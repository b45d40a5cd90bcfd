import * as Effect from "effect/Effect"
import type { S3Failure } from "./S3Failure.ts"

/**
 * Runs `work` on all items, also after one that S3 refuses: it must not keep the others from being removed. Then fails with the first
 * failure. A failure that other requests would share, such as an outage, ends it at once.
 */
export const forAll = <A>(
  items: Iterable<A>,
  work: (item: A) => Effect.Effect<void, S3Failure>,
  concurrency: number,
): Effect.Effect<void, S3Failure> =>
  Effect.gen(function* () {
    const refusals = yield* Effect.forEach(
      items,
      (item) =>
        Effect.as(work(item), undefined).pipe(
          Effect.catchIf(
            ({ retryable }) => !retryable,
            (refusal) => Effect.succeed(refusal),
          ),
        ),
      { concurrency },
    )
    const first = refusals.find((refusal) => refusal !== undefined)
    if (first !== undefined) return yield* Effect.fail(first)
  })
