export type { KeptBytes, Upload, UploadCap, StorageCap } from "./Upload.ts"
export type { FieldError } from "./FieldError.ts"
export {
  type KeyMode,
  type JobMode,
  jobModeOf,
  type Principal,
  type Grant,
  authorize,
  owns,
  formatApiKey,
  formatOperatorToken,
  parseApiKey,
  isOperatorToken,
} from "./Access.ts"
export { type PriceSnapshot, type LineItem, type Charge, meters, chargeFor } from "./Billing.ts"
export type { AttemptRecord, FailedAttempt } from "./AttemptRecord.ts"
export { type WaitReason, type AttemptWait, type WaitRun, type Parking, maxParkMs, type Signal } from "./Parking.ts"
export type { WorkerScope } from "./WorkerScope.ts"
export { type WaitingFor, type QueuePlace, maxAhead, waitingReasons } from "./WaitingFor.ts"
export { isBlobKey, jobBlobKey, jobBlobPrefix, uploadBlobKey, uploadBlobPrefix, ownerOfBlob } from "./BlobKey.ts"
export { childLabel, isEngineStep } from "./Child.ts"
export { type Chunk, maxChunks } from "./Chunk.ts"
export { errorCodes, type BuiltInErrorCode, type ErrorCode, warningCodes, type WarningCode } from "./ErrorCode.ts"
export { type SwitchName, switchNames, priceNames, type Board, missingPrerequisites, withForcedOff } from "./Gate.ts"
export {
  type JobId,
  type UploadId,
  type FileId,
  type KeyId,
  type ProjectId,
  formatId,
  isId,
  idBody,
  idTime,
  isPromised,
} from "./Ids.ts"
export type { ConcurrencyLimits } from "./JobsInProgress.ts"
export {
  type Billing,
  billingOf,
  errorMessageOf,
  type Job,
  type JobOrigin,
  type OutputFile,
  type PolledJob,
  type RetainedData,
} from "./Job.ts"
export { type JobStatus, type JobState, isFinished } from "./JobState.ts"
export { parseTraceparent, withSubmitted, submittedOf, labelsWith, type Submitted } from "./JobMetadata.ts"
export { type Priority, priorities, readPriority } from "./Priority.ts"
export { maxDeliveryAttempts, type PendingDelivery } from "./Delivery.ts"
export { EngineClosed, type KilnErrorCode } from "./KilnError.ts"
export {
  BlobCorrupt,
  BlobNotFound,
  BlobTooLarge,
  BlobUnavailable,
  SchemaMismatch,
  StoreUnavailable,
} from "./PortErrors.ts"
export { type Progress, progressOf } from "./Progress.ts"
export { spendPeriods, type SpendCap, type SpendOwner, type Spending } from "./SpendCap.ts"
export { keyLimitNames, type KeyLimits, type RateLimitPolicy, keyLimitsProblem, TOKEN } from "./RateLimit.ts"
export {
  audioFormats,
  type AudioFormat,
  type AudioContainer,
  acceptedMediaTypes,
  containerMatches,
  SNIFF_BYTES,
  sniffContainer,
} from "./AudioFormat.ts"
export { describeDiskProblem, DiskProblem } from "./diskProblem.ts"
export * as Decimal from "./Decimal.ts"
export { limits } from "./Limits.ts"
export {
  likelyName,
  type OptionNames,
  requireOptions,
  requireProviderNames,
  requireOneOf,
  requireNumber,
  requireFlag,
  givenField,
  isError,
  isTaggedError,
  isBytes,
  isArrayBuffer,
  isBlob,
  isDate,
  type Json,
  type JsonObject,
  isStorableText,
} from "./givenValues.ts"
