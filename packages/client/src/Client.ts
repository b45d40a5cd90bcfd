import type { CallOptions, CreateOptions, SendOptions, WaitOptions } from "./ClientOptions.ts"
import type { FinishedJob, JobReference, JobStates, JobType } from "./JobStates.ts"
import type { FileBody } from "./sendUpload.ts"
import type {
  CreateImage,
  CreateSpeech,
  CreateTranscription,
  CreateUpload,
  CreateVoiceTurn,
  ImageJob,
  SpeechJob,
  TranscriptionJob,
  Upload,
  VoiceTurnJob,
} from "./wire.ts"

/** What a file is, when it is sent and used in one call. */
export type FileAnnouncement = CreateUpload

/**
 * The service, as methods. Requests and answers are those of the HTTP API, field by field: what is documented there, and
 * what stands in its logs, has the same name here. Every method rejects with `ApiError`, `ConnectionLost`, or the reason of
 * the signal it was given.
 */
export interface Client {
  readonly uploads: {
    /** Announces a file. Good for one transfer, for 15 minutes. */
    readonly create: (request: CreateUpload, options?: CallOptions) => Promise<Upload>
    /** Sends the file, at most `max_bytes`. */
    readonly send: (upload: Upload, file: FileBody, options: SendOptions) => Promise<void>
  }
  readonly transcriptions: {
    readonly create: (request: CreateTranscription, options?: CreateOptions) => Promise<TranscriptionJob>
    /** Announces the file, sends it, and creates the job. Each call is an upload, and so a job, of its own. */
    readonly createFromFile: (
      file: FileBody,
      about: FileAnnouncement,
      options?: CallOptions,
    ) => Promise<TranscriptionJob>
  }
  readonly speech: { readonly create: (request: CreateSpeech, options?: CreateOptions) => Promise<SpeechJob> }
  readonly voiceTurns: {
    readonly create: (request: CreateVoiceTurn, options?: CreateOptions) => Promise<VoiceTurnJob>
    /** Announces the file, sends it, and creates the job. */
    readonly createFromFile: (
      file: FileBody,
      about: FileAnnouncement & Omit<CreateVoiceTurn, "upload_id">,
      options?: CallOptions,
    ) => Promise<VoiceTurnJob>
  }
  readonly images: { readonly create: (request: CreateImage, options?: CreateOptions) => Promise<ImageJob> }
  readonly jobs: {
    /** The job as it is now. */
    readonly get: <Type extends JobType>(job: JobReference<Type>, options?: CallOptions) => Promise<JobStates[Type]>
    /**
     * The job once it is done or failed, asked for as often as the service says. Rejects with `WaitTimeout` after
     * `timeoutMs`. A service that is away for a while is waited for too.
     */
    readonly wait: <Type extends JobType>(job: JobReference<Type>, options?: WaitOptions) => Promise<FinishedJob<Type>>
    /** Deletes the texts and files of a finished job for good. Its status and bill stay. */
    readonly eraseData: (job: JobReference, options?: CallOptions) => Promise<void>
  }
}
