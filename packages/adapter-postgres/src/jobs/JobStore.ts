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
import { recorded } from "../audit.ts"
import type { Database } from "../Database.ts"
import type { StateRow } from "./jobRow.ts"
import type { LanePositions, LaneUpdate } from "./LanePositions.ts"
import { isCorrupt } from "../postgresErrors.ts"
import type { Transaction } from "../Session.ts"
import { wholeAge } from "../Statement.ts"
import { cancelJobs } from "./cancelJobs.ts"
import { checkClaims, extendLeases } from "./extendLeases.ts"
import { checkpointJobs } from "./checkpointJobs.ts"
import { claimAtOnce } from "./claimAtOnce.ts"
import { type Claimed, claimJobs, failHeld, failUnreadable, openClaim, UnreadableJob } from "./claimJobs.ts"
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
import { lookForWork, saveTurns, settleAfter } from "./nextClaimable.ts"
import { lockedJobs, lockedJobsAndLanes } from "./writeStates.ts"

/**
 * Claims jobs and fails those that cannot be read. If a page is damaged and its job is unknown, jobs are claimed one by one
 * until it is found.
 */
const claimReadable = (
  db: Database,
  positions: LanePositions,
  request: ClaimRequest,
): Effect.Effect<Claimed, StoreUnavailable> =>
  db
    .writeAfter(
      "JobStore.claimJobs",
      (session) => openClaim(session, request, positions),
      (tx, opened) => claimJobs(tx, request, opened),
    )
    .pipe(
      Effect.catchTag("StoreUnavailable", (error) =>
        isCorrupt(error.cause) && request.limit > 1
          ? claimReadable(db, positions, { ...request, limit: 1 })
          : Effect.fail(error),
      ),
      Effect.catchDefect((defect) =>
        defect instanceof UnreadableJob
          ? db
              .write("JobStore.claimJobs", (tx) => failUnreadable(tx, defect.jobId))
              .pipe(Effect.andThen(logUnreadable(defect.jobId)), Effect.andThen(claimReadable(db, positions, request)))
          : Effect.die(defect),
      ),
    )

const logUnreadable = (jobId: JobId) =>
  // The job fails like any other, so only this log tells an operator about the damage.
  Effect.logError("a job could not be read and has failed: its record is damaged", jobId)

/**
 * Saves what is due about lanes and returns when to claim again. Only the order of turns depends on it, so if it fails, the
 * claim stands.
 */
const settle = (db: Database, request: ClaimRequest, claimed: Claimed, due: LaneUpdate) =>
  db
    .read("JobStore.claimJobs", (session) => settleAfter(session, request.runnable, claimed, due))
    .pipe(
      Effect.catchTag("StoreUnavailable", (error) =>
        claimed.claims.length > 0 ? Effect.succeed(0) : Effect.fail(error),
      ),
    )

/** Claims with every rule, in several round trips. */
const claimByRules = Effect.fnUntraced(function* (
  db: Database,
  positions: LanePositions,
  backlog: { more: boolean },
  request: ClaimRequest,
): Effect.fn.Return<ClaimResult, StoreUnavailable> {
  if (!backlog.more) {
    const seen = yield* db.read("JobStore.claimJobs", (session) => lookForWork(session, request.runnable))
    if (!seen.now) return { claims: [], abandoned: [], nextInMs: seen.nextInMs }
  }
  backlog.more = false
  const claimed = yield* claimReadable(db, positions, request)
  const { abandoned, claims } = claimed
  const nextInMs = yield* settle(db, request, claimed, positions.claimed(claimed, performance.now()))
  backlog.more = claims.length > 0 && nextInMs === 0
  return { claims, abandoned, nextInMs }
})

/**
 * Claims: in one statement where that can decide, which is all that an idle worker costs. Lanes are settled afterwards, if any are
 * due; turns are saved while the jobs begin.
 */
const claim = Effect.fnUntraced(function* (
  db: Database,
  positions: LanePositions,
  backlog: { more: boolean },
  request: ClaimRequest,
): Effect.fn.Return<ClaimResult, StoreUnavailable> {
  const claimed = yield* claimAtOnce(db, positions, request)
  if (claimed === undefined) return yield* claimByRules(db, positions, backlog, request)
  const { abandoned, claims, nextInMs, unreadable, visited } = claimed
  if (unreadable.length > 0) {
    yield* db.write("JobStore.claimJobs", (tx) => failHeld(tx, unreadable))
    yield* Effect.forEach(unreadable, ({ jobId }) => logUnreadable(jobId), { discard: true })
  }
  if (visited.length === 0 && nextInMs === undefined) return { claims, abandoned, nextInMs }
  const due = positions.claimed(claimed, performance.now())
  if (claims.length === 0 || due.settle.length > 0)
    return { claims, abandoned, nextInMs: yield* settle(db, request, claimed, due) }
  if (due.served.length > 0)
    yield* Effect.forkDetach(Effect.ignore(db.read("JobStore.claimJobs", (session) => saveTurns(session, due))))
  return { claims, abandoned, nextInMs: earlier(nextInMs, due.againInMs) }
}, Effect.uninterruptible)

const earlier = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined || b === undefined ? (a ?? b) : Math.min(a, b)

/** Called with jobs that ended here. Never waits. */
export type AnnounceFinished = (jobs: ReadonlyArray<JobId>) => void

/** Runs the verb and announces the jobs it ended. */
const ends = <Item extends { readonly jobId: JobId }, E>(
  verb: (items: ReadonlyArray<Item>) => Effect.Effect<ReadonlyArray<FencedOutcome>, E>,
  tell: AnnounceFinished,
) => {
  return (items: ReadonlyArray<Item>) =>
    Effect.tap(verb(items), (outcomes) =>
      Effect.sync(() => tell(items.flatMap(({ jobId }, index) => (outcomes[index] === "Written" ? [jobId] : [])))),
    )
}

const nothingPruned: PruneResult = { count: 0, purges: [] }

/** Runs a verb about claims of many attempts: the jobs are locked when the transaction begins. */
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

/** Verbs that end jobs without a claim. */
const endingFromOutside = (
  db: Database,
  tell: AnnounceFinished,
): Pick<JobStore["Service"], "cancelJobs" | "expireJobs"> => ({
  cancelJobs: (jobIds) =>
    Effect.tap(
      recorded((record) =>
        db.writeAfter(
          "JobStore.cancelJobs",
          (session) =>
            lockedJobs(
              session,
              jobIds.map((jobId) => ({ jobId })),
            ),
          async (tx, jobs) => record(tx, await cancelJobs(tx, jobIds, jobs)),
        ),
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

/** One line per verb. Heartbeats have their own connections, so that a busy pool loses no lease. */
export const makePostgresJobStore = (
  db: Database,
  heartbeats: Database,
  positions: LanePositions,
  tell: AnnounceFinished,
): JobStore["Service"] => {
  const ending = locking(db, lockedJobs)
  const returning = locking(db, lockedJobsAndLanes)
  /** Whether the last claim left work behind. */
  const backlog = { more: false }
  const createJobs = makeCreateJobs(db, new RememberedLanes())
  return JobStore.of({
    capabilities: { durable: true, multiProcess: true },
    createJobs,
    createAndClaimJobs: (jobs) => Effect.map(createJobs(jobs), (created) => ({ created, claimed: undefined })),
    findJobs: (items) => db.read("JobStore.findJobs", (session) => findJobs(session, items)),
    findByIdempotencyKey: (keyId, key) =>
      db.read("JobStore.findByIdempotencyKey", (session) => findByIdempotencyKey(session, keyId, key)),
    findFile: (fileId) => db.read("JobStore.findFile", (session) => findFile(session, fileId)),
    claimJobs: (request) =>
      Effect.tap(claim(db, positions, backlog, request), ({ abandoned }) => Effect.sync(() => tell(abandoned))),
    extendLeases: (items) =>
      heartbeats.writeAfter(
        "JobStore.extendLeases",
        (session) => lockedJobsAndLanes(session, items),
        (tx, jobs) => extendLeases(tx, items, jobs),
      ),
    checkpointJobs: ending("checkpointJobs", checkpointJobs),
    completeJobs: ends(ending("completeJobs", completeJobs), tell),
    failJobs: ends(ending("failJobs", failJobs), tell),
    deferJobs: returning("deferJobs", deferJobs),
    releaseJobs: returning("releaseJobs", releaseJobs),
    ...endingFromOutside(db, tell),
    checkClaims: (items) => db.read("JobStore.checkClaims", (session) => checkClaims(session, items)),
    eraseJobs: (items) =>
      recorded((record) =>
        db.writeBatch(
          "JobStore.eraseJobs",
          items.length,
          () => Promise.resolve(),
          async (tx) => record(tx, await eraseJobs(tx, items)),
        ),
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
