export type { CreateOutcome, NewJob } from "../domain/acceptance.ts"
export type { ClaimUploadOutcome, CreateUploadOutcome, NewTransfer, NewUpload } from "../domain/Upload.ts"
export {
  type StoreAdapter,
  type BlobAdapter,
  type ProbeAdapter,
  type TelemetryAdapter,
  storeAdapter,
  blobAdapter,
  probeAdapter,
  insideOf,
} from "./adapters.ts"
export {
  type AuditChange,
  type AuditEntry,
  AuditLog,
  type AuditedVerb,
  changeMade,
  Audited,
  audited,
  recordedBefore,
} from "./AuditLog.ts"
export {
  requireBlobKey,
  requireBlobLimit,
  requireBlobRange,
  type BlobSpan,
  blobSpanOf,
  type BlobInfo,
  type BlobLink,
  type BlobRange,
  BlobStore,
  type OpenBlob,
  pieceWriter,
  markReleasable,
  releaseBytes,
} from "./BlobStore.ts"
export { type DeliveryCount, type Settlement, DeliveryStore } from "./DeliveryStore.ts"
export { IdGenerator } from "./IdGenerator.ts"
export * from "./JobClaim.ts"
export * from "./JobDirectory.ts"
export * from "./JobListing.ts"
export * from "./JobStore.ts"
export * from "./KeyDirectory.ts"
export * from "./Ledger.ts"
export * from "./MediaProbe.ts"
export * from "./MinuteHistory.ts"
export * from "./OperatorTokens.ts"
export * from "./RateLimitStore.ts"
export {
  type RetentionPeriods,
  ruleOfUploads,
  type RetentionRule,
  type RetentionPublication,
  type PublishedRule,
  isReplaced,
  rulesInForce,
  periodsOf,
  type RetentionAge,
  retentionAgeOf,
} from "./Retention.ts"
export * from "./ScheduleStore.ts"
export * from "./SecretStore.ts"
export * from "./StoreInspection.ts"
export * from "./Switchboard.ts"
export * from "./UploadStore.ts"
export { natureOf, type ReadVerb, type StorePortName, type StoreVerbs, storeVerbs, type WriteVerb } from "./verbs.ts"
export { WakeUp } from "./WakeUp.ts"
export type { ProviderStanding } from "../providers/circuitBreaker.ts"
