import type { AuditLog, KeyDirectory, ScheduleStore, SecretStore, Switchboard } from "@kiln/core/ports"
import { appendedChanges, prunedChanges } from "./AuditLog/append.ts"
import { auditedVerbs } from "./AuditLog/audited.ts"
import type { Section, Stores } from "./Check.ts"
import { claimDeliveries, redeliverSection, settleDeliveries } from "./DeliveryStore/claimDeliveries.ts"
import { countJobs, readJobs } from "./JobDirectory/countJobs.ts"
import { labels } from "./JobDirectory/labels.ts"
import { listAttempts } from "./JobDirectory/listAttempts.ts"
import { findPlace } from "./JobDirectory/findPlace.ts"
import { listWaits } from "./JobDirectory/listWaits.ts"
import { listFinished } from "./JobDirectory/listFinished.ts"
import { listJobs } from "./JobDirectory/listJobs.ts"
import { measureQueue } from "./JobDirectory/measureQueue.ts"
import { cancelJobs } from "./JobStore/cancelJobs.ts"
import { checkClaims } from "./JobStore/checkClaims.ts"
import { claimJobs } from "./JobStore/claimJobs.ts"
import { claimJobsLostWorkers } from "./JobStore/claimJobsLostWorkers.ts"
import { createJobs, createJobsIdempotency } from "./JobStore/createJobs.ts"
import { createAndClaimJobs } from "./JobStore/createAndClaimJobs.ts"
import { createJobsQueueCap } from "./JobStore/createJobsQueueCap.ts"
import { createJobsGate, createJobsPrecedence } from "./JobStore/createJobsRefusals.ts"
import { createJobsSpendCap } from "./JobStore/createJobsSpendCap.ts"
import { createJobsTicks } from "./JobStore/createJobsTicks.ts"
import { replacingJobs } from "./JobStore/createJobsReplace.ts"
import { uniqueJobs } from "./JobStore/createJobsUnique.ts"
import { createJobsUpload } from "./JobStore/createJobsUpload.ts"
import { delay } from "./JobStore/createJobsDelay.ts"
import { eraseJobs } from "./JobStore/eraseJobs.ts"
import { fairness } from "./JobStore/claimJobsFairness.ts"
import { fencing } from "./JobStore/fencing.ts"
import { findByIdempotencyKey, findFileSection, findJobs, pollJobs } from "./JobStore/findJobs.ts"
import { expireJobs } from "./JobStore/expireJobs.ts"
import { completeAndClaimJobs } from "./JobStore/completeAndClaimJobs.ts"
import { completeJobs } from "./JobStore/completeJobs.ts"
import { completeJobsFollowUps } from "./JobStore/completeJobsFollowUps.ts"
import { failJobs } from "./JobStore/failJobs.ts"
import { expireData } from "./JobStore/expireData.ts"
import { deleteJobs } from "./JobStore/deleteJobs.ts"
import { purges } from "./JobStore/listPurges.ts"
import { retentionRules } from "./JobStore/publishRetention.ts"
import { findOrphans } from "./JobStore/findOrphans.ts"
import { metadataSection } from "./JobStore/createJobsMetadata.ts"
import { kindVersions } from "./JobStore/claimJobsKindVersions.ts"
import { lineage } from "./JobStore/writeLineage.ts"
import { listCharges } from "./JobStore/listCharges.ts"
import { limits } from "./JobStore/claimJobsLimits.ts"
import { priority } from "./JobStore/claimJobsPriority.ts"
import { reservations } from "./JobStore/reservations.ts"
import { retries } from "./JobStore/createJobsRetries.ts"
import { extendLeases } from "./JobStore/extendLeases.ts"
import { checkpointJobs } from "./JobStore/checkpointJobs.ts"
import { deferJobs } from "./JobStore/deferJobs.ts"
import { releaseJobs } from "./JobStore/releaseJobs.ts"
import { rescheduleJobs } from "./JobStore/rescheduleJobs.ts"
import { parkAfterJobs } from "./JobStore/parkAfterJobs.ts"
import { appendChunks } from "./JobStore/appendChunks.ts"
import { signalJobs } from "./JobStore/signalJobs.ts"
import { workerSlots } from "./JobStore/claimJobsWorkerSlots.ts"
import { projects } from "./KeyDirectory/createProject.ts"
import { disabledProjects } from "./KeyDirectory/disableProject.ts"
import { apiKeys } from "./KeyDirectory/createKey.ts"
import { firstKey } from "./KeyDirectory/createFirstKey.ts"
import { keyLimits } from "./KeyDirectory/limitKey.ts"
import { keyLife } from "./KeyDirectory/revokeKey.ts"
import { rotation } from "./KeyDirectory/rotateKey.ts"
import { nextSchedules, writeSchedule } from "./ScheduleStore/writeSchedule.ts"
import { findAndRemove } from "./SecretStore/findAndRemove.ts"
import { getOrCreate } from "./SecretStore/getOrCreate.ts"
import { replaceSecret } from "./SecretStore/replace.ts"
import { pausedKinds } from "./Switchboard/pauseKind.ts"
import { projectLimits, spendCaps } from "./Switchboard/setSpendCap.ts"
import { switches } from "./Switchboard/setSwitch.ts"
import { prices } from "./Switchboard/setPrice.ts"
import { workers, publishedWorkers } from "./Switchboard/listWorkers.ts"
import { createUploads } from "./UploadStore/createUploads.ts"
import { claimUploadSection } from "./UploadStore/claimUpload.ts"
import { expireUploads } from "./UploadStore/expireUploads.ts"
import { deleteUploads } from "./UploadStore/deleteUploads.ts"
import { findUploadOrphans } from "./UploadStore/findUploadOrphans.ts"
import { transfers } from "./UploadStore/transfers.ts"
import { keptBytes } from "./UploadStore/keptBytes.ts"
import { uploadCaps } from "./UploadStore/uploadCaps.ts"

// Data, so that the checks themselves can be checked with planted bugs.

/** Checks of `JobStore`. Its transactions span uploads and switches, so the other ports take part. */
export const jobStoreSections: ReadonlyArray<Section> = [
  createJobs,
  createJobsIdempotency,
  createJobsGate,
  createJobsUpload,
  createJobsSpendCap,
  reservations,
  createJobsQueueCap,
  createJobsPrecedence,
  delay,
  metadataSection,
  retries,
  uniqueJobs,
  replacingJobs,
  createJobsTicks,
  createAndClaimJobs,
  findJobs,
  pollJobs,
  findByIdempotencyKey,
  findFileSection,
  claimJobs,
  claimJobsLostWorkers,
  fairness,
  priority,
  kindVersions,
  limits,
  workerSlots,
  fencing,
  extendLeases,
  checkpointJobs,
  completeJobs,
  completeJobsFollowUps,
  completeAndClaimJobs,
  failJobs,
  deferJobs,
  releaseJobs,
  signalJobs,
  appendChunks,
  parkAfterJobs,
  rescheduleJobs,
  cancelJobs,
  checkClaims,
  expireJobs,
  eraseJobs,
  expireData,
  deleteJobs,
  listCharges,
  purges,
  retentionRules,
  findOrphans,
  lineage,
]

/** Checks of `JobDirectory`. It reads what `JobStore` wrote, so the other ports take part. */
export const jobDirectorySections: ReadonlyArray<Section> = [
  listJobs,
  listFinished,
  labels,
  countJobs,
  measureQueue,
  readJobs,
  listAttempts,
  listWaits,
  findPlace,
]

/** Checks of `UploadStore`. Jobs consume uploads, so the other ports take part. */
export const uploadStoreSections: ReadonlyArray<Section> = [
  createUploads,
  claimUploadSection,
  transfers,
  uploadCaps,
  keptBytes,
  expireUploads,
  deleteUploads,
  findUploadOrphans,
]

export const keyDirectorySections: ReadonlyArray<Section<KeyDirectory>> = [
  projects,
  apiKeys,
  firstKey,
  keyLimits,
  keyLife,
  rotation,
  disabledProjects,
]
export const switchboardSections: ReadonlyArray<Section<Switchboard>> = [
  switches,
  pausedKinds,
  projectLimits,
  prices,
  spendCaps,
  workers,
  publishedWorkers,
]
const scheduleStoreSections: ReadonlyArray<Section<ScheduleStore>> = [writeSchedule, nextSchedules]

/** Jobs create deliveries, so the other ports take part. */
const deliveryStoreSections: ReadonlyArray<Section> = [claimDeliveries, settleDeliveries, redeliverSection]

export const secretStoreSections: ReadonlyArray<Section<SecretStore>> = [getOrCreate, findAndRemove, replaceSecret]

/** Checks of `AuditLog`, in which the verbs of all other ports record changes. */
export const auditLogSections: ReadonlyArray<Section<AuditLog | Stores>> = [
  appendedChanges,
  prunedChanges,
  auditedVerbs,
]

/** All checks of a record store. */
export const storeSections: ReadonlyArray<Section> = [
  ...jobStoreSections,
  ...jobDirectorySections,
  ...uploadStoreSections,
  ...keyDirectorySections,
  ...switchboardSections,
  ...secretStoreSections,
  ...scheduleStoreSections,
  ...deliveryStoreSections,
]
