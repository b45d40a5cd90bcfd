import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { isId, type JobStatus, type StoreUnavailable } from "@kiln/core/domain"
import { monotonicMs, type Operator } from "@kiln/core/effect"
import type { InputOf } from "../api/index.ts"
import { refuse } from "./ApiError.ts"
import type { Caller } from "./Caller.ts"
import { cancel, retry } from "./changes.ts"
import { formatTime } from "./format.ts"
import { refuseCursor } from "./jobFields.ts"
import { readMatching, type Selection, selectionOf } from "./matching.ts"

/** Jobs that a dry run counts at most, and the time for it. */
const mostCounted = 100_000
const countMs = 4_000
const pageSize = 500
/** Jobs that one request changes, about, and the time in which it looks for them. The page repeats it for the rest. */
const mostChanged = 100
const lookMs = 500

type Given = InputOf<"cancelJobs">["payload"]
type Change = "changed" | "skipped" | { readonly refused: string }
type Work<R> = (id: string) => Effect.Effect<Change, StoreUnavailable, R>

/** Selects the jobs of a filter that is not empty, created until now. */
const selectedBy = Effect.fnUntraced(function* (given: Given, statuses: ReadonlyArray<JobStatus>) {
  const { filter } = given
  const isEmpty = filter === undefined || Object.keys(filter).every((name) => name === "to" || name === "status")
  if (filter === undefined || isEmpty) return yield* Effect.fail(refuse("empty_filter"))
  const to = filter.to ?? formatTime(yield* Clock.currentTimeMillis)
  return { selection: yield* selectionOf({ ...filter, to }, statuses), to }
})

const count = Effect.fnUntraced(function* (selection: Selection) {
  const until = (yield* monotonicMs) + countMs
  let matched = 0
  let after: string | undefined
  do {
    const leftMs = until - (yield* monotonicMs)
    if (matched >= mostCounted || leftMs <= 0) return { matched, complete: false }
    const page = yield* readMatching(selection, { after, limit: pageSize, lookMs: leftMs })
    matched += page.jobs.length
    after = page.next ?? undefined
  } while (after !== undefined)
  return { matched, complete: true }
})

const tally = (changes: ReadonlyArray<Change>) => {
  const messages = changes.flatMap((change) => (typeof change === "object" ? [change.refused] : []))
  return {
    changed: changes.filter((change) => change === "changed").length,
    skipped: changes.filter((change) => change === "skipped").length,
    refused: [...Map.groupBy(messages, (message) => message)].map(([message, all]) => ({ message, count: all.length })),
  }
}

/** Counts or changes the selected jobs: those of a list, or a part of those that match a filter. */
const bulk = <R>(given: Given, statuses: ReadonlyArray<JobStatus>, work: Work<R>) =>
  Effect.gen(function* () {
    const ids = given.job_ids
    if (ids !== undefined) {
      if (ids.length === 0) return yield* Effect.fail(refuse("empty_filter"))
      if (given.filter !== undefined || ids.length > pageSize || !ids.every((id) => isId("job", id)))
        return yield* Effect.fail(refuse("invalid_request", `give up to ${pageSize} job_ids, or a filter`))
      const changes = given.dry_run ? [] : yield* Effect.forEach(ids, work)
      const to = formatTime(yield* Clock.currentTimeMillis)
      return { matched: ids.length, complete: true, ...tally(changes), to, next: null }
    }
    const { selection, to } = yield* selectedBy(given, statuses)
    if (given.dry_run) return { ...(yield* count(selection)), ...tally([]), to, next: null }
    const batch = yield* readMatching(selection, { after: given.after, limit: mostChanged, lookMs })
    const changes = yield* Effect.forEach(batch.jobs, ({ id }) => work(id))
    return { matched: batch.jobs.length, complete: batch.next === null, ...tally(changes), to, next: batch.next }
  }).pipe(Effect.catchDefect(refuseCursor))

const canceling =
  (caller: Caller): Work<Operator> =>
  (id) =>
    cancel(id, caller).pipe(
      Effect.as<Change>("changed"),
      Effect.catchTags({
        JobNotFound: () => Effect.succeed<Change>("skipped"),
        JobFinished: () => Effect.succeed<Change>("skipped"),
      }),
    )

const retrying =
  (caller: Caller): Work<Operator> =>
  (id) =>
    retry(id, caller).pipe(
      Effect.map(({ replayed }): Change => (replayed ? "skipped" : "changed")),
      Effect.catch((error) =>
        error._tag === "StoreUnavailable" ? Effect.fail(error) : Effect.succeed<Change>({ refused: error.message }),
      ),
    )

export const cancelJobs = ({ payload }: InputOf<"cancelJobs">, caller: Caller) =>
  bulk(payload, ["queued", "processing"], canceling(caller))

export const retryJobs = ({ payload }: InputOf<"retryJobs">, caller: Caller) =>
  bulk(payload, ["failed"], retrying(caller))
