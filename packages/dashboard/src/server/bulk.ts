import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { isId, type JobStatus, type StoreUnavailable } from "@kiln/core/domain"
import type { Operator } from "@kiln/core/effect"
import { JobDirectory, type JobQuery } from "@kiln/core/ports"
import type { InputOf } from "../api/index.ts"
import { refuse } from "./ApiError.ts"
import type { Caller } from "./Caller.ts"
import { cancel, retry } from "./changes.ts"
import { formatTime } from "./format.ts"
import { queryOf, refuseCursor } from "./jobFields.ts"

/** Jobs that a dry run counts at most, and the time for it. */
const mostCounted = 100_000
const countMs = 4_000
const pageSize = 500
/** Jobs that one request changes at most. The page repeats it for the rest. */
const mostChanged = 100

type Given = InputOf<"cancelJobs">["payload"]
type Change = "changed" | "skipped" | { readonly refused: string }
type Work<R> = (id: string) => Effect.Effect<Change, StoreUnavailable, R>

interface Selection {
  /** Each status is a list of its own. */
  readonly queries: ReadonlyArray<JobQuery>
  readonly to: number
}

const selectionOf = Effect.fnUntraced(function* (given: Given, statuses: ReadonlyArray<JobStatus>) {
  const { filter } = given
  const isEmpty = filter === undefined || Object.keys(filter).every((name) => name === "to" || name === "status")
  if (filter === undefined || isEmpty) return yield* Effect.fail(refuse("empty_filter"))
  const query = yield* queryOf(filter)
  const to = query.createdTo ?? (yield* Clock.currentTimeMillis)
  const wanted = statuses.filter((status) => query.status === undefined || query.status === status)
  return { queries: wanted.map((status) => ({ ...query, status, createdTo: to })), to } satisfies Selection
})

const count = Effect.fnUntraced(function* ({ queries }: Selection) {
  const directory = yield* JobDirectory
  const until = performance.now() + countMs
  let matched = 0
  for (const query of queries) {
    let after: string | undefined
    do {
      if (matched >= mostCounted || performance.now() > until) return { matched, complete: false }
      const page = yield* directory.listJobs({ ...query, after, limit: pageSize })
      matched += page.jobs.length
      after = page.next
    } while (after !== undefined)
  }
  return { matched, complete: true }
})

/** Continues at a place: the number of the query, and the cursor of the store. */
const placeOf = (after: string | undefined, queries: number) => {
  if (after === undefined) return Effect.succeed({ index: 0, cursor: undefined })
  const [, index = "", cursor = ""] = /^(\d) (.*)$/.exec(after) ?? []
  return index !== "" && Number(index) < queries
    ? Effect.succeed({ index: Number(index), cursor: cursor === "" ? undefined : cursor })
    : Effect.fail(refuse("invalid_request", "after must be the next of an earlier response"))
}

const readBatch = Effect.fnUntraced(function* ({ queries }: Selection, after: string | undefined) {
  const directory = yield* JobDirectory
  const { cursor, index } = yield* placeOf(after, queries.length)
  const query = queries[index]
  if (query === undefined) return { ids: [], next: null }
  const page = yield* directory.listJobs({ ...query, after: cursor, limit: mostChanged })
  const following = index + 1 < queries.length ? `${index + 1} ` : null
  return {
    ids: page.jobs.map(({ id }) => id as string),
    next: page.next === undefined ? following : `${index} ${page.next}`,
  }
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
    const selection = yield* selectionOf(given, statuses)
    const to = formatTime(selection.to)
    if (given.dry_run) return { ...(yield* count(selection)), ...tally([]), to, next: null }
    const batch = yield* readBatch(selection, given.after)
    const changes = yield* Effect.forEach(batch.ids, work)
    return { matched: batch.ids.length, complete: batch.next === null, ...tally(changes), to, next: batch.next }
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
