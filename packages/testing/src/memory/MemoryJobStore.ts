import {
  type FileId,
  holdsClaim,
  isFinished,
  type Job,
  type JobId,
  owns,
  polledJob,
  type Principal,
} from "@kiln/core/domain"
import { JobStore, type StoredFile } from "@kiln/core/ports"
import { cancelJobs } from "./jobs/cancelJobs.ts"
import { claimJobs } from "./jobs/claimJobs.ts"
import { createJobs, findByIdempotencyKey } from "./jobs/createJobs.ts"
import { eraseJobs } from "./jobs/eraseJobs.ts"
import { expireJobs } from "./jobs/expireJobs.ts"
import { checkpointJobs, completeJobs, deferJobs, extendLeases, failJobs, releaseJobs } from "./jobs/fencedVerbs.ts"
import { findOrphans } from "./jobs/findOrphans.ts"
import { readLineage, writeLineage } from "./jobs/lineage.ts"
import { listCharges } from "./jobs/listCharges.ts"
import { deleteJobs, expireData } from "./jobs/pruneJobs.ts"
import { confirmPurges, hastenPurges, listPurges, nextPurges, postponePurges } from "./jobs/purges.ts"
import { publishRetention, readRetention } from "./jobs/retentionRules.ts"
import { type MemoryState, step } from "./MemoryState.ts"

/** The reference model of `JobStore`: the pure domain functions over maps. */
export const makeMemoryJobStore = (state: MemoryState): JobStore["Service"] =>
  JobStore.of({
    capabilities: { durable: false, multiProcess: false },
    createJobs: (jobs) => step((now) => createJobs(state, jobs, now)),
    createAndClaimJobs: (jobs, claim) =>
      step((now) => ({ created: createJobs(state, jobs, now), claimed: claimJobs(state, claim, now) })),
    findJobs: (items) => step(() => items.map((item) => findOwned(state, item))),
    pollJobs: (items) =>
      step(() =>
        items.map((item) => {
          const polled = findOwned(state, item)
          return polled && polledJob(polled)
        }),
      ),
    findByIdempotencyKey: (keyId, idempotencyKey) => step(() => findByIdempotencyKey(state, keyId, idempotencyKey)),
    findFile: (fileId) => step(() => findFile(state, fileId)),
    claimJobs: (request) => step((now) => claimJobs(state, request, now)),
    extendLeases: (items) => step((now) => extendLeases(state, items, now)),
    checkpointJobs: (items) => step((now) => checkpointJobs(state, items, now)),
    completeJobs: (items) => step((now) => completeJobs(state, items, now)),
    failJobs: (items) => step((now) => failJobs(state, items, now)),
    deferJobs: (items) => step((now) => deferJobs(state, items, now)),
    releaseJobs: (items) => step((now) => releaseJobs(state, items, now)),
    cancelJobs: (jobIds) => step((now) => cancelJobs(state, jobIds, now)),
    checkClaims: (items) =>
      step(() =>
        items.map(({ jobId, token }) => {
          const job = state.jobs.get(jobId)
          return job !== undefined && holdsClaim(job, token)
        }),
      ),
    expireJobs: (limit) => step((now) => expireJobs(state, limit, now)),
    eraseJobs: (items) => step(() => eraseJobs(state, items)),
    expireData: (olderThanMs, limit) => step((now) => expireData(state, olderThanMs, limit, now)),
    deleteJobs: (olderThanMs, limit) => step((now) => deleteJobs(state, olderThanMs, limit, now)),
    listCharges: (page) => step((now) => listCharges(state, page, now)),
    publishRetention: (publication) => step((now) => publishRetention(state, publication, now)),
    readRetention: step((now) => readRetention(state, now)),
    listPurges: (limit) => step(() => listPurges(state, limit)),
    nextPurges: (limit) => step((now) => nextPurges(state, limit, now)),
    postponePurges: (purges) => step((now) => postponePurges(state, purges, now)),
    hastenPurges: step(() => hastenPurges(state)),
    confirmPurges: (purges) => step(() => confirmPurges(state, purges)),
    findOrphans: (blobs) => step(() => findOrphans(state, blobs)),
    readLineage: step((now) => readLineage(state, now)),
    writeLineage: (version, document) => step(() => writeLineage(state, version, document)),
  })

const findOwned = (
  state: MemoryState,
  { jobId, principal }: { readonly jobId: JobId; readonly principal: Principal },
): Job | undefined => {
  const job = state.jobs.get(jobId)
  return job !== undefined && owns(principal, job) ? job : undefined
}

const findFile = (state: MemoryState, fileId: FileId): StoredFile | undefined => {
  for (const job of state.jobs.values()) {
    const file = isFinished(job) ? job.files.find((candidate) => candidate.id === fileId) : undefined
    if (file !== undefined && job.retained === "kept") return { ...file, jobId: job.id }
  }
  return undefined
}
