// The decisions of a store: whether a job is accepted, which one is claimed next, what its end means, what a key may spend. They are pure
// functions of facts, which a store gathers, so that all stores decide alike. Programs that run jobs need none of them: the nouns are
// in index.ts.
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
export { exceedsCap, judgeTransfer, judgeUpload, isWaiting, holdsTransfer } from "./Upload.ts"
export { maxAttemptRecords, failedAttempt } from "./AttemptRecord.ts"
export {
  maxWaitRuns,
  parkedRun,
  withWait,
  type ParkedOn,
  isParked,
  maxSignals,
  areJobs,
  deferralEvent,
  type ParkedJob,
  type ParkReason,
} from "./Parking.ts"
export { blobPrefixesOf, jobOrphanReason, purgePauseMs, uploadOrphanReason } from "./BlobKey.ts"
export { afterLabel, stepLabel } from "./Child.ts"
export { rescheduling } from "./Rescheduling.ts"
export { strongerWarning, uploadFaults, isUploadFault } from "./ErrorCode.ts"
export { switchesWith, lastServedStepMs } from "./Gate.ts"
export { keylessKey, keylessPrefix } from "./Ids.ts"
export {
  projectLimit,
  projectShare,
  isLimiting,
  JobsInProgress,
  ClaimPlan,
  type LaneLine,
  type LaneTurn,
} from "./JobsInProgress.ts"
export { holdsClaim, isOverdue, isClaimable, lostTooMany, overdueEvent, waitsSince } from "./JobState.ts"
export { labelsOf } from "./JobMetadata.ts"
export { ranks, rankOf, priorityOfRank } from "./Priority.ts"
export { deliveryLeaseMs, deliveryMark, withDelivery, isDelivered } from "./Delivery.ts"
export { type JobTransition, jobTransitions, type TransitionEvent, applyEvent } from "./JobTransition.ts"
export { progressStep, progressCheckpoint, progressIn } from "./Progress.ts"
export { type ClaimEnd, isRepeatedEnd, isRepeatedGivingUp, isRepeatedReceipt } from "./RepeatedEnd.ts"
export {
  type SpendEntry,
  startOfPeriod,
  spendingOf,
  dailySums,
  reservedSums,
  withoutReservation,
  withReservation,
  withinReservation,
} from "./SpendCap.ts"
export { type TakenPortion, type SharedBucket, takePortion, fullAt } from "./RateLimit.ts"
export { type ClockReading, readClocks, StoreTime, describeJump } from "./StoreTime.ts"
export { canonicalJson } from "./givenValues.ts"
export { failedOutput, polledJob } from "./Job.ts"
