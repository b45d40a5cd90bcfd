import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import { type ClaimResult, JobStore } from "@kiln/core/ports"
import { jobVerbs } from "@kiln/sql-store"
import type { Database } from "../Database.ts"
import { auditedDatabase, transactionsOf } from "../transactionsOf.ts"
import { cancelJobs, checkClaims, completeJobs, deferJobs, expireJobs, failJobs, releaseJobs } from "./endClaims.ts"
import { appendChunks, checkpointJobs, extendLeases, readChunks } from "./progress.ts"
import { claimJobs, failUnreadable, UnreadableJob } from "./claimJobs.ts"
import { createJobs, findBoundKey } from "./createJobs.ts"
import { deleteJobs, eraseJobs, expireData, publishRetention } from "./retention.ts"
import { findFile, findJobs, findOrphans, pollJobs } from "./findJobs.ts"
import { prunedInParts } from "../disk/fullDisk.ts"
import { createAtOnce } from "./insertJob.ts"
import { listCharges } from "../spending.ts"
import type { Transaction } from "../Transaction.ts"
import { rescheduleJobs, signalJobs } from "./waitingJobs.ts"
/** Repeats the claim after failing each job that cannot be read. */
const skippingUnreadable = (
  db: Database,
  claim: Effect.Effect<ClaimResult, StoreUnavailable>,
): Effect.Effect<ClaimResult, StoreUnavailable> =>
  Effect.catchDefect(claim, (defect) =>
    defect instanceof UnreadableJob
      ? db
          .write("JobStore.claimJobs", (tx) => failUnreadable(tx, defect.jobId))
          .pipe(
            // The job fails like any other, so only this log line tells an operator about the damage.
            Effect.andThen(
              Effect.logError("a job could not be read and has failed: its record is damaged", defect.jobId),
            ),
            Effect.andThen(skippingUnreadable(db, claim)),
          )
      : Effect.die(defect),
  )

/** Each verb is one transaction. */
export const makeSqliteJobStore = (db: Database): JobStore["Service"] => {
  const recording = auditedDatabase(db)
  const common = transactionsOf(db)
  return JobStore.of({
    capabilities: { durable: true, multiProcess: true },
    createJobs: (jobs) => {
      const [only, ...others] = jobs
      const create = (tx: Transaction) => createJobs(tx, jobs, db.counted)
      // Only an operator retries jobs, and submits those of schedules outside of their ticks.
      if (jobs.some(({ retryOf, tick }) => retryOf !== null || tick?.isManual === true))
        return recording.write("JobStore.createJobs", create)
      return only !== undefined && others.length === 0
        ? db.writeAtOnce("JobStore.createJobs", (tx) => createAtOnce(tx, only, db.counted), create)
        : db.write("JobStore.createJobs", create)
    },
    createAndClaimJobs: (jobs, request) =>
      db.write("JobStore.createAndClaimJobs", (tx) => ({
        created: createJobs(tx, jobs, db.counted),
        claimed: claimJobs(tx, request),
      })),
    findJobs: (items) => db.read("JobStore.findJobs", (tx) => findJobs(tx, items)),
    pollJobs: (items) =>
      items.length === 1
        ? db.readAtOnce("JobStore.pollJobs", (tx) => pollJobs(tx, items))
        : db.read("JobStore.pollJobs", (tx) => pollJobs(tx, items)),
    findByIdempotencyKey: (keyId, idempotencyKey) =>
      db.read("JobStore.findByIdempotencyKey", (tx) => findBoundKey(tx, { keyId, idempotencyKey })?.job),
    findFile: (fileId) => db.read("JobStore.findFile", (tx) => findFile(tx, fileId)),
    claimJobs: (request) =>
      skippingUnreadable(
        db,
        db.write("JobStore.claimJobs", (tx) => claimJobs(tx, request)),
      ),
    extendLeases: (items) => db.write("JobStore.extendLeases", (tx) => extendLeases(tx, items)),
    checkpointJobs: (items) => db.write("JobStore.checkpointJobs", (tx) => checkpointJobs(tx, items)),
    appendChunks: (items) => db.write("JobStore.appendChunks", (tx) => appendChunks(tx, items)),
    readChunks: (items) => db.read("JobStore.readChunks", (tx) => readChunks(tx, items)),
    completeJobs: (items) => db.write("JobStore.completeJobs", (tx) => completeJobs(tx, items)),
    completeAndClaimJobs: (items, request) =>
      db.write("JobStore.completeAndClaimJobs", (tx) => ({
        completed: completeJobs(tx, items),
        claimed: claimJobs(tx, request),
      })),
    failJobs: (items) => db.write("JobStore.failJobs", (tx) => failJobs(tx, items)),
    deferJobs: (items) => db.write("JobStore.deferJobs", (tx) => deferJobs(tx, items)),
    releaseJobs: (items) => db.write("JobStore.releaseJobs", (tx) => releaseJobs(tx, items)),
    signalJobs: (items) => recording.write("JobStore.signalJobs", (tx) => signalJobs(tx, items)),
    cancelJobs: (jobIds) => recording.write("JobStore.cancelJobs", (tx) => cancelJobs(tx, jobIds)),
    rescheduleJobs: (items) => recording.write("JobStore.rescheduleJobs", (tx) => rescheduleJobs(tx, items)),
    checkClaims: (items) => db.read("JobStore.checkClaims", (tx) => checkClaims(tx, items)),
    expireJobs: (limit) => db.write("JobStore.expireJobs", (tx) => expireJobs(tx, limit)),
    eraseJobs: (items) => recording.write("JobStore.eraseJobs", (tx) => eraseJobs(tx, items)),
    expireData: (olderThanMs, limit) =>
      prunedInParts(limit, (part) => db.write("JobStore.expireData", (tx) => expireData(tx, olderThanMs, part))),
    deleteJobs: (olderThanMs, limit) =>
      prunedInParts(limit, (part) => db.write("JobStore.deleteJobs", (tx) => deleteJobs(tx, olderThanMs, part))),
    listCharges: (page) => db.write("JobStore.listCharges", (tx) => listCharges(tx, page)),
    publishRetention: (publication) => db.write("JobStore.publishRetention", (tx) => publishRetention(tx, publication)),
    ...jobVerbs(common, common.write),
    findOrphans: (blobs) => db.read("JobStore.findOrphans", (tx) => findOrphans(tx, blobs)),
  })
}
