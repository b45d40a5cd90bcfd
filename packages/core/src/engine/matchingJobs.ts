import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "../domain/index.ts"
import { monotonicMs } from "../domain/monotonicMs.ts"
import { JobDirectory, type JobQuery, type JobStore, type JobSummary, type Switchboard } from "../ports/index.ts"

/** Keeps those of these jobs that match. */
export type MatchJobs = (
  jobs: ReadonlyArray<JobSummary>,
) => Effect.Effect<ReadonlyArray<JobSummary>, StoreUnavailable, JobStore | JobDirectory | Switchboard>

/** Jobs that a filter selects. */
export interface Selection {
  /** What the store selects. Each query is a list of its own, and they follow one another. */
  readonly queries: ReadonlyArray<JobQuery>
  /** What no store has an index for, and is decided job by job. */
  readonly matches?: MatchJobs | undefined
}

/** Rows that are looked at together, where each has to be looked at. */
const lookedAtOnce = 200

/** Continues at a place: the number of the query, and the cursor of the store. */
const placeOf = (after: string | undefined, queries: number) => {
  if (after === undefined) return { index: 0, cursor: undefined }
  const [, index = "", cursor = ""] = /^(\d) (.*)$/.exec(after) ?? []
  // The stores refuse their own cursors in the same way.
  if (index === "" || Number(index) >= queries) throw new TypeError("invalid cursor")
  return { index: Number(index), cursor: cursor === "" ? undefined : cursor }
}

/**
 * Returns the next page of a query, with those of its jobs that match: at most `most`. Where more match, the page ends with the last
 * one that is returned.
 */
const lookAt = Effect.fnUntraced(function* (
  query: JobQuery,
  after: string | undefined,
  matches: MatchJobs,
  most: number,
) {
  const directory = yield* JobDirectory
  let limit = lookedAtOnce
  while (true) {
    const page = yield* directory.listJobs({ ...query, after, limit })
    const found = yield* matches(page.jobs)
    const last = found[most - 1]
    if (last === undefined || found.length === most) return { page, found }
    // Only the store can tell the cursor after a job: a shorter page ends there.
    limit = page.jobs.findIndex(({ id }) => id === last.id) + 1
  }
})

/**
 * Returns the next jobs of a selection: it looks until it has `limit` of them, or for `lookMs`, but at each of the queries that it gets
 * to at least once, so that a short list is read to its end however slow the store is. An invalid cursor is a defect (`TypeError`).
 */
export const readMatching = Effect.fnUntraced(function* (
  { matches, queries }: Selection,
  { after, limit, lookMs }: { readonly after?: string | undefined; readonly limit: number; readonly lookMs: number },
) {
  const directory = yield* JobDirectory
  const jobs: Array<JobSummary> = []
  let lookedAt = 0
  let oldest: number | undefined
  let { cursor, index } = yield* Effect.sync(() => placeOf(after, queries.length))
  const until = (yield* monotonicMs) + lookMs
  do {
    const query = queries[index]
    if (query === undefined) return { jobs, next: null, lookedAt, oldest }
    const most = limit - jobs.length
    const { found, page } =
      matches === undefined
        ? yield* Effect.map(directory.listJobs({ ...query, after: cursor, limit: most }), (all) => ({
            page: all,
            found: all.jobs,
          }))
        : yield* lookAt(query, cursor, matches, most)
    lookedAt += page.jobs.length
    oldest = page.jobs.at(-1)?.createdAt ?? oldest
    jobs.push(...found)
    cursor = page.next
    if (cursor === undefined) index += 1
  } while (jobs.length < limit && (cursor === undefined || (yield* monotonicMs) < until))
  const next = index < queries.length ? `${index} ${cursor ?? ""}` : null
  return { jobs, next, lookedAt, oldest }
})
/** Jobs that a dry run counts at most, and the time for it. */
const mostCounted = 100_000
const countMs = 4_000
const pageSize = 500

/** Counts the jobs of a selection: up to about 100,000, for up to four seconds. */
export const countMatching = Effect.fnUntraced(function* (selection: Selection) {
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
