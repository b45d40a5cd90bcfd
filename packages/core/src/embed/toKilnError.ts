import type * as Domain from "../domain/index.ts"
import { unknownName } from "../domain/index.ts"
import type * as Errors from "../engine/errors.ts"
import {
  JobUnknown,
  KeyReused,
  KilnError,
  LiveNotReady,
  RequestInvalid,
  ServiceUnavailable,
  UploadRefused,
  WaitTimeout,
} from "./KilnError.ts"

type EngineError =
  | InstanceType<(typeof Errors)[keyof typeof Errors]>
  | Domain.StoreUnavailable
  | Domain.BlobUnavailable
  | Domain.BlobCorrupt

type Translations = {
  readonly [Tag in EngineError["_tag"]]: (error: Extract<EngineError, { _tag: Tag }>) => KilnError
}

const limitText = (limit: number, unit: string): string => (limit === 0 ? `any number of ${unit}` : `${limit} ${unit}`)

/** One for each error of the engine: a new one does not compile without. */
const translations: Translations = {
  InvalidRequest: ({ errors }) => new RequestInvalid(errors),
  JobNotFound: () => new JobUnknown(),
  JobUnfinished: () => new KilnError("job_processing", "the job is not finished"),
  JobFinished: () => new KilnError("job_finished", "the job is finished"),
  JobNotRetryable: () =>
    new KilnError("job_not_retryable", "only a failed job whose data is still there can be tried again"),
  KindUnknown: ({ kind, known }) => new KilnError("kind_unknown", unknownName(`job kind "${kind}"`, kind, known)),
  WaitTimedOut: ({ afterMs }) => new WaitTimeout(afterMs),
  IdempotencyKeyReused: () => new KeyReused(),
  LiveNotActive: ({ missing }) => new LiveNotReady(missing),
  QueueFull: () => new KilnError("queue_full", "the project has as many unfinished jobs as it may have"),
  UploadsFull: ({ bytes, uploads }) =>
    new UploadRefused(
      "uploads_full",
      `the project has reached its limit of uploads waiting for a job (${limitText(uploads, "uploads")}, ${limitText(bytes, "bytes")})`,
    ),
  UploadNotFound: () => new UploadRefused("upload_not_found", "no such upload"),
  UploadNotReady: () => new UploadRefused("upload_not_ready", "the upload's file has not arrived yet"),
  UploadAlreadyUsed: () => new UploadRefused("upload_already_used", "another job has used the upload"),
  UploadExpired: () => new UploadRefused("upload_expired", "the upload has expired"),
  UploadAlreadyCompleted: () => new UploadRefused("upload_already_completed", "the upload has its file already"),
  UploadInProgress: () => new UploadRefused("upload_in_progress", "another transfer of the upload is running"),
  UnsupportedContentType: ({ expected }) =>
    new UploadRefused("unsupported_content_type", `the content type must be one of ${expected.join(", ")}`),
  FileTooLarge: ({ maxBytes }) => new UploadRefused("file_too_large", `the file has more than ${maxBytes} bytes`),
  EmptyFile: () => new UploadRefused("empty_file", "the file is empty"),
  AudioFormatMismatch: ({ declared, detected }) =>
    new UploadRefused(
      "audio_format_mismatch",
      `the file is announced as ${declared}, and is ${detected ?? "none that is known"}`,
    ),
  UploadTimeout: () => new UploadRefused("upload_timeout", "the transfer took too long"),
  FileGone: () => new KilnError("file_gone", "the file is gone with its job's data"),
  StoreUnavailable: (error) => new ServiceUnavailable(error),
  BlobUnavailable: (error) => new ServiceUnavailable(error),
  BlobCorrupt: (error) => new KilnError("internal_error", "a stored file is damaged", { cause: error }),
}

const isEngineError = (error: unknown): error is EngineError =>
  typeof error === "object" &&
  error !== null &&
  "_tag" in error &&
  typeof error._tag === "string" &&
  Object.hasOwn(translations, error._tag)

/** An error of the engine as a program without Effect knows it; anything else as it is. */
export const toKilnError = (error: unknown): unknown => {
  if (!isEngineError(error)) return error
  const translate = translations[error._tag] as (error: EngineError) => KilnError
  return translate(error)
}
