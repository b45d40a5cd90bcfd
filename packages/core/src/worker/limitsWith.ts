import type { ConcurrencyLimits } from "../domain/index.ts"
import type { EngineLimits } from "../domain/InHand.ts"
import type { JobKind } from "../kinds/JobKind.ts"

/** The installation's limits together with those of the kinds themselves: of two for one kind, the lower. A project's share is each worker's own limit. */
export const limitsWith = ({ perKind, perProject }: EngineLimits, kinds: ReadonlyArray<JobKind>): ConcurrencyLimits => {
  // A kind may be called as a property that every object has.
  const given = new Map(Object.entries(perKind))
  const own = kinds.flatMap(({ limits: { concurrency }, name }) =>
    concurrency === undefined ? [] : [[name, Math.min(concurrency, given.get(name) ?? Infinity)] as const],
  )
  return {
    perKind: { ...perKind, ...Object.fromEntries(own) },
    perProject: perProject === "share" ? 0 : perProject,
  }
}
