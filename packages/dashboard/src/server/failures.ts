import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { recordLook } from "@kiln/core/effect"
import { type FinishedJob, JobDirectory } from "@kiln/core/ports"
import type { InputOf, ResultOf } from "../api/index.ts"
import { type Caller, observerOf } from "./Caller.ts"
import { formatTime } from "./format.ts"

const spanMs = { "1h": 3_600_000, "24h": 24 * 3_600_000 } as const
/** Finished jobs of each type that are read at most, and failed ones whose messages are. */
const mostJobs = 20_000
const mostMessages = 300

type Failed = FinishedJob & { readonly message: string | null }

const readFailed = Effect.fnUntraced(function* (withinMs: number) {
  const jobs = yield* (yield* JobDirectory).listFinished({ withinMs, limit: mostJobs })
  return { jobs: jobs.filter(({ status }) => status === "failed"), complete: jobs.length < mostJobs }
})

const firstLine = (text: string): string => text.split("\n", 1)[0]?.slice(0, 200) ?? ""

const withMessage = Effect.fnUntraced(function* (job: FinishedJob) {
  const attempts = (yield* (yield* JobDirectory).listAttempts(job.id)) ?? []
  const last = attempts.at(-1)
  return { ...job, message: last === undefined ? null : firstLine(last.message) }
})

const grouped = (jobs: ReadonlyArray<Failed>): ResultOf<"failures">["groups"] =>
  [...Map.groupBy(jobs, ({ errorCode, kind, message }) => JSON.stringify([kind, errorCode, message])).values()]
    .flatMap((all) => {
      const [first] = all
      if (first === undefined) return []
      const times = all.map(({ finishedAt }) => finishedAt)
      return [
        {
          type: first.kind,
          error_code: first.errorCode ?? "",
          message: first.message,
          count: all.length,
          created_from: formatTime(all.reduce((least, { createdAt }) => Math.min(least, createdAt), first.createdAt)),
          first_at: formatTime(times.reduce((one, other) => Math.min(one, other))),
          last_at: formatTime(times.reduce((one, other) => Math.max(one, other))),
          example_job_id: first.id,
        },
      ]
    })
    .toSorted((one, other) => other.count - one.count)

/** Groups the jobs that failed within the span. */
export const failures = Effect.fnUntraced(function* ({ query: { span = "1h" } }: InputOf<"failures">) {
  const since = (yield* Clock.currentTimeMillis) - spanMs[span]
  const { complete, jobs } = yield* readFailed(spanMs[span])
  return { since: formatTime(since), complete, groups: grouped(jobs.map((job) => ({ ...job, message: null }))) }
})

/** Groups them by message, too. */
export const failureMessages = Effect.fnUntraced(function* (
  { query: { span = "1h" } }: InputOf<"failureMessages">,
  caller: Caller,
) {
  yield* recordLook(observerOf(caller), { action: "failures.read-messages", subject: null, details: { span } })
  const since = (yield* Clock.currentTimeMillis) - spanMs[span]
  const { complete, jobs } = yield* readFailed(spanMs[span])
  const read = yield* Effect.forEach(jobs.slice(0, mostMessages), withMessage, { concurrency: 4 })
  return { since: formatTime(since), complete: complete && jobs.length <= mostMessages, groups: grouped(read) }
})
