import { Schema } from "effect"
import type { FieldError } from "../domain/index.ts"

/** The request breaks rules of its fields; every one of them is listed. */
export class InvalidRequest extends Schema.TaggedError<InvalidRequest>()("InvalidRequest", {
  errors: Schema.Array(
    Schema.declare((u: unknown): u is FieldError => typeof u === "object" && u !== null && "reason" in u),
  ),
}) {}

/** No job of this id is the caller's. An unknown one, another key's and a malformed id are one and the same. */
export class JobNotFound extends Schema.TaggedError<JobNotFound>()("JobNotFound", {}) {}
/** Only finished jobs can be erased. */
export class JobUnfinished extends Schema.TaggedError<JobUnfinished>()("JobUnfinished", {}) {}

/** A finished job stays as it is. */
export class JobFinished extends Schema.TaggedError<JobFinished>()("JobFinished", {}) {}
/** Only failed jobs whose data is still there can be tried again as new ones. */
export class JobNotRetryable extends Schema.TaggedError<JobNotRetryable>()("JobNotRetryable", {}) {}
/** The job was not finished within the time that was waited for it. */
export class WaitTimedOut extends Schema.TaggedError<WaitTimedOut>()("WaitTimedOut", {
  /** Milliseconds. */
  afterMs: Schema.Number,
}) {}
/** No kind of this name is known here. */
export class KindUnknown extends Schema.TaggedError<KindUnknown>()("KindUnknown", {
  kind: Schema.String,
  known: Schema.Array(Schema.String),
}) {}

/** The idempotency key belongs to a job that asked for something else. */
export class IdempotencyKeyReused extends Schema.TaggedError<IdempotencyKeyReused>()("IdempotencyKeyReused", {}) {}
/** Prices, switches or providers a live job needs and does not have. */
export class LiveNotActive extends Schema.TaggedError<LiveNotActive>()("LiveNotActive", {
  missing: Schema.Array(Schema.String),
}) {}
/** The project has as many unfinished jobs as it may have. */
export class QueueFull extends Schema.TaggedError<QueueFull>()("QueueFull", {}) {}

/** The project has reached its limit of uploads that wait for jobs, or of their bytes. Carries both limits; 0 is no limit. */
export class UploadsFull extends Schema.TaggedError<UploadsFull>()("UploadsFull", {
  uploads: Schema.Number,
  bytes: Schema.Number,
}) {}

/** No upload of this id is the caller's. */
export class UploadNotFound extends Schema.TaggedError<UploadNotFound>()("UploadNotFound", {}) {}
/** Its file has not arrived yet. */
export class UploadNotReady extends Schema.TaggedError<UploadNotReady>()("UploadNotReady", {}) {}
/** Another job has consumed it. */
export class UploadAlreadyUsed extends Schema.TaggedError<UploadAlreadyUsed>()("UploadAlreadyUsed", {}) {}
/** Too late: nothing can arrive any more, or the file waited too long. */
export class UploadExpired extends Schema.TaggedError<UploadExpired>()("UploadExpired", {}) {}

/** A transfer has already succeeded. */
export class UploadAlreadyCompleted extends Schema.TaggedError<UploadAlreadyCompleted>()(
  "UploadAlreadyCompleted",
  {},
) {}
/** Another transfer is running. */
export class UploadInProgress extends Schema.TaggedError<UploadInProgress>()("UploadInProgress", {}) {}
/** The content type is none of the announced format's. */
export class UnsupportedContentType extends Schema.TaggedError<UnsupportedContentType>()("UnsupportedContentType", {
  expected: Schema.Array(Schema.String),
}) {}
export class FileTooLarge extends Schema.TaggedError<FileTooLarge>()("FileTooLarge", { maxBytes: Schema.Number }) {}
export class EmptyFile extends Schema.TaggedError<EmptyFile>()("EmptyFile", {}) {}
/** The first bytes are not the announced container's. */
export class AudioFormatMismatch extends Schema.TaggedError<AudioFormatMismatch>()("AudioFormatMismatch", {
  declared: Schema.String,
  detected: Schema.NullOr(Schema.String),
}) {}
/** The transfer stalled, or took too long in all. */
export class UploadTimeout extends Schema.TaggedError<UploadTimeout>()("UploadTimeout", {}) {}

/** The file is not reachable any more: its job's data was deleted or has expired. */
export class FileGone extends Schema.TaggedError<FileGone>()("FileGone", {}) {}
