import * as Effect from "effect/Effect"
import { idTime, isPromised, type JobStatus, waitingReasons } from "@kiln/core/domain"
import { type MatchJobs, type Selection, waitingForJobs } from "@kiln/core/effect"
import { JobDirectory, type JobQuery, type JobSummary } from "@kiln/core/ports"
import { refuse } from "./ApiError.ts"
import { type Filter, queryOf } from "./jobFields.ts"

/** Clocks of the processes that create jobs may differ from the store's by this much. */
const clockSkewMs = 300_000
const shortestPart = 4
const idLength = 26

/** Recognizes ids by a part: the beginning, any part of the rest, or `job_…rest` as the page shortens them. */
const idPartOf = Effect.fnUntraced(function* (text: string | undefined) {
  if (text === undefined) return undefined
  const [start = "", end] = text.toLowerCase().split("…")
  const body = start.replace(/^job_/, "")
  if (!/^[0-9a-z]*$/.test(body + (end ?? "")) || (body + (end ?? "")).length < shortestPart)
    return yield* Effect.fail(refuse("invalid_request", `id must be ${shortestPart} or more characters of a job's id`))
  const isStart = start.startsWith("job_")
  const [first, last] = ["0", "z"].map((pad) => (isStart ? idTime(body.padEnd(idLength, pad)) : undefined))
  return {
    matches: (id: string) =>
      end !== undefined
        ? id.startsWith(start) && id.endsWith(end)
        : isStart
          ? id.startsWith(start)
          : id.includes(body, 4),
    createdFrom: first === undefined ? undefined : first - clockSkewMs,
    createdTo: last === undefined || (body.length === idLength && isPromised(body)) ? undefined : last + clockSkewMs,
  }
})

const largest = (one: number | undefined, other: number | undefined) =>
  one === undefined || other === undefined ? (one ?? other) : Math.max(one, other)
const smallest = (one: number | undefined, other: number | undefined) =>
  one === undefined || other === undefined ? (one ?? other) : Math.min(one, other)

const unfinished: ReadonlyArray<JobStatus> = ["queued", "processing"]

const waitsFor = (reason: string) =>
  Effect.fnUntraced(function* (summaries: ReadonlyArray<JobSummary>) {
    const jobs = yield* (yield* JobDirectory).readJobs(summaries.map(({ id }) => id))
    const known = jobs.filter((job) => job !== undefined)
    const reasons = yield* waitingForJobs(known)
    const waiting = new Set(
      known.filter((_, n) => reasons[n]?.some((each) => each.reason === reason)).map(({ id }) => id),
    )
    return summaries.filter(({ id }) => waiting.has(id))
  })

/** Returns the jobs that a filter selects, of these statuses; of any by default. */
export const selectionOf = Effect.fnUntraced(function* (filter: Filter, statuses?: ReadonlyArray<JobStatus>) {
  const { id, waiting_for: reason, ...stored } = filter
  const part = yield* idPartOf(id)
  if (reason !== undefined && !waitingReasons.some((each) => each === reason))
    return yield* Effect.fail(refuse("invalid_request", `waiting_for must be one of ${waitingReasons.join(", ")}`))
  const query = yield* queryOf(stored)
  const bounded: JobQuery = {
    ...query,
    createdFrom: largest(query.createdFrom, part?.createdFrom),
    createdTo: smallest(query.createdTo, part?.createdTo),
  }
  // Only an unfinished job waits.
  const wanted = (statuses ?? (reason === undefined ? undefined : unfinished))
    ?.filter((status) => query.status === undefined || query.status === status)
    .filter((status) => reason === undefined || unfinished.includes(status))
  const waits = reason === undefined ? undefined : waitsFor(reason)
  const matches: MatchJobs = (jobs) => {
    const named = part === undefined ? jobs : jobs.filter((job) => part.matches(job.id))
    return waits === undefined || named.length === 0 ? Effect.succeed(named) : waits(named)
  }
  return {
    queries: wanted === undefined ? [bounded] : wanted.map((status) => ({ ...bounded, status })),
    matches: part === undefined && waits === undefined ? undefined : matches,
  } satisfies Selection
})
