import type { JobBody } from "./routes/JobFamily.ts"
import type { JobRoute } from "./routes/jobRoute.ts"
import type { WireOutput, WireRequest, WireUpload } from "./routes/wireTypes.ts"
import type { AudioJobState, BuiltInJobs, ImageJobState, JobMode } from "./wire.ts"

/** What the client's methods take and return for one kind of job. */
export interface JobTypes {
  /** Where its methods are: `client.speech`. */
  readonly methods: string
  readonly request: unknown
  readonly job: unknown
  /** What polling answers. */
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
      /** Once done, as long as the job keeps its data. */
      readonly output?: WireOutput<Route>
    }
    readonly upload: WireUpload<Route>
  }
}

/** What polling a job answers, by the job's `type`. */
export type JobStates = { readonly [Type in keyof BuiltInJobs]: BuiltInJobs[Type]["state"] }

export type JobType = keyof JobStates

/** A job that will not change any more, but for the loss of its data. */
export type FinishedJob<State = JobStates[JobType]> = State & { readonly status: "done" | "failed" }

/** Which job is meant. A created job is one; keep `id` and `type` to find it again later. */
export interface JobReference<Type extends string = JobType> {
  readonly id: string
  readonly type: Type
}
