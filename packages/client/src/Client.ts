import type {
  CallOptions,
  CreateOptions,
  RunOptions,
  SendOptions,
  StreamOptions,
  WaitOptions,
} from "./ClientOptions.ts"
import type { FinishedJob, JobReference, JobTypes } from "./JobStates.ts"
import type { FileBody } from "./sendUpload.ts"
import type { BuiltInJobs, CreateImage, CreateSpeech, CreateUpload, CreateVoiceTurn, Upload } from "./wire.ts"

/** Describes a file that is sent and used in one call. What is missing is read from the file. */
export type FileAnnouncement = Partial<CreateUpload>

/** Creates jobs of one kind. */
export interface JobMethods<Job extends JobTypes> {
  readonly create: (request: Job["request"], options?: CreateOptions) => Promise<Job["job"]>
  /** Creates a job and waits for its result. Rejects with `JobFailed` for a job without one. */
  readonly run: (request: Job["request"], options?: RunOptions) => Promise<DoneJob<Job["state"]>>
}

/** Creates jobs of one kind that consumes an upload. */
export interface FileJobMethods<Job extends JobTypes> extends JobMethods<Job> {
  /** Announces the file, sends it, and creates the job. Each call makes a new upload and a new job. */
  readonly createFromFile: (
    file: FileBody,
    about: FileAnnouncement & Omit<Job["request"], Job["upload"]>,
    options?: CallOptions,
  ) => Promise<Job["job"]>
  /** Announces the file, sends it, creates the job and waits for its result. Rejects with `JobFailed` for a job without one. */
  readonly runFromFile: (
    file: FileBody,
    about: FileAnnouncement & Omit<Job["request"], Job["upload"]>,
    options?: RunOptions,
  ) => Promise<DoneJob<Job["state"]>>
}

/** A job that is done, with its output. */
export type DoneJob<State> = State & {
  readonly status: "done"
  readonly output: State extends { readonly output?: infer Output } ? NonNullable<Output> : unknown
}

type BuiltInState<Type extends keyof BuiltInJobs> = DoneJob<BuiltInJobs[Type]["state"]>

/** The built-in kinds as one call each: upload, job, wait and download. They reject with `JobFailed` for a job without a result. */
export interface WholeCalls {
  /** Transcribes a recording. Its format and length are read from the file. */
  readonly transcribe: (
    file: FileBody,
    about?: FileAnnouncement,
    options?: RunOptions,
  ) => Promise<{ readonly transcript: string; readonly state: BuiltInState<"transcription"> }>
  /** Turns a text into speech. */
  readonly speak: (
    request: CreateSpeech,
    options?: RunOptions,
  ) => Promise<{ readonly audio: Blob; readonly state: BuiltInState<"speech_synthesis"> }>
  /** Answers a recording with text and speech. */
  readonly turn: (
    file: FileBody,
    about: FileAnnouncement & Omit<CreateVoiceTurn, "upload_id">,
    options?: RunOptions,
  ) => Promise<{ readonly text: string; readonly audio: Blob; readonly state: BuiltInState<"voice_turn"> }>
  /** Generates an image from a text. */
  readonly image: (
    request: CreateImage,
    options?: RunOptions,
  ) => Promise<{ readonly image: Blob; readonly state: BuiltInState<"image_generation"> }>
}

type MethodsOf<Job> = Job extends JobTypes
  ? [Job["upload"]] extends [never]
    ? JobMethods<Job>
    : FileJobMethods<Job>
  : never
type NameOf<Job> = Job extends JobTypes ? Job["methods"] : never
type StateOf<Job> = Job extends JobTypes ? Job["state"] : never

/** A signal that a job has received. */
export interface SentSignal {
  readonly id: string
  readonly name: string
  /** Whether the job gets this value. */
  readonly is_first: boolean
}

/** A part of a job's result. */
export interface JobChunk<Value = unknown> {
  readonly index: number
  readonly attempt: number
  readonly value: Value
}

type ChunkOf<Job> = Job extends { readonly chunk: infer Chunk } ? Chunk : unknown

/** Reads, awaits, signals, streams and erases jobs. */
export interface Jobs<All = BuiltInJobs> {
  /** Returns the current state of a job. */
  readonly get: <Type extends keyof All & string>(
    job: JobReference<Type>,
    options?: CallOptions,
  ) => Promise<StateOf<All[Type]>>
  /**
   * Waits until a job is done or failed: the service holds each request until the job ends, or is polled at the interval that it
   * recommends. Rejects with `WaitTimeout` after
   * `timeoutMs`. Keeps polling while the service is temporarily unavailable.
   */
  readonly wait: <Type extends keyof All & string>(
    job: JobReference<Type>,
    options?: WaitOptions,
  ) => Promise<FinishedJob<StateOf<All[Type]>>>
  /**
   * Sends a signal to a job of a custom kind, which waits for it, now or later. The first value of each name counts: `is_first` is false
   * if another came before. Repeating the call has no effect. Rejects with `job_finished` once the job has ended.
   */
  readonly signal: (
    job: JobReference<Exclude<keyof All & string, keyof BuiltInJobs>>,
    name: string,
    value?: unknown,
    options?: CallOptions,
  ) => Promise<SentSignal>
  /**
   * Reads what a job of a custom kind emits, in order, until it has ended. A connection that breaks is opened again, after the last chunk.
   * If `attempt` changes, the job began its work again.
   */
  readonly stream: <Type extends Exclude<keyof All & string, keyof BuiltInJobs>>(
    job: JobReference<Type>,
    options?: StreamOptions,
  ) => AsyncIterable<JobChunk<ChunkOf<All[Type]>>>
  /** Permanently deletes the texts and files of a finished job. Its status and charge stay. */
  readonly eraseData: (job: JobReference<keyof All & string>, options?: CallOptions) => Promise<void>
}

/**
 * The service as methods, such as `client.speech.create` for each kind. Requests and responses have the same field names as the
 * HTTP API, its documentation and its logs. Every method rejects with `ApiError`, `ConnectionLost`, or the reason of its signal.
 */
export type Client<All = BuiltInJobs> = {
  readonly uploads: {
    /** Announces a file. The returned URL is valid for one transfer within 15 minutes. */
    readonly create: (request: CreateUpload, options?: CallOptions) => Promise<Upload>
    /** Sends the file, at most `max_bytes`. */
    readonly send: (upload: Upload, file: FileBody, options: SendOptions) => Promise<void>
  }
  readonly jobs: Jobs<All>
} & WholeCalls & { readonly [Type in keyof All as NameOf<All[Type]>]: MethodsOf<All[Type]> }
