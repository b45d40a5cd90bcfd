import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { isFinished, type JobId, type Principal, type ProjectId } from "@kiln/core/domain"
import { listSchedules, purgeBlobs, removeSchedule } from "@kiln/core/effect"
import { JobDirectory, JobStore, KeyDirectory } from "@kiln/core/ports"
import { causeMessage, failed, misused } from "../CommandFailed.ts"
import { findAnyProject } from "../findProject.ts"
import { claimBlobStore } from "../installation/claimBlobStore.ts"
import { answer } from "../Output.ts"
import { appendChange, recordChange } from "../recordChange.ts"
import { withBlobs } from "../withBlobs.ts"

/** Jobs that one step reads, cancels and erases. */
const stepSize = 100

interface Found {
  readonly jobId: JobId
  readonly principal: Principal
}

/** Cancels and erases the jobs of one page. A worker that runs one of them notices within a second. */
const eraseJobs = Effect.fnUntraced(function* (jobs: ReadonlyArray<Found>) {
  const store = yield* JobStore
  const outcomes = yield* store.eraseJobs(jobs)
  const purges = outcomes.flatMap((outcome) => ("purges" in outcome ? outcome.purges : []))
  // The records say that these files are due, so a failure leaves them to the servers.
  const unremoved = yield* purgeBlobs(purges).pipe(
    Effect.as(undefined),
    Effect.catchTag("BlobUnavailable", (error) => Effect.succeed(causeMessage(error.cause))),
  )
  return { erased: outcomes.filter(({ _tag }) => _tag === "Erased").length, unremoved }
})

/** Goes through all jobs of a project. New ones cannot be created with keys, because they no longer work. */
const eraseAll = Effect.fnUntraced(function* (projectId: ProjectId) {
  const directory = yield* JobDirectory
  const store = yield* JobStore
  const sum = { canceled: 0, erased: 0, unremoved: undefined as string | undefined }
  let after: string | undefined
  do {
    const { jobs, next } = yield* directory.listJobs({ projectId, limit: stepSize, after })
    const unfinished = jobs.filter((job) => !isFinished(job)).map(({ id }) => id)
    const canceled = unfinished.length === 0 ? [] : yield* store.cancelJobs(unfinished)
    sum.canceled += canceled.filter((outcome) => outcome === "Canceled").length
    const done = yield* eraseJobs(
      jobs.map(({ id, keyId, mode }) => ({ jobId: id, principal: { keyId, mode, projectId, scopes: [] } })),
    )
    sum.erased += done.erased
    sum.unremoved ??= done.unremoved
    after = next
  } while (after !== undefined)
  return sum
})

const flags = {
  project: Argument.String("PROJECT").pipe(Argument.withDescription("Name or id of the project")),
  confirm: Flag.String("confirm").pipe(
    Flag.withMetavar("NAME"),
    Flag.withDescription("The name of the project again, because this cannot be undone"),
  ),
}

/** Without this, they would submit jobs again. */
const removeSchedules = Effect.fnUntraced(function* (projectId: ProjectId) {
  const { schedules } = yield* listSchedules
  const own = schedules.filter(({ owner }) => owner.projectId === projectId)
  for (const { name } of own) yield* removeSchedule(name)
  return own.length
})

export const projectErase = Command.make("erase", flags, ({ confirm, project: nameOrId }) =>
  withBlobs(() =>
    Effect.gen(function* () {
      const { hasRecord, id, name } = yield* findAnyProject(nameOrId)
      if (confirm !== name)
        return yield* misused(`--confirm must be the project's name, ${JSON.stringify(name)}, to erase it`)
      yield* claimBlobStore
      const keys = yield* KeyDirectory
      // The entry stands before the work, which takes many steps and can be repeated.
      if (hasRecord)
        yield* keys
          .disableProject(id, true)
          .pipe(recordChange({ action: "project.erase", subject: id, details: { name } }))
      else yield* appendChange("project.erase", id, { name })
      const own = (yield* keys.listKeys).filter(({ projectId, revokedAt }) => projectId === id && revokedAt === null)
      for (const key of own) yield* keys.revokeKey(key.id)
      const schedules = yield* removeSchedules(id)
      const { canceled, erased, unremoved } = yield* eraseAll(id)
      if (unremoved !== undefined)
        return yield* failed(
          `the data of ${name} can no longer be read, but not all files could be removed yet (${unremoved}); a running server removes them later`,
        )
      yield* answer({
        json: {
          project_id: id,
          name,
          revoked_keys: own.length,
          removed_schedules: schedules,
          canceled_jobs: canceled,
          erased_jobs: erased,
        },
        text:
          `${name} is ${hasRecord ? "disabled and " : ""}erased: ${own.length} keys revoked, ${schedules} schedules removed, ${canceled} jobs canceled, ` +
          `the data of ${erased} jobs deleted. ` +
          (hasRecord ? "" : "A program that embeds the engine can still submit jobs in this project. ") +
          "Records and charges stay until their retention ends; uploads that no job used are removed when they expire, within 24 hours.",
      })
    }),
  ),
).pipe(
  Command.withDescription(
    "Disable a project, revoke its keys, remove its schedules, cancel its jobs and delete the data of all of them; records and charges stay",
  ),
)
