import type { KeyDirectory, SecretStore, Switchboard } from "@kiln/core/ports"
import type { Section } from "./Check.ts"
import { countJobs, readJobs } from "./JobDirectory/countJobs.ts"
import { listJobs } from "./JobDirectory/listJobs.ts"
import { cancelJobs } from "./JobStore/cancelJobs.ts"
import { checkClaims } from "./JobStore/checkClaims.ts"
import { claimJobs } from "./JobStore/claimJobs.ts"
import { claimJobsLostWorkers } from "./JobStore/claimJobsLostWorkers.ts"
import { createJobs, createJobsIdempotency } from "./JobStore/createJobs.ts"
import { createJobsQueueCap } from "./JobStore/createJobsQueueCap.ts"
import { createJobsGate, createJobsPrecedence } from "./JobStore/createJobsRefusals.ts"
import { createJobsUpload } from "./JobStore/createJobsUpload.ts"
import { delay } from "./JobStore/createJobsDelay.ts"
import { eraseJobs } from "./JobStore/eraseJobs.ts"
import { fairness } from "./JobStore/claimJobsFairness.ts"
import { fencing } from "./JobStore/fencing.ts"
import { findByIdempotencyKey, findFileSection, findJobs } from "./JobStore/findJobs.ts"
import { expireJobs } from "./JobStore/expireJobs.ts"
import { completeJobs, failJobs } from "./JobStore/finishJobs.ts"
import { deleteJobs, expireData } from "./JobStore/pruneJobs.ts"
import { findOrphans, purges } from "./JobStore/listPurges.ts"
import { keptFields } from "./JobStore/createJobsKeptFields.ts"
import { kindVersions } from "./JobStore/claimJobsKindVersions.ts"
import { lineage } from "./JobStore/writeLineage.ts"
import { listCharges } from "./JobStore/listCharges.ts"
import { limits } from "./JobStore/claimJobsLimits.ts"
import { priority } from "./JobStore/claimJobsPriority.ts"
import { retries } from "./JobStore/createJobsRetries.ts"
import { checkpointJobs, deferJobs, extendLeases, releaseJobs } from "./JobStore/runningJobs.ts"
import { workerSlots } from "./JobStore/claimJobsWorkerSlots.ts"
import { apiKeys, firstKey, keyLife, projects } from "./KeyDirectory/keyDirectory.ts"
import { findAndRemove } from "./SecretStore/findAndRemove.ts"
import { getOrCreate } from "./SecretStore/getOrCreate.ts"
import { pausedKinds } from "./Switchboard/pauseKind.ts"
import { prices, publishedWorkers, switches, workers } from "./Switchboard/switchboard.ts"
import { claimUploadSection, createUploads } from "./UploadStore/claimUpload.ts"
import { deleteUploads, expireUploads, findUploadOrphans } from "./UploadStore/pruneUploads.ts"
import { transfers } from "./UploadStore/transfers.ts"
import { uploadCaps } from "./UploadStore/uploadCaps.ts"

// Data, so that the checks themselves can be checked with planted bugs.

/** Asked of `JobStore`. Its transactions span uploads and switches, so the other ports take part. */
export const jobStoreSections: ReadonlyArray<Section> = [
  createJobs,
  createJobsIdempotency,
  createJobsGate,
  createJobsUpload,
  createJobsQueueCap,
  createJobsPrecedence,
  delay,
  keptFields,
  retries,
  findJobs,
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
  failJobs,
  deferJobs,
  releaseJobs,
  cancelJobs,
  checkClaims,
  expireJobs,
  eraseJobs,
  expireData,
  deleteJobs,
  listCharges,
  purges,
  findOrphans,
  lineage,
]

/** Asked of `JobDirectory`. It reads what `JobStore` wrote, so the other ports take part. */
export const jobDirectorySections: ReadonlyArray<Section> = [listJobs, countJobs, readJobs]

/** Asked of `UploadStore`. Jobs consume uploads, so the other ports take part. */
export const uploadStoreSections: ReadonlyArray<Section> = [
  createUploads,
  claimUploadSection,
  transfers,
  uploadCaps,
  expireUploads,
  deleteUploads,
  findUploadOrphans,
]

export const keyDirectorySections: ReadonlyArray<Section<KeyDirectory>> = [projects, apiKeys, firstKey, keyLife]
export const switchboardSections: ReadonlyArray<Section<Switchboard>> = [
  switches,
  pausedKinds,
  prices,
  workers,
  publishedWorkers,
]
export const secretStoreSections: ReadonlyArray<Section<SecretStore>> = [getOrCreate, findAndRemove]

/** Everything asked of a record store. */
export const storeSections: ReadonlyArray<Section> = [
  ...jobStoreSections,
  ...jobDirectorySections,
  ...uploadStoreSections,
  ...keyDirectorySections,
  ...switchboardSections,
  ...secretStoreSections,
]
