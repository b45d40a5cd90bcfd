import { Effect } from "effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import { type ClaimRequest, type ClaimResult, JobStore, type PruneResult } from "@kiln/core/ports"
import type { Database } from "./Database.ts"
import type { LaneNotes } from "./LaneNotes.ts"
import { isCorrupt } from "./postgresErrors.ts"
import { checkpointJobs } from "./sql/checkpointJobs.ts"
import { claimJobs, type Claimed } from "./sql/claimJobs.ts"
import { completeJobs } from "./sql/completeJobs.ts"
import { confirmPurges } from "./sql/confirmPurges.ts"
import { createJobs } from "./sql/createJobs.ts"
import { deferJobs } from "./sql/deferJobs.ts"
import { anyFinishedJob, deleteJobs } from "./sql/deleteJobs.ts"
import { eraseJobs } from "./sql/eraseJobs.ts"
import { anyKeptJob, expireData } from "./sql/expireData.ts"
import { anyOverdue, expireJobs } from "./sql/expireJobs.ts"
import { extendLeases } from "./sql/extendLeases.ts"
import { failJobs } from "./sql/failJobs.ts"
import { failUnreadable, UnreadableJob } from "./sql/failUnreadable.ts"
import { findByIdempotencyKey } from "./sql/findByIdempotencyKey.ts"
import { findFile } from "./sql/findFile.ts"
import { findJobs } from "./sql/findJobs.ts"
import { findOrphans } from "./sql/findOrphans.ts"
import { listPurges } from "./sql/listPurges.ts"
import { lookForWork, settleAfter } from "./sql/nextClaimable.ts"
import { releaseJobs } from "./sql/releaseJobs.ts"

/**
 * Claims, and past every job that cannot be read: it fails, and there is one less. Where a page is damaged and it is not
 * known whose it is, jobs are claimed one by one until it is.
 */
const pastUnreadable = (
  db: Database,
  notes: LaneNotes,
  request: ClaimRequest,
): Effect.Effect<Claimed, StoreUnavailable> =>
  db
    .write("JobStore.claimJobs", (tx) => claimJobs(tx, request, notes))
    .pipe(
      Effect.catchTag("StoreUnavailable", (error) =>
        isCorrupt(error.cause) && request.limit > 1
          ? pastUnreadable(db, notes, { ...request, limit: 1 })
          : Effect.fail(error),
      ),
      Effect.catchDefect((defect) =>
        defect instanceof UnreadableJob
          ? db
              .write("JobStore.claimJobs", (tx) => failUnreadable(tx, defect.jobId))
              .pipe(
                // The job fails like any other, so this is the only place where an operator learns of the damage.
                Effect.andThen(
                  Effect.logError("a job could not be read and has failed: its record is damaged", defect.jobId),
                ),
                Effect.andThen(pastUnreadable(db, notes, request)),
              )
          : Effect.die(defect),
      ),
    )

/**
 * A look without a transaction, which is all that an idle worker costs; the claim; and once that is committed, the lanes'
 * bookkeeping, of which nothing but the order of turns depends: if it fails, the claim stands.
 */
const claim = Effect.fnUntraced(function* (
  db: Database,
  notes: LaneNotes,
  request: ClaimRequest,
): Effect.fn.Return<ClaimResult, StoreUnavailable> {
  const seen = yield* db.read("JobStore.claimJobs", (session) => lookForWork(session, request.runnable))
  if (!seen.now) return { claims: [], abandoned: [], nextInMs: seen.nextInMs }
  const claimed = yield* pastUnreadable(db, notes, request)
  const { abandoned, claims } = claimed
  const due = notes.claimed(claimed, performance.now())
  const nextInMs = yield* db
    .read("JobStore.claimJobs", (session) => settleAfter(session, request.runnable, claimed, due))
    .pipe(Effect.catchTag("StoreUnavailable", (error) => (claims.length > 0 ? Effect.succeed(0) : Effect.fail(error))))
  return { claims, abandoned, nextInMs }
}, Effect.uninterruptible)

const nothingPruned: PruneResult = { count: 0, purges: [] }

/** One line per verb, one file per verb, one transaction per call. Heartbeats have connections of their own, so that a pool in full use loses no lease. */
export const makePostgresJobStore = (db: Database, heartbeats: Database, notes: LaneNotes): JobStore["Service"] =>
  JobStore.of({
    capabilities: { durable: true, multiProcess: true },
    createJobs: (jobs) => db.write("JobStore.createJobs", (tx) => createJobs(tx, jobs)),
    findJobs: (items) => db.read("JobStore.findJobs", (session) => findJobs(session, items)),
    findByIdempotencyKey: (keyId, key) =>
      db.read("JobStore.findByIdempotencyKey", (session) => findByIdempotencyKey(session, keyId, key)),
    findFile: (fileId) => db.read("JobStore.findFile", (session) => findFile(session, fileId)),
    claimJobs: (request) => claim(db, notes, request),
    extendLeases: (items) => heartbeats.write("JobStore.extendLeases", (tx) => extendLeases(tx, items)),
    checkpointJobs: (items) => db.write("JobStore.checkpointJobs", (tx) => checkpointJobs(tx, items)),
    completeJobs: (items) => db.write("JobStore.completeJobs", (tx) => completeJobs(tx, items)),
    failJobs: (items) => db.write("JobStore.failJobs", (tx) => failJobs(tx, items)),
    deferJobs: (items) => db.write("JobStore.deferJobs", (tx) => deferJobs(tx, items)),
    releaseJobs: (items) => db.write("JobStore.releaseJobs", (tx) => releaseJobs(tx, items)),
    expireJobs: (limit) =>
      db.writeIf(
        "JobStore.expireJobs",
        (session) => session.any(anyOverdue, {}),
        (tx) => expireJobs(tx, limit),
        0,
      ),
    eraseJobs: (items) => db.write("JobStore.eraseJobs", (tx) => eraseJobs(tx, items)),
    expireData: (olderThanMs, limit) =>
      db.writeIf(
        "JobStore.expireData",
        (session) => session.any(anyKeptJob, { olderThanMs }),
        (tx) => expireData(tx, olderThanMs, limit),
        nothingPruned,
      ),
    deleteJobs: (olderThanMs, limit) =>
      db.writeIf(
        "JobStore.deleteJobs",
        (session) => session.any(anyFinishedJob, { olderThanMs }),
        (tx) => deleteJobs(tx, olderThanMs, limit),
        nothingPruned,
      ),
    listPurges: (limit) => db.read("JobStore.listPurges", (session) => listPurges(session, limit)),
    confirmPurges: (purges) => db.write("JobStore.confirmPurges", (tx) => confirmPurges(tx, purges)),
    findOrphans: (blobs) => db.read("JobStore.findOrphans", (session) => findOrphans(session, blobs)),
  })
