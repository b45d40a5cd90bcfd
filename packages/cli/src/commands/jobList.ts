import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { requireKnownKind } from "@kiln/core/effect"
import { JobKinds } from "@kiln/core/kinds"
import { JobDirectory, type JobPage, type JobSummary } from "@kiln/core/ports"
import { misused } from "../CommandFailed.ts"
import { answer, formatTable, formatTime } from "../Output.ts"
import { withKinds } from "../withKinds.ts"
import { summaryFields } from "./jobFields.ts"
import { filterFlags, queryOf } from "./jobFilter.ts"

const mostJobs = 1_000

const flags = {
  status: Flag.Literals("status", ["queued", "processing", "done", "failed"]).pipe(
    Flag.withDescription("Only jobs with this status"),
    Flag.optional,
  ),
  ...filterFlags,
  limit: Flag.Int("limit").pipe(Flag.withDescription(`Maximum number of jobs, 1 to ${mostJobs}`), Flag.withDefault(50)),
  after: Flag.String("after").pipe(
    Flag.withMetavar("CURSOR"),
    Flag.withDescription("Continue after this cursor, which the previous list printed"),
    Flag.optional,
  ),
}

/** Refuses a type that nobody has, with the nearest name. */
export const requireKnownType = Effect.fnUntraced(function* (kind: string | undefined) {
  if (kind === undefined) return
  const known = (yield* JobKinds).map(({ name }) => name)
  yield* requireKnownKind(kind, known).pipe(
    Effect.catchTag("KindUnknown", (error) => Effect.fail(misused(`--type: ${error.message}`))),
  )
})

/** Reads up to `limit` jobs. A store may answer with short pages where few jobs match. */
const readMatching = Effect.fnUntraced(function* (query: JobPage) {
  const directory = yield* JobDirectory
  yield* requireKnownType(query.kind)
  const jobs: Array<JobSummary> = []
  let after = query.after
  do {
    const page = yield* directory.listJobs({ ...query, after, limit: query.limit - jobs.length })
    jobs.push(...page.jobs)
    after = page.next
  } while (after !== undefined && jobs.length < query.limit)
  return { jobs, next: after }
})

/** Each store has its own cursors, and treats an invalid one as a defect. */
const refuseCursor = (defect: unknown) =>
  defect instanceof TypeError && defect.message === "invalid cursor"
    ? Effect.fail(misused("--after must be a cursor printed by kiln job list"))
    : Effect.die(defect)

export const jobList = Command.make("list", flags, (given) =>
  withKinds(
    Effect.gen(function* () {
      const { limit } = given
      if (limit < 1 || limit > mostJobs) return yield* misused(`--limit must be from 1 to ${mostJobs}`)
      const { jobs, next } = yield* readMatching({
        status: Option.getOrUndefined(given.status),
        ...(yield* queryOf(given)),
        after: Option.getOrUndefined(given.after),
        limit,
      }).pipe(Effect.catchDefect(refuseCursor))
      const rows = jobs.map((job) => [
        job.id,
        job.kind,
        job.mode,
        job.status,
        job.errorCode ?? job.warningCode,
        String(job.attempts),
        formatTime(job.createdAt),
        formatTime(job.finishedAt),
      ])
      const table = formatTable(
        ["JOB", "TYPE", "MODE", "STATUS", "CODE", "ATTEMPTS", "CREATED", "FINISHED"],
        rows,
        "no jobs match",
      )
      yield* answer({
        json: { jobs: jobs.map(summaryFields), next: next ?? null },
        text: next === undefined ? table : `${table}\n\nThere are more: continue with --after "${next}"`,
      })
    }),
  ),
).pipe(
  Command.withDescription("List jobs of all projects, newest first"),
  Command.withExamples([
    { command: "kiln job list --status failed --from 2026-11-01", description: "Failed jobs since November 1" },
    { command: "kiln job list --error-code provider_unavailable --tag nightly", description: "By code and tag" },
  ]),
)
