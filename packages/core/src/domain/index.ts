export {
  type BoundKey,
  type JobFacts,
  judgeJob,
  maximumCostOf,
  refusedJob,
  repeatOf,
  advanceAfter,
  hasRoom,
  created,
} from "./acceptance.ts"
export {
  exceedsCap,
  judgeTransfer,
  judgeUpload,
  type KeptBytes,
  type Upload,
  isWaiting,
  holdsTransfer,
  type UploadCap,
  type StorageCap,
} from "./Upload.ts"
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
export { maxAttemptRecords, type AttemptRecord, type FailedAttempt, failedAttempt } from "./AttemptRecord.ts"
export {
  maxWaitRuns,
  type WaitReason,
  type AttemptWait,
  type WaitRun,
  parkedRun,
  withWait,
  type ParkedOn,
  type Parking,
  maxParkMs,
  isParked,
  maxSignals,
  type Signal,
  areJobs,
  deferralEvent,
  type ParkedJob,
  type ParkReason,
} from "./Parking.ts"
export type { WorkerScope } from "./WorkerScope.ts"
export { type WaitingFor, type QueuePlace, maxAhead, waitingReasons } from "./WaitingFor.ts"
export {
  isBlobKey,
  jobBlobKey,
  jobBlobPrefix,
  uploadBlobKey,
  uploadBlobPrefix,
  blobPrefixesOf,
  ownerOfBlob,
  jobOrphanReason,
  purgePauseMs,
  uploadOrphanReason,
} from "./BlobKey.ts"
export { afterLabel, childLabel, isEngineStep, stepLabel } from "./Child.ts"
export { type Chunk, maxChunks } from "./Chunk.ts"
export { rescheduling } from "./Rescheduling.ts"
export {
  errorCodes,
  type BuiltInErrorCode,
  type ErrorCode,
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
  formatId,
  isId,
  idBody,
  idTime,
  isPromised,
  keylessKey,
  keylessPrefix,
} from "./Ids.ts"
export {
  type ConcurrencyLimits,
  projectLimit,
  projectShare,
  isLimiting,
  JobsInProgress,
  ClaimPlan,
  type LaneLine,
  type LaneTurn,
} from "./JobsInProgress.ts"
export * from "./Job.ts"
export {
  type JobStatus,
  type JobState,
  isFinished,
  holdsClaim,
  isOverdue,
  isClaimable,
  lostTooMany,
  overdueEvent,
  waitsSince,
} from "./JobState.ts"
export { parseTraceparent, withSubmitted, submittedOf, labelsWith, labelsOf, type Submitted } from "./JobMetadata.ts"
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
export {
  deliveryLeaseMs,
  deliveryMark,
  withDelivery,
  isDelivered,
  maxDeliveryAttempts,
  type PendingDelivery,
} from "./Delivery.ts"
export { type JobTransition, jobTransitions, type TransitionEvent, applyEvent } from "./JobTransition.ts"
export { EngineClosed, type KilnErrorCode } from "./KilnError.ts"
export {
  BlobCorrupt,
  BlobNotFound,
  BlobTooLarge,
  BlobUnavailable,
  SchemaMismatch,
  StoreUnavailable,
} from "./PortErrors.ts"
export { type Progress, progressStep, progressCheckpoint, progressOf, progressIn } from "./Progress.ts"
export { type ClaimEnd, isRepeatedEnd, isRepeatedGivingUp, isRepeatedReceipt } from "./RepeatedEnd.ts"
export {
  spendPeriods,
  type SpendCap,
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
  type KeyLimits,
  type RateLimitPolicy,
  keyLimitsProblem,
  type TakenPortion,
  type SharedBucket,
  TOKEN,
  takePortion,
  fullAt,
} from "./RateLimit.ts"
export { type ClockReading, readClocks, StoreTime, describeJump } from "./StoreTime.ts"
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
  canonicalJson,
  isStorableText,
} from "./givenValues.ts"
