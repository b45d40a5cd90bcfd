import * as Effect from "effect/Effect"
import type { JobId, StoreUnavailable } from "@kiln/core/domain"
import {
  type ClaimRef,
  type ClaimRequest,
  type ClaimResult,
  type FencedOutcome,
  JobStore,
  type PruneResult,
} from "@kiln/core/ports"
import type { Database } from "../Database.ts"
import type { StateRow } from "./jobRow.ts"
import type { LaneNotes } from "./LanePositions.ts"
import { isCorrupt } from "../postgresErrors.ts"
import type { Transaction } from "../Session.ts"
import { wholeAge } from "../Statement.ts"
import { cancelJobs } from "./cancelJobs.ts"
import { checkClaims, extendLeases } from "./extendLeases.ts"
import { checkpointJobs } from "./checkpointJobs.ts"
import { type Claimed, claimJobs, failUnreadable, openClaim, UnreadableJob } from "./claimJobs.ts"
import { completeJobs } from "./completeJobs.ts"
import { confirmPurges, listPurges } from "./purges.ts"
import { makeCreateJobs } from "./createAtOnce.ts"
import { RememberedLanes } from "./lanes.ts"
import { deferJobs, failJobs, releaseJobs } from "./endClaims.ts"
import { anyFinishedJob, deleteJobs } from "./deleteJobs.ts"
import { anyKeptJob, eraseJobs, expireData } from "./eraseJobs.ts"
import { anyOverdue, expireJobs } from "./expireJobs.ts"
import { findByIdempotencyKey, findFile, findJobs } from "./findJobs.ts"
import { findOrphans, readLineage, writeLineage } from "./blobs.ts"
import { listCharges } from "./listCharges.ts"
import { lookForWork, settleAfter } from "./nextClaimable.ts"
import { lockedJobs, lockedJobsAndLanes } from "./writeStates.ts"

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
    .writeAfter(
      "JobStore.claimJobs",
      (session) => openClaim(session, request, notes),
      (tx, opened) => claimJobs(tx, request, opened),
    )
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

/** Hears of jobs that ended here. Never waits. */
export type TellFinished = (jobs: ReadonlyArray<JobId>) => void

/** The verb, and then word of the jobs it ended. */
const ends = <Item extends { readonly jobId: JobId }, E>(
  verb: (items: ReadonlyArray<Item>) => Effect.Effect<ReadonlyArray<FencedOutcome>, E>,
  tell: TellFinished,
) => {
  return (items: ReadonlyArray<Item>) =>
    Effect.tap(verb(items), (outcomes) =>
      Effect.sync(() => tell(items.flatMap(({ jobId }, index) => (outcomes[index] === "Written" ? [jobId] : [])))),
    )
}

const nothingPruned: PruneResult = { count: 0, purges: [] }

/** Verbs about claims, whose items are those of many attempts: the jobs are locked as the transaction begins. */
const locking =
  (db: Database, lock: typeof lockedJobs) =>
  <Item extends ClaimRef, Outcome>(
    operation: string,
    verb: (
      tx: Transaction,
      items: ReadonlyArray<Item>,
      jobs: ReadonlyArray<StateRow>,
    ) => Promise<ReadonlyArray<Outcome>>,
  ) =>
  (items: ReadonlyArray<Item>): Effect.Effect<ReadonlyArray<Outcome>, StoreUnavailable> =>
    db.writeBatch(
      `JobStore.${operation}`,
      items.length,
      (session) => lock(session, items),
      (tx, jobs) => verb(tx, items, jobs),
    )

/** Ends of jobs that no claim brings about. */
const endingFromOutside = (
  db: Database,
  tell: TellFinished,
): Pick<JobStore["Service"], "cancelJobs" | "expireJobs"> => ({
  cancelJobs: (jobIds) =>
    Effect.tap(
      db.writeAfter(
        "JobStore.cancelJobs",
        (session) =>
          lockedJobs(
            session,
            jobIds.map((jobId) => ({ jobId })),
          ),
        (tx, jobs) => cancelJobs(tx, jobIds, jobs),
      ),
      (outcomes) => Effect.sync(() => tell(jobIds.filter((_, index) => outcomes[index] === "Canceled"))),
    ),
  expireJobs: (limit) =>
    db
      .writeIf<ReadonlyArray<JobId>>(
        "JobStore.expireJobs",
        (session) => session.any(anyOverdue, {}),
        (tx) => expireJobs(tx, limit),
        [],
      )
      .pipe(Effect.tap((jobs) => Effect.sync(() => tell(jobs)))),
})

/** One line per verb, one file per verb, one transaction per call. Heartbeats have connections of their own, so that a pool in full use loses no lease. */
export const makePostgresJobStore = (
  db: Database,
  heartbeats: Database,
  notes: LaneNotes,
  tell: TellFinished,
): JobStore["Service"] => {
  const ending = locking(db, lockedJobs)
  const givingBack = locking(db, lockedJobsAndLanes)
  return JobStore.of({
    capabilities: { durable: true, multiProcess: true },
    createJobs: makeCreateJobs(db, new RememberedLanes()),
    findJobs: (items) => db.read("JobStore.findJobs", (session) => findJobs(session, items)),
    findByIdempotencyKey: (keyId, key) =>
      db.read("JobStore.findByIdempotencyKey", (session) => findByIdempotencyKey(session, keyId, key)),
    findFile: (fileId) => db.read("JobStore.findFile", (session) => findFile(session, fileId)),
    claimJobs: (request) =>
      Effect.tap(claim(db, notes, request), ({ abandoned }) => Effect.sync(() => tell(abandoned))),
    extendLeases: (items) =>
      heartbeats.writeAfter(
        "JobStore.extendLeases",
        (session) => lockedJobsAndLanes(session, items),
        (tx, jobs) => extendLeases(tx, items, jobs),
      ),
    checkpointJobs: ending("checkpointJobs", checkpointJobs),
    completeJobs: ends(ending("completeJobs", completeJobs), tell),
    failJobs: ends(ending("failJobs", failJobs), tell),
    deferJobs: givingBack("deferJobs", deferJobs),
    releaseJobs: givingBack("releaseJobs", releaseJobs),
    ...endingFromOutside(db, tell),
    checkClaims: (items) => db.read("JobStore.checkClaims", (session) => checkClaims(session, items)),
    eraseJobs: (items) =>
      db.writeBatch(
        "JobStore.eraseJobs",
        items.length,
        () => Promise.resolve(),
        (tx) => eraseJobs(tx, items),
      ),
    expireData: (age, limit) => {
      const olderThanMs = wholeAge(age)
      return db.writeIf(
        "JobStore.expireData",
        (session) => session.any(anyKeptJob, { olderThanMs }),
        (tx) => expireData(tx, olderThanMs, limit),
        nothingPruned,
      )
    },
    deleteJobs: (age, limit) => {
      const olderThanMs = wholeAge(age)
      return db.writeIf(
        "JobStore.deleteJobs",
        (session) => session.any(anyFinishedJob, { olderThanMs }),
        (tx) => deleteJobs(tx, olderThanMs, limit),
        nothingPruned,
      )
    },
    listCharges: (page) => db.read("JobStore.listCharges", (session) => listCharges(session, page)),
    listPurges: (limit) => db.read("JobStore.listPurges", (session) => listPurges(session, limit)),
    confirmPurges: (purges) => db.write("JobStore.confirmPurges", (tx) => confirmPurges(tx, purges)),
    findOrphans: (blobs) => db.read("JobStore.findOrphans", (session) => findOrphans(session, blobs)),
    readLineage: db.read("JobStore.readLineage", readLineage),
    writeLineage: (version, document) => db.write("JobStore.writeLineage", (tx) => writeLineage(tx, version, document)),
  })
}
