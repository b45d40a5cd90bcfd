import type { NewJob } from "@kiln/core/ports"
import { writeSchedule as write } from "@kiln/sql-store"
import type { Session, Transaction } from "../connection/Session.ts"
import { batchStatement, query, text } from "../Statement.ts"
import { runOn } from "../transactionsOf.ts"

/** Locks schedules until the transaction ends, in the order of their names to avoid deadlocks. */
const lockSchedules = batchStatement({ name: text() }, (item) =>
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
  )
  return new Map(rows.map(({ name, version }) => [name, version]))
}

/** Replaces a schedule within a transaction that creates its job. */
export const writeSchedule = (
  tx: Transaction,
  name: string,
  expected: number,
  next: { readonly nextAt: number | null; readonly document: string },
): Promise<boolean> => runOn(tx, (common) => write(common, name, expected, next))
