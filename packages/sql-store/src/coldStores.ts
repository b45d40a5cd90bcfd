import * as Context from "effect/Context"
import {
  AuditLog,
  type CallerTransactions,
  type DeliveryStore,
  type JobDirectory,
  type JobStore,
  KeyDirectory,
  MinuteHistory,
  OperatorTokens,
  type RateLimitStore,
  ScheduleStore,
  SecretStore,
  type StorePlace,
  type Switchboard,
  type UploadStore,
  type WakeUp,
} from "@kiln/core/ports"
import { makeAuditLog } from "./audit.ts"
import { countChunks, listAttempts, listSignals, listWaits, type StateTable } from "./history.ts"
import { makeKeyDirectory } from "./keys.ts"
import { readLineage, readRetention, writeLineage } from "./lineage.ts"
import { makeMinuteHistory, makeOperatorTokens } from "./operatorStores.ts"
import { purgeVerbs } from "./purges.ts"
import { makeScheduleStore } from "./schedules.ts"
import { makeSecretStore } from "./secrets.ts"
import type { Transactions } from "./Sql.ts"

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
