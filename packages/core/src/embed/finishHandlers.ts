import type { FinishHandler } from "../engine/index.ts"
import type { JobKind } from "../kinds/index.ts"
import type { FinishedJob, OnFinished } from "./OnFinished.ts"
import { toJobResult } from "./toJobResult.ts"

/** Returns the handlers of the kinds: a kind's own, or else the engine's. */
export const finishHandlersOf = (
  kinds: ReadonlyArray<JobKind>,
  engines: OnFinished<never> | undefined,
  defaultCurrency: string,
): ReadonlyMap<string, FinishHandler> =>
  new Map(
    kinds.flatMap((kind): ReadonlyArray<readonly [string, FinishHandler]> => {
      const given = kind.onFinished ?? engines
      if (given === undefined) return []
      // Which kind's job it is was decided by the name under which the function is found.
      const onFinished = given as OnFinished
      const handler: FinishHandler = async (job, attempt, signal) =>
        onFinished({ job: toJobResult(job, defaultCurrency) as FinishedJob, attempt, signal })
      return [[kind.name, handler]]
    }),
  )
