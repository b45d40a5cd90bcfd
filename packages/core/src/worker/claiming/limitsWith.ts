import type { ConcurrencyLimits } from "../../domain/index.ts"
import type { EngineLimits } from "../../domain/JobsInProgress.ts"
import type { JobKind } from "../../kinds/JobKind.ts"

/**
 * Combines the installation's limits with those of the kinds; the lower one applies. A project's share is a limit of each
 * worker, not included here.
 */
export const limitsWith = ({ perKind, perProject }: EngineLimits, kinds: ReadonlyArray<JobKind>): ConcurrencyLimits => {
  // A kind may have the name of a property that every object has, such as `constructor`.
  const given = new Map(Object.entries(perKind))
  const own = kinds.flatMap(({ limits: { concurrency }, name }) =>
    concurrency === undefined ? [] : [[name, Math.min(concurrency, given.get(name) ?? Infinity)] as const],
  )
  return {
    perKind: { ...perKind, ...Object.fromEntries(own) },
    perProject: perProject === "share" ? 0 : perProject,
  }
}
