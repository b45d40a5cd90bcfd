import type { CallOptions, CreateOptions, SendOptions, WaitOptions } from "./ClientOptions.ts"
import type { FinishedJob, JobReference, JobTypes } from "./JobStates.ts"
import type { FileBody } from "./sendUpload.ts"
import type { BuiltInJobs, CreateUpload, Upload } from "./wire.ts"

/** What a file is, when it is sent and used in one call. */
export type FileAnnouncement = CreateUpload

/** Creates jobs of one kind. */
export interface JobMethods<Job extends JobTypes> {
  readonly create: (request: Job["request"], options?: CreateOptions) => Promise<Job["job"]>
}

/** Creates jobs of one kind that consumes an upload. */
export interface FileJobMethods<Job extends JobTypes> extends JobMethods<Job> {
  /** Announces the file, sends it, and creates the job. Each call is an upload, and so a job, of its own. */
  readonly createFromFile: (
    file: FileBody,
    about: FileAnnouncement & Omit<Job["request"], Job["upload"]>,
    options?: CallOptions,
  ) => Promise<Job["job"]>
}

type MethodsOf<Job> = Job extends JobTypes
  ? [Job["upload"]] extends [never]
    ? JobMethods<Job>
    : FileJobMethods<Job>
  : never
type NameOf<Job> = Job extends JobTypes ? Job["methods"] : never
type StateOf<Job> = Job extends JobTypes ? Job["state"] : never

/** Reads, awaits and erases jobs. */
export interface Jobs<All = BuiltInJobs> {
  /** The job as it is now. */
  readonly get: <Type extends keyof All & string>(
    job: JobReference<Type>,
    options?: CallOptions,
  ) => Promise<StateOf<All[Type]>>
  /**
   * The job once it is done or failed, asked for as often as the service says. Rejects with `WaitTimeout` after
   * `timeoutMs`. A service that is away for a while is waited for too.
   */
  readonly wait: <Type extends keyof All & string>(
    job: JobReference<Type>,
    options?: WaitOptions,
  ) => Promise<FinishedJob<StateOf<All[Type]>>>
  /** Deletes the texts and files of a finished job for good. Its status and bill stay. */
  readonly eraseData: (job: JobReference<keyof All & string>, options?: CallOptions) => Promise<void>
}

/**
 * The service, as methods: `client.speech.create` and the like for each kind. Requests and answers are those of the HTTP API,
 * field by field: what is documented there, and what stands in its logs, has the same name here. Every method rejects with
 * `ApiError`, `ConnectionLost`, or the reason of the signal it was given.
 */
export type Client<All = BuiltInJobs> = {
  readonly uploads: {
    /** Announces a file. Good for one transfer, for 15 minutes. */
    readonly create: (request: CreateUpload, options?: CallOptions) => Promise<Upload>
    /** Sends the file, at most `max_bytes`. */
    readonly send: (upload: Upload, file: FileBody, options: SendOptions) => Promise<void>
  }
  readonly jobs: Jobs<All>
} & { readonly [Type in keyof All as NameOf<All[Type]>]: MethodsOf<All[Type]> }
