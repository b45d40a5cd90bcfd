import { sql } from "kysely"
import type { CreateOutcome, NewJob } from "@kiln/core/ports"
import type { Session } from "../Session.ts"
import { batchStatement, query, statement, storeTime } from "../Statement.ts"
import { bindInCallers } from "./bindInCallers.ts"
import { decideJobs, keyName, outcomeOfRepeat, readItems } from "./createJobs.ts"
import { type Accepted, fillRows, rowsOf } from "./insertJobs.ts"
import { findLanes, laneName, type MayBeClaimable } from "./lanes.ts"
import { place } from "./place.ts"

interface Setting {
  readonly name: string
  readonly value: string
}

/** Of the settings our own sessions have, those that plans depend on: statements are written for them. */
const plannerSettings: ReadonlyArray<Setting> = [
  "enable_seqscan",
  "enable_bitmapscan",
  "enable_hashjoin",
  "enable_mergejoin",
  "enable_material",
].map((name) => ({ name, value: "off" }))

/** With the place of each, since what comes first on a caller's connection says where it leads. */
const presentSettings = batchStatement<Setting, {}, Setting & { readonly place: string }>(
  { name: "text", value: "text" },
  (item) =>
    query.selectFrom(item).select(["item.name", sql<string>`current_setting(item.name)`.as("value"), place.as("place")]),
)

/** For the rest of the transaction, or until it is rolled back to a savepoint from before. */
const changeSettings = batchStatement<Setting, {}, Setting>({ name: "text", value: "text" }, (item) =>
  query.selectFrom(item).select(["item.name", sql<string>`set_config(item.name, item.value, true)`.as("value")]),
)

const timeNow = statement(() => query.selectNoFrom(sql<number>`${storeTime}`.as("now")))

/** The caller's transaction goes by a snapshot from before a lane was made. */
export class LaneNotSeen extends Error {
  override readonly name = "LaneNotSeen"
}

const elsewhere = "the transaction is on another database than the store's, or on another server"

const requireLanes = (accepted: ReadonlyArray<Accepted>, lanes: ReadonlyMap<string, number>): void => {
  if (accepted.every(({ item }) => lanes.has(laneName(item)))) return
  throw new LaneNotSeen("the transaction began before the first job of this project and kind: begin it again")
}

/**
 * Decides and writes in a transaction of a caller's, which has to be at the store's own place. The lanes have been made; `lower` tells them
 * on another connection that they may have something, after the queue's rows were written here: these keep everybody from
 * settling the lanes.
 */
export const createInCallers = async (
  session: Session,
  ownPlace: string,
  items: ReadonlyArray<NewJob>,
  lower: (rows: ReadonlyArray<MayBeClaimable>) => Promise<void>,
): Promise<ReadonlyArray<CreateOutcome>> => {
  const before = await session.batch(presentSettings, plannerSettings, {})
  if (before.some((setting) => setting.place !== ownPlace)) throw new TypeError(elsewhere)
  await session.batch(changeSettings, plannerSettings, {})
  const now = (await session.get(timeNow, {}))?.now ?? 0
  const lanes = await findLanes(session, items)
  const { accepted, outcomes } = decideJobs(now, items, await readItems(session, items, false))
  requireLanes(accepted, lanes)
  const rows = rowsOf(accepted, lanes, now)
  const theirs = await bindInCallers(session, now, rows)
  const written = rows.filter((row) => !theirs.has(keyName(row)))
  if (written.length > 0) {
    await fillRows(session, now, written)
    await lower(written)
  }
  await session.batch(changeSettings, before, {})
  return outcomes.map((outcome, index) => {
    const item = items[index]
    const existing = item && theirs.get(keyName(item))
    return item && existing ? outcomeOfRepeat(item, existing) : outcome
  })
}
