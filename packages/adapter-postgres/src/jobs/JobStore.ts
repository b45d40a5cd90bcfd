import * as Effect from "effect/Effect"
import type { JobId, StoreUnavailable } from "@kiln/core/domain"
import { type ClaimRef, JobStore, type PruneResult } from "@kiln/core/ports"
import { jobVerbs } from "@kiln/sql-store"
import { recorded, transactionsOf } from "../transactionsOf.ts"
import type { Database } from "../connection/Database.ts"
import type { StateRow } from "./jobRow.ts"
import type { LanePositions } from "./LanePositions.ts"
import type { Transaction } from "../connection/Session.ts"
import {
  agesFrom,
  anyFinishedJob,
  anyKeptJob,
  deleteJobs,
  eraseJobs,
  expireData,
  publishRetention,
} from "./retention.ts"
import type { Carrier } from "../wakeUp/WakeUp.ts"
import { anyOverdue, cancelJobs, expireJobs } from "./endFromOutside.ts"
import { appendChunks, checkClaims, checkpointJobs, extendLeases, readChunks } from "./progress.ts"
import { Claims } from "./Claims.ts"
import { type AnnounceFinished, completeAndClaimJobs, completeJobs, failJobs } from "./endClaims.ts"
import { Creations } from "./createAtOnce.ts"
import type { RememberedFacts } from "./RememberedFacts.ts"
import { deferJobs, releaseJobs } from "./returnJobs.ts"
import { findByIdempotencyKey, findFile, findJobs, findOrphans, pollJobs } from "./findJobs.ts"
import { listCharges } from "../spending.ts"
import { lockedJobs, lockedJobsAndLanes, refsTo } from "./moveJobs.ts"
import { rescheduleJobs, SignaledJobs, signalLocked } from "./waitingJobs.ts"
const nothingPruned: PruneResult = { count: 0, purges: [] }

/** Runs a verb that returns jobs to the queue: they and their lanes are locked when the transaction begins. */
const returningJobs =
  (db: Database) =>
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
      (session) => lockedJobsAndLanes(session, items),
      (tx, jobs) => verb(tx, items, jobs),
    )

const tellingBy =
  (tell: AnnounceFinished) =>
  <A, E>(verb: Effect.Effect<A, E>, endedBy: (answer: A) => ReadonlyArray<JobId>) =>
    Effect.tap(verb, (answer) => Effect.sync(() => tell(endedBy(answer))))

const readingVerbs = (db: Database) =>
  ({
    findJobs: (items) => db.read("JobStore.findJobs", (session) => findJobs(session, items)),
    pollJobs: (items) => db.read("JobStore.pollJobs", (session) => pollJobs(session, items)),
    findByIdempotencyKey: (keyId, key) =>
      db.read("JobStore.findByIdempotencyKey", (session) => findByIdempotencyKey(session, keyId, key)),
    findFile: (fileId) => db.read("JobStore.findFile", (session) => findFile(session, fileId)),
    readChunks: (items) => db.read("JobStore.readChunks", (session) => readChunks(session, items)),
    checkClaims: (items) => db.read("JobStore.checkClaims", (session) => checkClaims(session, items)),
    findOrphans: (blobs) => db.read("JobStore.findOrphans", (session) => findOrphans(session, blobs)),
  }) satisfies Partial<JobStore["Service"]>

/** Verbs about jobs that a caller or an operator names, and what a worker tells of a job in progress. */
const outsideVerbs = (db: Database, telling: ReturnType<typeof tellingBy>) =>
  ({
    signalJobs: (items) =>
      items.length === 0
        ? Effect.succeed([])
        : recorded((record) =>
            db.writeBatch(
              "JobStore.signalJobs",
              items.length,
              (session) => lockedJobs(session, items),
              async (tx, jobs) => record(tx, await signalLocked(tx, items, jobs)),
            ),
          ),
    rescheduleJobs: (items) =>
      recorded((record) =>
        db.writeAfter(
          "JobStore.rescheduleJobs",
          (session) => lockedJobsAndLanes(session, items),
          async (tx, jobs) => record(tx, await rescheduleJobs(tx, items, jobs)),
        ),
      ),
    cancelJobs: (jobIds) =>
      telling(
        recorded((record) =>
          db.writeAfter(
            "JobStore.cancelJobs",
            (session) => lockedJobs(session, refsTo(jobIds)),
            async (tx, jobs) => record(tx, await cancelJobs(tx, jobIds, jobs)),
          ),
        ),
        (outcomes) => jobIds.filter((_, index) => outcomes[index] === "Canceled"),
      ),
    // The hint about a job that has ended also says that it has new chunks.
    appendChunks: (items) =>
      Effect.map(
        telling(
          db.writeAtOnce("JobStore.appendChunks", items.length, (session) => appendChunks(session, items)),
          ({ isHeard, outcomes }) =>
            isHeard ? items.flatMap(({ jobId }, place) => (outcomes[place] === "Written" ? [jobId] : [])) : [],
        ),
        ({ outcomes }) => outcomes,
      ),
  }) satisfies Partial<JobStore["Service"]>

const sweepingVerbs = (db: Database, telling: ReturnType<typeof tellingBy>) =>
  ({
    expireJobs: (limit) =>
      telling(
        db.writeIf<ReadonlyArray<JobId>>(
          "JobStore.expireJobs",
          (session) => session.any(anyOverdue, {}),
          (tx) => expireJobs(tx, limit),
          [],
        ),
        (jobs) => jobs,
      ),
    eraseJobs: (items) =>
      recorded((record) =>
        db.writeBatch(
          "JobStore.eraseJobs",
          items.length,
          () => Promise.resolve(),
          async (tx) => record(tx, await eraseJobs(tx, items)),
        ),
      ),
    expireData: (olderThanMs, limit) =>
      db.writeIf(
        "JobStore.expireData",
        (session) => session.any(anyKeptJob, agesFrom(olderThanMs)),
        (tx) => expireData(tx, olderThanMs, limit),
        nothingPruned,
      ),
    deleteJobs: (olderThanMs, limit) =>
      db.writeIf(
        "JobStore.deleteJobs",
        (session) => session.any(anyFinishedJob, agesFrom(olderThanMs)),
        (tx) => deleteJobs(tx, olderThanMs, limit),
        nothingPruned,
      ),
    publishRetention: (publication) =>
      db.read("JobStore.publishRetention", (session) => publishRetention(session, publication)),
    listCharges: (page) => db.read("JobStore.listCharges", (session) => listCharges(session, page)),
  }) satisfies Partial<JobStore["Service"]>

/** Heartbeats have their own connections, so that a busy pool loses no lease. */
export const makePostgresJobStore = (
  db: Database,
  heartbeats: Database,
  facts: RememberedFacts,
  positions: LanePositions,
  tell: AnnounceFinished,
  carrier?: Carrier,
  signaled = new SignaledJobs(db),
): JobStore["Service"] => {
  const common = transactionsOf(db)
  const telling = tellingBy(tell)
  const returning = returningJobs(db)
  const claims = new Claims(db, positions)
  const creations = new Creations(db, facts, claims, carrier)
  return JobStore.of({
    capabilities: { durable: true, multiProcess: true },
    // A second call keeps another core of the server busy.
    parallelCreations: 2,
    parallelReads: 2,
    createJobs: (items) => creations.create(items),
    createAndClaimJobs: (items, request) =>
      telling(creations.createAndClaim(items, request), ({ claimed }) => claimed?.abandoned ?? []),
    claimJobs: (request) => telling(Effect.andThen(signaled.wake, claims.claim(request)), ({ abandoned }) => abandoned),
    extendLeases: (items) =>
      heartbeats.writeAfter(
        "JobStore.extendLeases",
        (session) => lockedJobsAndLanes(session, items),
        (tx, jobs) => extendLeases(tx, items, jobs),
      ),
    checkpointJobs: (items) =>
      db.writeAtOnce("JobStore.checkpointJobs", items.length, (session) => checkpointJobs(session, items)),
    completeJobs: (items) => completeJobs(db, items, tell),
    completeAndClaimJobs: (items, request) =>
      telling(completeAndClaimJobs(db, claims, items, request, tell), ({ claimed }) => claimed?.abandoned ?? []),
    failJobs: (items) => failJobs(db, items, tell),
    deferJobs: returning("deferJobs", deferJobs),
    releaseJobs: returning("releaseJobs", releaseJobs),
    ...readingVerbs(db),
    ...outsideVerbs(db, telling),
    ...sweepingVerbs(db, telling),
    ...jobVerbs(common, common.read),
  })
}
