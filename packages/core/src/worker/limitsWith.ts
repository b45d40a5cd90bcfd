import type { ConcurrencyLimits } from "../domain/index.ts"
import type { JobKind } from "../kinds/JobKind.ts"

/** The installation's limits together with those of the kinds themselves: of two for one kind, the lower. */
export const limitsWith = (limits: ConcurrencyLimits, kinds: ReadonlyArray<JobKind>): ConcurrencyLimits => {
  const own = kinds.flatMap(({ limits: { concurrency }, name }) =>
    concurrency === undefined
      ? []
      : [
          [
            name,
            Math.min(concurrency, (Object.hasOwn(limits.perKind, name) ? limits.perKind[name] : undefined) ?? Infinity),
          ] as const,
        ],
  )
  return own.length === 0 ? limits : { ...limits, perKind: { ...limits.perKind, ...Object.fromEntries(own) } }
}
