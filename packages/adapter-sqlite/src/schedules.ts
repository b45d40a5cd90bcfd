import { writeSchedule as write } from "@kiln/sql-store"
import type { Values } from "./columns.ts"
import { type Given, query, statement } from "./Statement.ts"
import type { Transaction } from "./Transaction.ts"
import { runIn } from "./transactionsOf.ts"

const knownSchedule = statement((given: Given<Values<"schedules", "name">>) =>
  query.selectFrom("schedules").select("version").where("name", "=", given.name),
)

/** Returns the version of a schedule; `undefined` if it does not exist. */
export const scheduleVersion = (tx: Transaction, name: string): number | undefined =>
  tx.get(knownSchedule, { name })?.version

/** Replaces a schedule within a transaction that creates its job. */
export const writeSchedule = (
  tx: Transaction,
  name: string,
  expected: number,
  next: { readonly nextAt: number | null; readonly document: string },
): boolean => runIn(tx, (common) => write(common, name, expected, next))
