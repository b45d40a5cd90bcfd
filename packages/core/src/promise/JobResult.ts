import type { ErrorCode, FileId, Job, JobId, JobMode, JobStatus, WarningCode } from "../domain/index.ts"

/** A generated file, readable with `readFile` while its job's data is kept. */
export interface FileRef {
  readonly id: FileId
  /** For example `audio/mpeg`. */
  readonly mediaType: string
  readonly bytes: number
  /** Lower-case hex. */
  readonly sha256: string
}

/** The requests of the built-in kinds. Limits are those of the service: 4,096, 4,000 and 1,024. */
export interface Requests {
  readonly transcription: { readonly uploadId: string }
  readonly speech_synthesis: { readonly input: string; readonly voice?: string }
  readonly voice_turn: {
    readonly uploadId: string
    readonly maxOutputTokens: number
    readonly instructions?: string
    readonly voice?: string
  }
  readonly image_generation: { readonly prompt: string; readonly model?: "svc-image" }
}

/** What the built-in kinds bring. */
export interface Outputs {
  readonly transcription: { readonly transcript: string }
  readonly speech_synthesis: { readonly audio: FileRef }
  readonly voice_turn: { readonly text: string; readonly audio: FileRef }
  readonly image_generation: { readonly format: "png"; readonly size: string; readonly image: FileRef }
}
export type KindName = keyof Requests

interface AnyJob<Name extends KindName> {
  readonly id: JobId
  readonly kind: Name
  readonly mode: JobMode
  readonly warningCode: WarningCode | null
}

/** A job as an embedding program sees it. */
export type JobResult<Name extends KindName = KindName> =
  | (AnyJob<Name> & { readonly status: "queued" | "processing" })
  /** `output` is `null` once its data was erased or has expired. */
  | (AnyJob<Name> & { readonly status: "done"; readonly output: Outputs[Name] | null })
  | (AnyJob<Name> & { readonly status: "failed"; readonly errorCode: ErrorCode })

/** Puts output and files together under their names. */
export const jobResult = <Name extends KindName>(job: Job): JobResult<Name> => {
  const common = { id: job.id, kind: job.kind, mode: job.mode, warningCode: job.warningCode }
  const statusFields: Record<JobStatus, object> = {
    queued: {},
    processing: {},
    done: {
      output:
        job.output === null
          ? null
          : {
              ...job.output,
              ...Object.fromEntries(
                job.files.map(({ bytes, id, mediaType, name, sha256 }) => [name, { id, mediaType, bytes, sha256 }]),
              ),
            },
    },
    failed: { errorCode: job.errorCode },
  }
  // The store's rows are untyped by kind; which kind a job has is what its caller submitted.
  return { ...common, status: job.status, ...statusFields[job.status] } as JobResult<Name>
}
