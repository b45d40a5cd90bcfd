import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import type { PruneResult } from "@kiln/core/ports"
import { isFullDisk } from "./diskErrors.ts"

/** Sizes of parts to try. Deleting overwrites what it deletes, so its log is as large as that. */
const partSizes = [10, 1]

/**
 * Runs a step for up to `limit` records. If the disk has no room for the log of all of them, runs it in smaller parts. A part that fails
 * after others succeeded ends the step with their result, because they are committed.
 */
const inParts = <A>(
  limit: number,
  step: (limit: number) => Effect.Effect<A, StoreUnavailable>,
  { countOf, join, none }: { readonly countOf: (a: A) => number; readonly join: (a: A, b: A) => A; readonly none: A },
): Effect.Effect<A, StoreUnavailable> => {
  const withParts = (size: number, smaller: ReadonlyArray<number>): Effect.Effect<A, StoreUnavailable> =>
    Effect.gen(function* () {
      let total = none
      while (countOf(total) < limit) {
        const asked = Math.min(size, limit - countOf(total))
        const part = step(asked)
        const done = yield* countOf(total) === 0 ? part : Effect.catchIf(part, isFull, () => Effect.succeed(none))
        total = join(total, done)
        if (countOf(done) < asked) break
        yield* Effect.yieldNow
      }
      return total
    }).pipe(
      Effect.catchIf(
        (error) => isFull(error) && smaller.length > 0,
        () => withParts(Math.min(limit, smaller[0] ?? 1), smaller.slice(1)),
      ),
    )
  return Effect.catchIf(
    step(limit),
    (error) => limit > 1 && isFull(error),
    () => withParts(Math.min(limit, partSizes[0] ?? 1), partSizes.slice(1)),
  )
}

const isFull = ({ cause }: StoreUnavailable): boolean => isFullDisk(cause)

/** `inParts` for a step that returns the number of records. */
export const countedInParts = (limit: number, step: (limit: number) => Effect.Effect<number, StoreUnavailable>) =>
  inParts(limit, step, { countOf: (count) => count, join: (a, b) => a + b, none: 0 })

/** `inParts` for a step that also returns what it leaves to be removed. */
export const prunedInParts = (limit: number, step: (limit: number) => Effect.Effect<PruneResult, StoreUnavailable>) =>
  inParts(limit, step, {
    countOf: ({ count }) => count,
    join: (a, b): PruneResult => ({ count: a.count + b.count, purges: [...a.purges, ...b.purges] }),
    none: { count: 0, purges: [] },
  })
