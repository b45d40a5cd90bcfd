import { sql } from "kysely"
import {
  type NewJob,
  nextScheduleVersion,
  type ReadSchedules,
  type SchedulePosition,
  ScheduleStore,
} from "@kiln/core/ports"
import type { Database } from "./Database.ts"
import type { Session, Transaction } from "./Session.ts"
import { batchStatement, type Given, query, statement, storeTime } from "./Statement.ts"

type Row = { name: string; version: number; nextAt: number | null; document: string }

const timeNow = statement(() => query.selectNoFrom(sql<number>`${storeTime}`.as("now")))

const selectSchedules = query.selectFrom("schedules").select(["name", "version", "next_at as nextAt", "document"])

const allSchedules = statement(() => selectSchedules.orderBy("name"))

const scheduleOfName = statement((given: Given<{ name: string }>) => selectSchedules.where("name", "=", given.name))

/** The rows of the index after a position. It compares both columns at once, so that it seeks instead of filtering. */
const nextSchedules = statement((given: Given<{ limit: number; nextAt: number; name: string }>) =>
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
    .values({ name: given.name, version: given.version, next_at: given.nextAt, document: given.document })
    .onConflict((conflict) => conflict.column("name").doNothing()),
)

const updateSchedule = statement((given: Given<Row & { expected: number }>) =>
  query
    .updateTable("schedules")
    .set({ version: given.version, next_at: given.nextAt, document: given.document })
    .where("name", "=", given.name)
    .where("version", "=", given.expected),
)

const deleteSchedule = statement((given: Given<{ name: string; expected: number }>) =>
  query.deleteFrom("schedules").where("name", "=", given.name).where("version", "=", given.expected),
)

const knownSchedule = statement((given: Given<{ name: string }>) =>
  query.selectFrom("schedules").select("version").where("name", "=", given.name),
)

/** Locks schedules until the transaction ends, in the order of their names to avoid deadlocks. */
const lockSchedules = batchStatement<{ name: string }, {}, { readonly name: string; readonly version: number }>(
  { name: "text" },
  (item) =>
    query
      .selectFrom("schedules")
      .innerJoin(item, (join) => join.onRef("item.name", "=", "schedules.name"))
      .select(["schedules.name", "schedules.version"])
      .orderBy("schedules.name")
      .forUpdate("schedules"),
)

/** Locks the schedules of these jobs' ticks, and returns their versions by name. */
export const lockedSchedules = async (
  session: Session,
  jobs: ReadonlyArray<NewJob>,
): Promise<ReadonlyMap<string, number>> => {
  const names = new Set(jobs.flatMap(({ tick }) => tick?.name ?? []))
  const rows = await session.batch(
    lockSchedules,
    [...names].map((name) => ({ name })),
    {},
  )
  return new Map(rows.map(({ name, version }) => [name, version]))
}

/** Before every schedule: no name is empty. */
const first: SchedulePosition = { nextAt: Number.MIN_SAFE_INTEGER, name: "" }

/** One statement each, which decides by the row as it is when it is locked. */
export const writeSchedule = async (
  tx: Transaction,
  name: string,
  expected: number,
  next: { readonly nextAt: number | null; readonly document: string } | null,
): Promise<boolean> => {
  if (next === null)
    return expected === 0
      ? (await tx.get(knownSchedule, { name })) === undefined
      : (await tx.run(deleteSchedule, { name, expected })) === 1
  const row = { name, version: nextScheduleVersion(expected, tx.now), nextAt: next.nextAt, document: next.document }
  return (expected === 0 ? await tx.run(insertSchedule, row) : await tx.run(updateSchedule, { ...row, expected })) === 1
}

const read = async (session: Session, schedules: Promise<ReadonlyArray<Row>>): Promise<ReadSchedules> => {
  const [time, rows] = await Promise.all([session.get(timeNow, {}), schedules])
  return { now: time?.now ?? 0, schedules: rows }
}

export const listSchedules = (session: Session): Promise<ReadSchedules> => read(session, session.all(allSchedules, {}))

export const makePostgresScheduleStore = (db: Pick<Database, "read" | "write">): ScheduleStore["Service"] =>
  ScheduleStore.of({
    listSchedules: db.read("ScheduleStore.listSchedules", listSchedules),
    findSchedule: (name) =>
      db.read("ScheduleStore.findSchedule", (session) => read(session, session.all(scheduleOfName, { name }))),
    nextSchedules: (limit, { name, nextAt } = first) =>
      db.read("ScheduleStore.nextSchedules", (session) =>
        read(session, session.all(nextSchedules, { limit, nextAt, name })),
      ),
    writeSchedule: (name, version, next) =>
      db.write("ScheduleStore.writeSchedule", (tx) => writeSchedule(tx, name, version, next)),
  })
