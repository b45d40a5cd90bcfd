import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import { type ClaimResult, JobStore } from "@kiln/core/ports"
import type { Database } from "./Database.ts"
import { cancelJobs } from "./sql/cancelJobs.ts"
import { checkClaims } from "./sql/checkClaims.ts"
import { checkpointJobs } from "./sql/checkpointJobs.ts"
import { claimJobs } from "./sql/claimJobs.ts"
import { completeJobs } from "./sql/completeJobs.ts"
import { confirmPurges } from "./sql/confirmPurges.ts"
import { createJobs } from "./sql/createJobs.ts"
import { deferJobs } from "./sql/deferJobs.ts"
import { deleteJobs } from "./sql/deleteJobs.ts"
import { eraseJobs } from "./sql/eraseJobs.ts"
import { expireData } from "./sql/expireData.ts"
import { expireJobs } from "./sql/expireJobs.ts"
import { extendLeases } from "./sql/extendLeases.ts"
import { failJobs } from "./sql/failJobs.ts"
import { failUnreadable, UnreadableJob } from "./sql/failUnreadable.ts"
import { findByIdempotencyKey } from "./sql/findByIdempotencyKey.ts"
import { findFile } from "./sql/findFile.ts"
import { findJobs } from "./sql/findJobs.ts"
import { findOrphans } from "./sql/findOrphans.ts"
import { readLineage, writeLineage } from "./sql/lineage.ts"
import { listCharges } from "./sql/listCharges.ts"
import { listPurges } from "./sql/listPurges.ts"
import { releaseJobs } from "./sql/releaseJobs.ts"

/** Claims again after each job that cannot be read; every time there is one less. */
const pastUnreadable = (
  db: Database,
  claim: Effect.Effect<ClaimResult, StoreUnavailable>,
): Effect.Effect<ClaimResult, StoreUnavailable> =>
  Effect.catchDefect(claim, (defect) =>
    defect instanceof UnreadableJob
      ? db
          .write("JobStore.claimJobs", (tx) => failUnreadable(tx, defect.jobId))
          .pipe(
            // The job fails like any other, so this is the only place where an operator learns of the damage.
            Effect.andThen(
              Effect.logError("a job could not be read and has failed: its record is damaged", defect.jobId),
            ),
            Effect.andThen(pastUnreadable(db, claim)),
          )
      : Effect.die(defect),
  )

/** One line per verb, one file per verb, one transaction per call. */
export const makeSqliteJobStore = (db: Database): JobStore["Service"] =>
  JobStore.of({
    capabilities: { durable: true, multiProcess: true },
    createJobs: (jobs) => db.write("JobStore.createJobs", (tx) => createJobs(tx, jobs)),
    findJobs: (items) => db.read("JobStore.findJobs", (tx) => findJobs(tx, items)),
    findByIdempotencyKey: (keyId, key) =>
      db.read("JobStore.findByIdempotencyKey", (tx) => findByIdempotencyKey(tx, keyId, key)),
    findFile: (fileId) => db.read("JobStore.findFile", (tx) => findFile(tx, fileId)),
    claimJobs: (request) =>
      pastUnreadable(
        db,
        db.write("JobStore.claimJobs", (tx) => claimJobs(tx, request)),
      ),
    extendLeases: (items) => db.write("JobStore.extendLeases", (tx) => extendLeases(tx, items)),
    checkpointJobs: (items) => db.write("JobStore.checkpointJobs", (tx) => checkpointJobs(tx, items)),
    completeJobs: (items) => db.write("JobStore.completeJobs", (tx) => completeJobs(tx, items)),
    failJobs: (items) => db.write("JobStore.failJobs", (tx) => failJobs(tx, items)),
    deferJobs: (items) => db.write("JobStore.deferJobs", (tx) => deferJobs(tx, items)),
    releaseJobs: (items) => db.write("JobStore.releaseJobs", (tx) => releaseJobs(tx, items)),
    cancelJobs: (jobIds) => db.write("JobStore.cancelJobs", (tx) => cancelJobs(tx, jobIds)),
    checkClaims: (items) => db.read("JobStore.checkClaims", (tx) => checkClaims(tx, items)),
    expireJobs: (limit) => db.write("JobStore.expireJobs", (tx) => expireJobs(tx, limit)),
    eraseJobs: (items) => db.write("JobStore.eraseJobs", (tx) => eraseJobs(tx, items)),
    expireData: (olderThanMs, limit) => db.write("JobStore.expireData", (tx) => expireData(tx, olderThanMs, limit)),
    deleteJobs: (olderThanMs, limit) => db.write("JobStore.deleteJobs", (tx) => deleteJobs(tx, olderThanMs, limit)),
    listCharges: (page) => db.write("JobStore.listCharges", (tx) => listCharges(tx, page)),
    listPurges: (limit) => db.read("JobStore.listPurges", (tx) => listPurges(tx, limit)),
    confirmPurges: (purges) => db.write("JobStore.confirmPurges", (tx) => confirmPurges(tx, purges)),
    findOrphans: (blobs) => db.read("JobStore.findOrphans", (tx) => findOrphans(tx, blobs)),
    readLineage: db.read("JobStore.readLineage", readLineage),
    writeLineage: (version, document) => db.write("JobStore.writeLineage", (tx) => writeLineage(tx, version, document)),
  })
