import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type Grant, isFinished, type Job, type JobId } from "@kiln/core/domain"
import type { Engine } from "@kiln/core/effect"
import { AttemptFailed, JobKind } from "@kiln/core/kinds"

/** Number of jobs of the graph. */
const count = 24
/** Jobs that fail for good if they run. */
const failing: ReadonlySet<number> = new Set([1, 9, 14])

/** The jobs that a job starts after: up to three of the five before it. */
const prerequisitesOf = (n: number): ReadonlyArray<number> => [n - 5, n - 3, n - 1].filter((m) => m >= 0 && n % 6 !== 0)

/** Whether a job also runs after a failed one. */
const runsAnyway = (n: number): boolean => n % 2 === 0

/** The end of a job: its number and what it was given, or why it failed. */
const endOf = (n: number): unknown => {
  const given = prerequisitesOf(n).map(endOf)
  if (!runsAnyway(n) && given.some((end) => typeof end === "string")) return "prerequisite_failed"
  return failing.has(n) ? "content_rejected" : [n, ...given.map((end) => (typeof end === "string" ? end : null))]
}

/** A job of the graph. It tells what it was given: the codes of failed jobs, `null` for others. */
export const stage = JobKind({
  name: "stage",
  request: Schema.Struct({ n: Schema.Number }),
  run: ({ after, request: { n } }) =>
    failing.has(n)
      ? Effect.fail(new AttemptFailed({ errorCode: "content_rejected", retry: false, detail: "not wanted" }))
      : Effect.as(Effect.sleep(50), {
          files: [],
          usage: {},
          output: { value: [n, ...after.map((each) => (each.status === "done" ? null : each.errorCode))] },
        }),
})

/** Submits the graph, each job with those that it starts after. */
export const submitGraph = Effect.fnUntraced(function* (engine: Engine["Service"], grantFor: (kind: JobKind) => Grant) {
  const kind = engine.kinds.find(({ name }) => name === stage.name)
  if (kind === undefined) throw new TypeError("the simulation has no kind of its graph")
  const ids: Array<JobId> = []
  for (let n = 0; n < count; n++) {
    const after = prerequisitesOf(n).flatMap((m) => ids[m] ?? [])
    const submitted = { ...(after.length > 0 && { after }), ...(runsAnyway(n) && { afterFailure: "run" as const }) }
    const { job } = yield* engine.createJob(grantFor(kind), kind, { n }, `stage-${n}`, { submitted })
    ids.push(job.id)
  }
})

/** Returns the jobs of the graph that have not ended, or not as they had to, or before one that they start after. */
export const judgedGraph = (jobs: ReadonlyArray<Job>): ReadonlyArray<string> => {
  const stages = new Map(jobs.filter(({ kind }) => kind === stage.name).map((job) => [job.idempotencyKey, job]))
  return Array.from({ length: count }, (_, n) => n).flatMap((n) => {
    const job = stages.get(`stage-${n}`)
    if (job === undefined) return [`stage ${n} does not exist`]
    if (!isFinished(job)) return [`stage ${n} is ${job.status}`]
    const end = JSON.stringify(job.errorCode ?? job.output?.["value"])
    const early = prerequisitesOf(n).filter((m) => {
      const ended = stages.get(`stage-${m}`)?.finishedAt
      return ended === undefined || ended === null || ended > (job.finishedAt ?? 0)
    })
    return [
      ...(end === JSON.stringify(endOf(n)) ? [] : [`stage ${n} ended with ${end}`]),
      ...early.map((m) => `stage ${n} ended before stage ${m}`),
    ]
  })
}
