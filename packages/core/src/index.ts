export type { JobMode } from "./domain/Access.ts"
export type { AudioFormat } from "./domain/AudioFormat.ts"
export type { LineItem } from "./domain/Billing.ts"
export type { BuiltInErrorCode, ErrorCode, WarningCode } from "./domain/ErrorCode.ts"
export * from "./domain/Errors.ts"
export type { FieldError, FieldReason, FieldRule } from "./domain/FieldError.ts"
export type { SwitchName } from "./domain/Gate.ts"
export type { FileId, JobId, KeyId, ProjectId, UploadId } from "./domain/Ids.ts"
export type { Billing, RetainedData } from "./domain/Job.ts"
export type { JobStatus } from "./domain/JobState.ts"
export type { Json, JsonObject } from "./domain/givenValues.ts"
export { KilnError, type KilnErrorCode, type KilnErrorName, kilnErrors } from "./domain/KilnError.ts"
export { BlobCorrupt, BlobUnavailable, SchemaMismatch, StoreCopied, StoreUnavailable } from "./domain/PortErrors.ts"
export type { Priority, PriorityName } from "./domain/Priority.ts"
export type { EngineSettings, GivenSettings, ProviderSettings } from "./engine/EngineSettings.ts"
export type {
  FileRef,
  InputOf,
  Kind,
  KindNeeds,
  KindTypes,
  OutputOf,
  SwitchOf,
  TypesOf,
  UsageBy,
} from "./kinds/KindDefinition.ts"
export type { Storable } from "./kinds/JsonTypes.ts"
export type { StandardIssue, StandardResult, StandardSchema } from "./kinds/StandardSchema.ts"
export { defaultVoices, type Voices } from "./kinds/Voices.ts"
export type { BlobAdapter, ProbeAdapter, StoreAdapter, TelemetryAdapter } from "./ports/adapters.ts"
export type { NameOf, ProviderName, ProviderRef } from "./providers/builtInPorts.ts"
export {
  type ProviderBounds,
  type ProviderPort,
  providerPort,
  type ProviderPortOptions,
} from "./providers/ProviderPort.ts"
export type { AudioDetails, Transcript } from "./providers/transcription.ts"
export type { Reply, ReplyRequest } from "./providers/reply.ts"
export type { Turn } from "./providers/voiceTurn.ts"
export {
  type AnyProvider,
  type AsyncAudio,
  type AsyncCall,
  type AsyncFile,
  type AsyncProvider,
  type AsyncProviders,
  asyncProviders,
  type AsyncRequest,
  type FileBody,
  type MadeProvider,
  providerBroken,
  providerRefused,
  providerUnavailable,
  resultInvalid,
} from "./embed/AsyncProviders.ts"
export { createEngine } from "./embed/createEngine.ts"
export type * from "./embed/CallOptions.ts"
export type * from "./embed/EmbeddedEngine.ts"
export type * from "./embed/EngineOptions.ts"
export type { JobRef, JobEvent, JobEventType } from "./engine/JobEvent.ts"
export { failure } from "./embed/failure.ts"
export { builtIn, type BuiltInKind, builtInKinds, jobKind } from "./embed/jobKind.ts"
export type { DefinedKind } from "./embed/JobKindOptions.ts"
export type { Attempt, AttemptOutcome, ChildJob, BatchJob, BatchOutcome, JobBatch } from "./embed/AttemptTypes.ts"
export type {
  JobFields,
  ModeFields,
  ModeFieldsOf,
  UnfinishedJob,
  DoneJob,
  FailedJob,
  JobResult,
  JobReference,
  FileReference,
  FinishedJob,
  Finished,
  OnFinished,
  SubmittedJob,
} from "./embed/JobResult.ts"
export type * from "./embed/OperatorVerbs.ts"
export type * from "./embed/ScheduleVerbs.ts"
export type { DrainLimits, Drained } from "./worker/Drained.ts"
