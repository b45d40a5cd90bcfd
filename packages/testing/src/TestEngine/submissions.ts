import type { Job, JobId } from "@kiln/core/domain"
import { type EmbeddedServices, JobEvents } from "@kiln/core/effect"
import { JobDirectory } from "@kiln/core/ports"
import type { Kind } from "@kiln/core"
import * as Context from "effect/Context"
import type { RunInEngine } from "./EngineAccess.ts"
import type { SubmittedJob } from "./TestEngine.ts"

/** Records submissions from now on. */
export const noteSubmissions = <K extends Kind>(context: Context.Context<EmbeddedServices>, inside: RunInEngine) => {
  const jobIds: Array<JobId> = []
  Context.get(context, JobEvents).listen((event) => {
    if (event.type === "queued") jobIds.push(event.jobId)
  })
  return {
    /** Adds jobs of a transaction, of which the engine does not learn. */
    add: (committed: ReadonlyArray<JobId>) => void jobIds.push(...committed),
    list: async (): Promise<ReadonlyArray<SubmittedJob<K>>> => {
      const jobs = await inside(Context.get(context, JobDirectory).readJobs(jobIds))
      // The store's rows are untyped by kind.
      return jobs.flatMap((job) => (job === undefined ? [] : [submittedJob(job) as SubmittedJob<K>]))
    },
  }
}

const submittedJob = ({ id, kind, mode, priority, projectId, request, status }: Job) => ({
  id,
  kind,
  request,
  mode,
  project: projectId.slice("prj_".length),
  priority,
  status,
})
