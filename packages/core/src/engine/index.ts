export * from "./FinishHandlers.ts"
export {
  type AcceptedJob,
  type CreateJobError,
  Engine,
  type IncomingFile,
  type JobOutcomes,
  type JobRequest,
  layerCrypto,
  layerEngine,
  type Placement,
  type ReceiveError,
} from "./Engine.ts"
export { defaultEngineSettings, EngineConfig } from "./EngineConfig.ts"
export { type EngineSettings } from "./EngineSettings.ts"
export {
  changeSchedule,
  decodeSchedule,
  listSchedules,
  pauseSchedule,
  type PlacedSchedule,
  removeSchedule,
  resumeSchedule,
  type ScheduleChange,
  skipDueTicks,
} from "./schedules.ts"
export { type AcceptedSignal, type AskedSignal, type SignalError, signalJob } from "./signalJob.ts"
// Parts of the type of `Engine`, which declarations of programs must name.
export type { CreateJobs, Refused } from "./createJob.ts"
export type { CreateJobsIn } from "./createJobIn.ts"
export type { UploadLifetime } from "./createUpload.ts"
export { eraseJobData } from "./eraseJobData.ts"
export { CallerSpan, startsTrace } from "./spans.ts"
export { purgeBlobs } from "./blobs.ts"
export { retentionPublication, retentionRules } from "./retentionRules.ts"
export { makeLatestRetry, retriedBy, retryKey } from "./latestRetry.ts"
export { Fingerprint, fingerprintSecret, maxDelayMs } from "./prepareJob.ts"
export { GroupCommit, groupCommit, type GroupedVerb, layerGroupCommit } from "./GroupCommit.ts"
export { publicError } from "./publicError.ts"
export { JobEvents, type JobSignal } from "./JobEvents.ts"
export { type JobRef } from "./JobEvent.ts"
export { Operator } from "./Operator.ts"
export type { RetryOptions } from "./retryJob.ts"
export type { NewPlace } from "./rescheduleJob.ts"
export { measureQueues, waitingForJob, waitingForJobs } from "./waitingForJob.ts"
export {
  bulkStatuses,
  type BulkVerb,
  changeEach,
  changeMatching,
  type JobChange,
  selectedFor,
  selectionFor,
  tallyChanges,
  toleratingEnd,
  toleratingRefusal,
} from "./changeJobs.ts"
export { type MatchJobs, readMatching, type Selection } from "./matchingJobs.ts"
export { redeliverJob } from "./FinishHandlers.ts"
export { type Observer, readRequest, recordLook, requireVisibleRequests } from "./readJob.ts"
export { requireKnownKind } from "./storedKinds.ts"
export { type PortionSource, TokenPortion } from "./TokenPortion.ts"
export { JobReader } from "./waitForJob.ts"
