import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { requireFlag, requireNumber, requireOptions } from "../domain/index.ts"
import {
  bulkStatuses,
  type BulkVerb,
  changeMatching,
  type JobChange,
  toleratingEnd,
  toleratingRefusal,
} from "../engine/changeJobs.ts"
import { Operator } from "../engine/index.ts"
import { selectionOfStatuses } from "../engine/matchingJobs.ts"
import type { Kind } from "../kinds/KindTypes.ts"
import type { StoreUnavailable } from "../domain/index.ts"
import { bulkOptions, jobFilter } from "./checkOptions.ts"
import type { EngineRuntime } from "./EngineRuntime.ts"
import { checkFilter, queryOf, requireCondition } from "./jobFilters.ts"
import type { BulkOptions, BulkResult, JobFilter, OperatorVerbs } from "./OperatorVerbs.ts"

type BulkVerbs = Pick<OperatorVerbs<Kind>, "cancelMany" | "retryMany">

/** The time for which one call looks for jobs that match. A store reads a bounded number of rows for each page. */
const lookMs = 10_000
const usualLimit = 1_000
const mostJobs = 10_000

/** The verbs that change the jobs of a filter. */
export const bulkVerbs = ({ context, run }: Pick<EngineRuntime, "context" | "run">): BulkVerbs => {
  const operator = Context.get(context, Operator)
  const changing =
    (place: string, verb: BulkVerb, change: (jobId: string) => Effect.Effect<JobChange, StoreUnavailable>) =>
    async (filter: JobFilter, options: BulkOptions = {}): Promise<BulkResult> => {
      checkFilter(place, filter, jobFilter)
      requireCondition(place, filter)
      requireOptions(`the options of ${place}`, options, bulkOptions)
      const { after, dryRun, limit = usualLimit } = options
      requireFlag("dryRun", dryRun)
      requireNumber("limit", limit, { least: 1, most: mostJobs, whole: true })
      return run(
        Effect.gen(function* () {
          const query = yield* queryOf(filter)
          // Refuses a kind that nobody has, with the nearest name.
          if (query.kind !== undefined) yield* operator.list({ kind: query.kind, limit: 1 })
          const selection = selectionOfStatuses(query, bulkStatuses[verb])
          const { next, ...result } = yield* changeMatching(selection, { after, dryRun, limit, lookMs }, change)
          return { ...result, next: next ?? undefined }
        }),
      )
    }
  return {
    cancelMany: changing("cancelMany()", "cancel", (id) => toleratingEnd(operator.cancel(id))),
    retryMany: changing("retryMany()", "retry", (id) => toleratingRefusal(operator.retry(id))),
  }
}
