import type { ConcurrencyLimits } from "../domain/index.ts"
import type { JobKind } from "../kinds/JobKind.ts"

/** The installation's limits together with those of the kinds themselves: of two for one kind, the lower. */
export const limitsWith = (limits: ConcurrencyLimits, kinds: ReadonlyArray<JobKind>): ConcurrencyLimits => {
  // A kind may be called as a property that every object has.
  const given = new Map(Object.entries(limits.perKind))
  const own = kinds.flatMap(({ limits: { concurrency }, name }) =>
    concurrency === undefined ? [] : [[name, Math.min(concurrency, given.get(name) ?? Infinity)] as const],
  )
  return own.length === 0 ? limits : { ...limits, perKind: { ...limits.perKind, ...Object.fromEntries(own) } }
}
