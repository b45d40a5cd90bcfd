import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { isId, type StoreUnavailable } from "@kiln/core/domain"
import {
  bulkStatuses,
  type BulkVerb,
  changeEach,
  changeMatching,
  type JobChange,
  selectedFor,
  tallyChanges,
  toleratingEnd,
  toleratingRefusal,
} from "@kiln/core/effect"
import type { InputOf } from "../api/index.ts"
import { refuse } from "./ApiError.ts"
import type { Caller } from "./Caller.ts"
import { cancel, promote, retry } from "./changes.ts"
import { formatTime } from "./format.ts"
import { refuseCursor } from "./jobFields.ts"
import { selectionOf } from "./matching.ts"

/** Jobs that a list may name. */
const mostNamed = 500
/** Jobs that one request changes at most, and the time in which it looks for them. The page repeats it for the rest. */
const mostChanged = 100
const lookMs = 500

type Given = InputOf<"cancelJobs">["payload"]
type Work<R> = (id: string) => Effect.Effect<JobChange, StoreUnavailable, R>

/** Selects the jobs of a filter that is not empty, created until now. */
const selectedBy = Effect.fnUntraced(function* (given: Given, verb: BulkVerb) {
  const { filter } = given
  const isEmpty = filter === undefined || Object.keys(filter).every((name) => name === "to" || name === "status")
  if (filter === undefined || isEmpty) return yield* Effect.fail(refuse("empty_filter"))
  const to = filter.to ?? formatTime(yield* Clock.currentTimeMillis)
  const selection = yield* selectionOf({ ...filter, to }, bulkStatuses[verb])
  return { selection: selectedFor(verb, selection), to }
})

/** Counts or changes the selected jobs: those of a list, or a part of those that match a filter. */
const bulk = <R>(given: Given, verb: BulkVerb, work: Work<R>) =>
  Effect.gen(function* () {
    if (given.job_ids !== undefined) {
      // A job that is named twice is one job.
      const ids = [...new Set(given.job_ids)]
      if (ids.length === 0) return yield* Effect.fail(refuse("empty_filter"))
      if (given.filter !== undefined || ids.length > mostNamed || !ids.every((id) => isId("job", id)))
        return yield* Effect.fail(refuse("invalid_request", `give up to ${mostNamed} job_ids, or a filter`))
      const jobs = ids.map((id) => ({ id }))
      const changes = given.dry_run ? [] : yield* changeEach(jobs, work)
      const to = formatTime(yield* Clock.currentTimeMillis)
      return { matched: ids.length, complete: true, ...tallyChanges(changes), to, next: null }
    }
    const { selection, to } = yield* selectedBy(given, verb)
    const batch = { after: given.after, dryRun: given.dry_run, limit: mostChanged, lookMs }
    return { ...(yield* changeMatching(selection, batch, work)), to }
  }).pipe(Effect.catchDefect(refuseCursor))

export const cancelJobs = ({ payload }: InputOf<"cancelJobs">, caller: Caller) =>
  bulk(payload, "cancel", (id) => toleratingEnd(cancel(id, caller)))

export const retryJobs = ({ payload }: InputOf<"retryJobs">, caller: Caller) =>
  bulk(payload, "retry", (id) => toleratingRefusal(retry(id, caller)))

export const promoteJobs = ({ payload }: InputOf<"promoteJobs">, caller: Caller) =>
  bulk(payload, "promote", (id) => toleratingEnd(promote(id, caller)))
