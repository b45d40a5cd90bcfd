import type { JobBody } from "./routes/JobFamily.ts"
import type { JobRoute } from "./routes/jobRoute.ts"
import type { WireChunk, WireOutput, WireRequest, WireUpload } from "./routes/wireTypes.ts"
import type { AudioJobState, BuiltInJobs, ImageJobState, JobMode } from "./wire.ts"

/** The types of the client's methods for one job kind. */
export interface JobTypes {
  /** Name of its methods: `speech` for `client.speech`. */
  readonly methods: string
  readonly request: unknown
  readonly job: unknown
  /** The state that polling returns. */
  readonly state: { readonly status: string }
  /** The field that names an upload; `never` without one. */
  readonly upload: string
}

type StateOf<Body extends JobBody> = Omit<Body extends "brief" ? ImageJobState : AudioJobState, "output">

/** The jobs of routes that a client was given. */
export type RoutedJobs<R extends JobRoute> = {
  readonly [Route in R as Route["kind"]["name"]]: {
    readonly methods: Route["methods"]
    readonly request: WireRequest<Route>
    readonly job: {
      readonly id: string
      readonly object: "job"
      readonly type: Route["kind"]["name"]
      readonly mode: JobMode
      readonly status: "queued"
    }
    readonly state: StateOf<Route["family"]["body"]> & {
      /** Progress of a processing job whose kind reports it. */
      readonly progress?: { readonly value: number; readonly message: string | null }
      /** The kind's message about a failed job, as long as the job's data is kept. */
      readonly error_message?: string
      /** Present once the job is done, as long as its data is kept. */
      readonly output?: WireOutput<Route>
    }
    readonly upload: WireUpload<Route>
    readonly chunk: WireChunk<Route>
  }
}

/** The states that polling returns, by the job's `type`. */
export type JobStates = { readonly [Type in keyof BuiltInJobs]: BuiltInJobs[Type]["state"] }

export type JobType = keyof JobStates

/** A finished job. It never changes again, except that its data can be erased. */
export type FinishedJob<State = JobStates[JobType]> = State & { readonly status: "done" | "failed" }

/** Refers to a job. A created job is a reference; keep `id` and `type` to find it again later. */
export interface JobReference<Type extends string = JobType> {
  readonly id: string
  readonly type: Type
}
