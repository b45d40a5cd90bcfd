import * as Context from "effect/Context"
import {
  AuditLog,
  type CallerTransactions,
  type DeliveryStore,
  type FinishedJob,
  type JobCount,
  type JobDirectory,
  type JobStore,
  KeyDirectory,
  MinuteHistory,
  OperatorTokens,
  type RateLimitStore,
  ScheduleStore,
  SecretStore,
  type StoreInspection,
  type StorePlace,
  type Switchboard,
  type UploadStore,
  type WakeUp,
} from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import {
  findLastEntry,
  findSecret,
  makeAuditLog,
  makeMinuteHistory,
  makeOperatorTokens,
  makeSecretStore,
} from "./operatorStores.ts"
import { countChunks, listAttempts, listSignals, listWaits, type StateTable } from "./history.ts"
import { listKeys, makeKeyDirectory } from "./keys.ts"
import { firstBlobs, type namedBlobs, purgeVerbs, readDuePurges, readLineage, writeLineage } from "./blobs.ts"
import { listSchedules, makeScheduleStore } from "./schedules.ts"
import type { Transactions } from "./Sql.ts"
import { listWorkers } from "./board.ts"
import { countDeliveries } from "./deliveries.ts"
import { findUploadOrphans, readRetention } from "./sweeps.ts"

/** The services that an adapter provides. */
export type SqlStore =
  | KeyDirectory
  | SecretStore
  | ScheduleStore
  | OperatorTokens
  | MinuteHistory
  | AuditLog
  | JobStore
  | JobDirectory
  | CallerTransactions
  | UploadStore
  | Switchboard
  | RateLimitStore
  | DeliveryStore
  | StorePlace
  | WakeUp

/** The stores that are the same on both databases. The transactions of `recording` also record the change that they make. */
export const coldStores = (db: Transactions, recording: Transactions) =>
  Context.make(KeyDirectory, makeKeyDirectory(recording)).pipe(
    Context.add(SecretStore, makeSecretStore(recording)),
    Context.add(ScheduleStore, makeScheduleStore(recording)),
    Context.add(OperatorTokens, makeOperatorTokens(recording)),
    Context.add(MinuteHistory, makeMinuteHistory(db)),
    Context.add(AuditLog, makeAuditLog(db)),
  )

/** The verbs of `JobStore` that are the same on both databases. `one` runs a program of one statement. */
export const jobVerbs = (db: Transactions, one: Transactions["read"]) =>
  ({
    ...purgeVerbs(db, one),
    listSignals: (jobId) => db.read("JobStore.listSignals", (tx) => listSignals(tx, jobId)),
    countChunks: (jobId) => db.read("JobStore.countChunks", (tx) => countChunks(tx, jobId)),
    readRetention: db.read("JobStore.readRetention", readRetention),
    readLineage: db.read("JobStore.readLineage", readLineage),
    writeLineage: (version, document) => db.write("JobStore.writeLineage", (tx) => writeLineage(tx, version, document)),
  }) satisfies Partial<JobStore["Service"]>

/** The same of `JobDirectory`. `table` has the state of unfinished jobs. */
export const directoryVerbs = (db: Transactions, table: StateTable) =>
  ({
    listWaits: (jobIds) => db.read("JobDirectory.listWaits", (tx) => listWaits(tx, jobIds, table)),
    listAttempts: (jobId) => db.read("JobDirectory.listAttempts", (tx) => listAttempts(tx, jobId)),
  }) satisfies Partial<JobDirectory["Service"]>

/** Rows per page: a listing never blocks the store for long. */
const pageSize = 500

/** The checks that are the same on both databases. */
export const commonChecks = (read: Transactions["read"], { isNamed, listNamedBlobs }: ReturnType<typeof namedBlobs>) =>
  ({
    namedBlobs: Stream.paginate(firstBlobs, (cursor) =>
      Effect.map(
        read("inspect.namedBlobs", (tx) => listNamedBlobs(tx, cursor, pageSize)),
        ({ blobs, next }) => [blobs, Option.fromUndefinedOr(next)] as const,
      ),
    ),
    isNamed: (blob) => read("inspect.isNamed", (tx) => isNamed(tx, blob)),
    readRetention: read("inspect.readRetention", readRetention),
    duePurges: read("inspect.duePurges", readDuePurges),
    findSecret: (name) => read("inspect.findSecret", (tx) => findSecret(tx, name)),
    listKeys: read("inspect.listKeys", listKeys),
    findLastChange: (action) => read("inspect.findLastChange", (tx) => findLastEntry(tx, action)),
    listSchedules: read("inspect.listSchedules", listSchedules),
    countDeliveries: read("inspect.countDeliveries", countDeliveries),
    listWorkers: read("inspect.listWorkers", listWorkers),
    readLineage: read("inspect.readLineage", readLineage),
    findUploadOrphans: (blobs) => read("inspect.findUploadOrphans", (tx) => findUploadOrphans(tx, blobs)),
  }) satisfies Partial<StoreInspection>

/** Adds up the counts of several parts of an index, and sorts them. */
export const addUpCounts = (counts: ReadonlyArray<JobCount>): ReadonlyArray<JobCount> => {
  const sums = new Map<string, JobCount>()
  for (const part of counts) {
    const name = `${part.kind} ${part.mode} ${part.status}`
    sums.set(name, { ...part, count: part.count + (sums.get(name)?.count ?? 0) })
  }
  return [...sums.keys()].sort().flatMap((name) => sums.get(name) ?? [])
}

export const newestFinished = (jobs: ReadonlyArray<FinishedJob>, limit: number): ReadonlyArray<FinishedJob> =>
  jobs.toSorted((one, other) => other.finishedAt - one.finishedAt).slice(0, limit)
