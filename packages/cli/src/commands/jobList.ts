import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { builtInKinds } from "@kiln/core/kinds"
import { JobDirectory, type JobPage, type JobSummary } from "@kiln/core/ports"
import { misused } from "../CommandFailed.ts"
import { findProjectId, projectFlag } from "../findProject.ts"
import { answer, formatTable, formatTime } from "../Output.ts"
import { withStores } from "../withStores.ts"
import { momentOf } from "./billingMoment.ts"
import { summaryFields } from "./jobFields.ts"

const mostJobs = 1_000

const flags = {
  status: Flag.Literals("status", ["queued", "processing", "done", "failed"]).pipe(
    Flag.withDescription("Only jobs with this status"),
    Flag.optional,
  ),
  type: Flag.Literals(
    "type",
    builtInKinds().map(({ name }) => name),
  ).pipe(Flag.withDescription("Only jobs of this type"), Flag.optional),
  mode: Flag.Literals("mode", ["sandbox", "live"]).pipe(
    Flag.withDescription("Only jobs of test keys (sandbox) or of live keys"),
    Flag.optional,
  ),
  project: projectFlag,
  from: Flag.String("from").pipe(
    Flag.withMetavar("DATE"),
    Flag.withDescription("Only jobs created at this time or later: 2026-11-01 (midnight in UTC) or RFC 3339"),
    Flag.optional,
  ),
  to: Flag.String("to").pipe(
    Flag.withMetavar("DATE"),
    Flag.withDescription("Only jobs created before this time"),
    Flag.optional,
  ),
  limit: Flag.Int("limit").pipe(Flag.withDescription(`Maximum number of jobs, 1 to ${mostJobs}`), Flag.withDefault(50)),
  after: Flag.String("after").pipe(
    Flag.withMetavar("CURSOR"),
    Flag.withDescription("Continue after this cursor, which the previous list printed"),
    Flag.optional,
  ),
}

const optionalMoment = (flag: string, text: Option.Option<string>) =>
  Option.isNone(text) ? Effect.succeed(undefined) : momentOf(flag, text.value)

/** A store may answer with short pages where few jobs match. */
const readJobs = Effect.fnUntraced(function* (query: JobPage) {
  const directory = yield* JobDirectory
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
  withStores(
    Effect.gen(function* () {
      const { limit } = given
      if (limit < 1 || limit > mostJobs) return yield* misused(`--limit must be from 1 to ${mostJobs}`)
      const { jobs, next } = yield* readJobs({
        status: Option.getOrUndefined(given.status),
        kind: Option.getOrUndefined(given.type),
        mode: Option.getOrUndefined(given.mode),
        projectId: yield* findProjectId(given.project),
        createdFrom: yield* optionalMoment("from", given.from),
        createdTo: yield* optionalMoment("to", given.to),
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
  ]),
)
