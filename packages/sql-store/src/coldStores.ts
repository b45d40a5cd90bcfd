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
import { makeKeyDirectory } from "./keys.ts"
import { makeMinuteHistory, makeOperatorTokens } from "./operatorStores.ts"
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
