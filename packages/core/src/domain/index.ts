export {
  type BoundKey,
  type JobFacts,
  judgeJob,
  maximumCostOf,
  type RefusedJob,
  refusedJob,
  repeatOf,
} from "./acceptance.ts"
export { advanceAfter, type JobTick } from "./JobTick.ts"
export { exceedsCap, hasRoom, judgeTransfer, judgeUpload, type KeptBytes } from "./transferAcceptance.ts"
export type { FieldError } from "./FieldError.ts"
export * from "./Access.ts"
export {
  type Meter,
  type PriceSnapshot,
  type Usage,
  type LineItem,
  type Charge,
  meters,
  chargeFor,
  type Billing,
  billingOf,
} from "./Billing.ts"
export { maxAttemptRecords, type AttemptRecord, type FailedAttempt, failedAttempt } from "./AttemptRecord.ts"
export * from "./AttemptWait.ts"
export type { WorkerScope, WorkerState } from "./WorkerScope.ts"
export { type WaitingReasonName, type WaitingFor, type QueuePlace, maxAhead, waitingReasons } from "./WaitingFor.ts"
export * from "./BlobKey.ts"
export { afterLabel, childLabel, isEngineStep, stepLabel } from "./Child.ts"
export * from "./Parking.ts"
export * from "./Chunk.ts"
export { type Rescheduling, rescheduling } from "./Rescheduling.ts"
export { jobOrphanReason, purgePauseMs, uploadOrphanReason } from "./Orphan.ts"
export {
  errorCodes,
  type BuiltInErrorCode,
  type ErrorCode,
  isBuiltInErrorCode,
  warningCodes,
  type WarningCode,
  strongerWarning,
  uploadFaults,
  isUploadFault,
} from "./ErrorCode.ts"
export {
  type SwitchName,
  switchesWith,
  switchNames,
  priceNames,
  type Gate,
  type Board,
  lastServedStepMs,
  missingPrerequisites,
  withForcedOff,
} from "./Gate.ts"
export {
  type JobId,
  type UploadId,
  type FileId,
  type KeyId,
  type ProjectId,
  type OperatorTokenId,
  type RequestId,
  formatId,
  isId,
  idBody,
  idTime,
  isPromised,
  keylessFingerprint,
  keylessKey,
  keylessPrefix,
} from "./Ids.ts"
export {
  type ConcurrencyLimits,
  projectLimit,
  projectShare,
  isLimiting,
  type WorkerRoom,
  JobsInProgress,
} from "./JobsInProgress.ts"
export { ClaimPlan, type LaneLine, type LaneTurn } from "./claimPlan.ts"
export * from "./Job.ts"
export { type JobStatus, type JobState, isFinished } from "./JobState.ts"
export { parseTraceparent } from "./JobTrace.ts"
export {
  deliveryLeaseMs,
  deliveryMark,
  withDelivery,
  isDelivered,
  type PendingDelivery,
  maxDeliveryAttempts,
} from "./Delivery.ts"
export * from "./JobTransition.ts"
export * from "./Json.ts"
export { EngineClosed, type KilnErrorCode } from "./KilnError.ts"
export * from "./PortErrors.ts"
export { queueBudgetMs, holdsClaim, isOverdue, isClaimable, lostTooMany, overdueEvent, waitsSince } from "./Lease.ts"
export {
  type PriorityName,
  type Priority,
  priorities,
  priorityRank,
  ranks,
  rankOf,
  priorityOfRank,
  readPriority,
} from "./Priority.ts"
export { type Progress, progressStep, progressCheckpoint, progressOf, progressIn } from "./Progress.ts"
export * from "./RepeatedEnd.ts"
export {
  spendPeriods,
  type SpendPeriod,
  type SpendCap,
  type SpendRefusal,
  type SpendOwner,
  type SpendEntry,
  type Spending,
  startOfPeriod,
  spendingOf,
  dailySums,
  reservedSums,
  withoutReservation,
  withReservation,
  withinReservation,
} from "./SpendCap.ts"
export {
  keyLimitNames,
  type KeyLimitName,
  type KeyLimits,
  type RateLimitPolicy,
  keyLimitsProblem,
  type TakenPortion,
  type SharedBucket,
  TOKEN,
  takePortion,
  fullAt,
} from "./RateLimit.ts"
export type { Rate } from "./Rate.ts"
export {
  type MetadataValue,
  type Submitted,
  type Unique,
  withSubmitted,
  submittedOf,
  labelsWith,
  labelsOf,
  maxPrerequisites,
} from "./Submitted.ts"
export { SchemaMismatch } from "./SchemaMismatch.ts"
export * from "./StoreTime.ts"
export {
  type UploadedFile,
  type Upload,
  type TransferRefusal,
  type UploadCap,
  type StorageCap,
  isWaiting,
  holdsTransfer,
} from "./Upload.ts"
export * from "./ApiKey.ts"
export {
  audioFormats,
  type AudioFormat,
  type AudioContainer,
  acceptedMediaTypes,
  containerMatches,
  SNIFF_BYTES,
  sniffContainer,
} from "./AudioFormat.ts"
export { crc32 } from "./crc32.ts"
export { describeDiskProblem, DiskProblem } from "./diskProblem.ts"
export * as Decimal from "./Decimal.ts"
export { limits } from "./Limits.ts"
export { likelyName, nearestName } from "./nearestName.ts"
export {
  type OptionNames,
  requireOptions,
  requireProviderNames,
  requireOneOf,
  requireNumber,
  requireFlag,
} from "./knownNames.ts"
export { givenField, isError, isTaggedError, isBytes, isArrayBuffer, isBlob, isDate } from "./realms.ts"
