import { sql } from "kysely"
import { nextScheduleVersion, type ReadSchedules, type SchedulePosition, ScheduleStore } from "@kiln/core/ports"
import { assign, select, type Values } from "./columns.ts"
import type { Database } from "./Database.ts"
import { type Given, query, statement } from "./Statement.ts"
import type { Transaction } from "./Transaction.ts"

type Row = Values<"schedules", "name" | "version" | "next_at" | "document">

const selectSchedules = query
  .selectFrom("schedules")
  .select(select("schedules", "name", "version", "next_at", "document"))

const allSchedules = statement(() => selectSchedules.orderBy("name"))

export const listSchedules = (tx: Transaction): ReadSchedules => ({ now: tx.now, schedules: tx.all(allSchedules, {}) })

const scheduleOfName = statement((given: Given<Values<"schedules", "name">>) =>
  selectSchedules.where("name", "=", given.name),
)

/** The rows of the index after a position. It compares both columns at once, so that it seeks instead of filtering. */
const nextSchedules = statement(
  (given: Given<{ readonly limit: number; readonly nextAt: number; readonly name: string }>) =>
    selectSchedules
      .where("next_at", "is not", null)
      .where(sql<boolean>`(next_at, name) > (${given.nextAt}, ${given.name})`)
      .orderBy("next_at")
      .orderBy("name")
      .limit(given.limit),
)

const insertSchedule = statement((given: Given<Row>) =>
  query
    .insertInto("schedules")
    .values(assign(given, "name", "version", "next_at", "document"))
    .onConflict((conflict) => conflict.column("name").doNothing()),
)

const updateSchedule = statement((given: Given<Row & { readonly expected: number }>) =>
  query
    .updateTable("schedules")
    .set(assign(given, "version", "next_at", "document"))
    .where("name", "=", given.name)
    .where("version", "=", given.expected),
)

const deleteSchedule = statement((given: Given<Values<"schedules", "name"> & { readonly expected: number }>) =>
  query.deleteFrom("schedules").where("name", "=", given.name).where("version", "=", given.expected),
)

const knownSchedule = statement((given: Given<Values<"schedules", "name">>) =>
  query.selectFrom("schedules").select("version").where("name", "=", given.name),
)

/** Before every schedule: no name is empty. */
const first: SchedulePosition = { nextAt: Number.MIN_SAFE_INTEGER, name: "" }

/** Returns the version of a schedule; `undefined` if it does not exist. */
export const scheduleVersion = (tx: Transaction, name: string): number | undefined =>
  tx.get(knownSchedule, { name })?.version

/** Replaces the schedule if it still has this version, 0 for one that does not exist; `null` removes it. Returns whether it did. */
export const writeSchedule = (
  tx: Transaction,
  name: string,
  expected: number,
  next: { readonly nextAt: number | null; readonly document: string } | null,
): boolean => {
  if (next === null)
    return expected === 0
      ? tx.get(knownSchedule, { name }) === undefined
      : tx.run(deleteSchedule, { name, expected }) === 1
  const row = { name, version: nextScheduleVersion(expected, tx.now), nextAt: next.nextAt, document: next.document }
  return (
    tx.run(
      ...((expected === 0 ? [insertSchedule, row] : [updateSchedule, { ...row, expected }]) as [
        typeof insertSchedule,
        Row,
      ]),
    ) === 1
  )
}

export const makeSqliteScheduleStore = (db: Pick<Database, "read" | "write">): ScheduleStore["Service"] =>
  ScheduleStore.of({
    listSchedules: db.read("ScheduleStore.listSchedules", listSchedules),
    findSchedule: (name) =>
      db.read("ScheduleStore.findSchedule", (tx) => ({ now: tx.now, schedules: tx.all(scheduleOfName, { name }) })),
    nextSchedules: (limit, { name, nextAt } = first) =>
      db.read("ScheduleStore.nextSchedules", (tx) => ({
        now: tx.now,
        schedules: tx.all(nextSchedules, { limit, nextAt, name }),
      })),
    writeSchedule: (name, version, next) =>
      db.write("ScheduleStore.writeSchedule", (tx) => writeSchedule(tx, name, version, next)),
  })
