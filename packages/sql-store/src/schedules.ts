import { sql } from "kysely"
import { nextScheduleVersion, type ReadSchedules, type SchedulePosition, ScheduleStore } from "@kiln/core/ports"
import { assign, select, type Values } from "./columns.ts"
import { type Answer, type Given, type Program, query, type Sql, statement, type Transactions } from "./Sql.ts"
type Name = Values<"schedules", "name">
type Row = Values<"schedules", "name" | "version" | "next_at" | "document">

const selectSchedules = query
  .selectFrom("schedules")
  .select(select("schedules", "name", "version", "next_at", "document"))

const allSchedules = statement(() => selectSchedules.orderBy("name"))

const scheduleOfName = statement((given: Given<Name>) => selectSchedules.where("name", "=", given.name))

/** The rows of the index after a position. It compares both columns at once, so that it seeks instead of filtering. */
const nextSchedules = statement(
  (given: Given<{ readonly nextAt: number; readonly name: string; readonly limit: number }>) =>
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

const deleteSchedule = statement((given: Given<Name & { readonly expected: number }>) =>
  query.deleteFrom("schedules").where("name", "=", given.name).where("version", "=", given.expected),
)

/** Before every schedule: no name is empty. */
const first: SchedulePosition = { nextAt: Number.MIN_SAFE_INTEGER, name: "" }

/**
 * Replaces the schedule if it still has this version, 0 for one that does not exist; `null` removes it. Returns whether it did. One
 * statement each, which decides by the row as it is when it is locked.
 */
export function* writeSchedule(
  tx: Sql,
  name: string,
  expected: number,
  next: { readonly nextAt: number | null; readonly document: string } | null,
): Program<boolean> {
  if (next === null)
    return expected === 0
      ? (yield* tx.get(scheduleOfName, { name })) === undefined
      : (yield* tx.run(deleteSchedule, { name, expected })) === 1
  const version = nextScheduleVersion(expected, yield* tx.now())
  const row = { name, version, nextAt: next.nextAt, document: next.document }
  return (yield* expected === 0 ? tx.run(insertSchedule, row) : tx.run(updateSchedule, { ...row, expected })) === 1
}

function* read(tx: Sql, schedules: Answer<ReadonlyArray<Row>>): Program<ReadSchedules> {
  const now = tx.now()
  return { now: yield* now, schedules: yield* schedules }
}

export const listSchedules = (tx: Sql): Program<ReadSchedules> => read(tx, tx.all(allSchedules, {}))

export const makeScheduleStore = (db: Transactions): ScheduleStore["Service"] =>
  ScheduleStore.of({
    listSchedules: db.read("ScheduleStore.listSchedules", listSchedules),
    findSchedule: (name) => db.read("ScheduleStore.findSchedule", (tx) => read(tx, tx.all(scheduleOfName, { name }))),
    nextSchedules: (limit, { name, nextAt } = first) =>
      db.read("ScheduleStore.nextSchedules", (tx) => read(tx, tx.all(nextSchedules, { limit, nextAt, name }))),
    writeSchedule: (name, version, next) =>
      db.write("ScheduleStore.writeSchedule", (tx) => writeSchedule(tx, name, version, next)),
  })
