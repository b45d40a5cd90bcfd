import { jsonArrayFrom } from "kysely/helpers/postgres"
import { sql } from "kysely"
import * as Effect from "effect/Effect"
import { type Board, type PriceSnapshot, type ProjectId, switchesWith } from "@kiln/core/domain"
import { decodeAmounts, decodeStrings, type PriceVersion, Switchboard } from "@kiln/core/ports"
import type { Session, Transaction } from "./Session.ts"
import { type Given, query, type RowOf, statement, storeTime } from "./Statement.ts"
import type { Database } from "./Database.ts"
import { listSpending, setSpendCap } from "./spending.ts"
import { listWorkers, publishWorker } from "./workers.ts"

/** One statement, so from one snapshot. A worker's entry counts until it expires, exclusive. */
const board = statement(() =>
  query.selectNoFrom((select) => [
    jsonArrayFrom(select.selectFrom("switches").select(["name", "enabled"])).as("switches"),
    jsonArrayFrom(
      select
        .selectFrom("prices")
        .select(["id", "name", "version", "currency", "unit_amounts as unitAmounts"])
        .where("active", "=", true),
    ).as("prices"),
    jsonArrayFrom(
      select
        .selectFrom("workers")
        .select(["worker_id as workerId", "live_kinds as liveKinds"])
        .where("live_until", ">", storeTime),
    ).as("workers"),
    jsonArrayFrom(select.selectFrom("paused_kinds").select("kind").orderBy("kind")).as("paused"),
    jsonArrayFrom(select.selectFrom("project_limits").select(["project_id as projectId", "concurrency"])).as("limits"),
    jsonArrayFrom(select.selectFrom("served_kinds").select(["kind", "served_at as servedAt"])).as("served"),
    select.selectFrom("board_version").select("version").where("id", "=", 1).as("version"),
    sql<number>`${storeTime}`.as("readAt"),
  ]),
)

/** The board, with the ids of its prices, which jobs refer to. */
export interface StoredBoard extends Board {
  /** Changes with every change of switches and prices. Compared by `create_jobs`. */
  readonly version: string
  /** Store time. */
  readonly readAt: number
  readonly stored: Readonly<Record<string, { readonly id: number; readonly snapshot: PriceSnapshot }>>
}

export const loadBoard = async (session: Session): Promise<StoredBoard> => {
  const row = await session.get(board, {})
  const prices = (row?.prices ?? []).map(({ id, unitAmounts, ...price }) => ({
    id,
    snapshot: { ...price, unitAmounts: decodeAmounts(unitAmounts, `price ${price.name} ${price.version}`) },
  }))
  const kinds = (row?.workers ?? []).flatMap(({ liveKinds, workerId }) =>
    decodeStrings(liveKinds, `worker ${workerId}`),
  )
  return {
    switches: switchesWith((row?.switches ?? []).map(({ enabled, name }) => [name, enabled])),
    prices: Object.fromEntries(prices.map(({ snapshot }) => [snapshot.name, snapshot])),
    liveKinds: [...new Set(kinds)].sort(),
    lastServedAt: Object.fromEntries((row?.served ?? []).map(({ kind, servedAt }) => [kind, servedAt])),
    pausedKinds: (row?.paused ?? []).map(({ kind }) => kind),
    projectConcurrency: Object.fromEntries(
      (row?.limits ?? []).map(({ concurrency, projectId }) => [projectId, concurrency]),
    ),
    stored: Object.fromEntries(prices.map((price) => [price.snapshot.name, price])),
    version: row?.version ?? "",
    readAt: row?.readAt ?? 0,
  }
}

export const readBoard = async (session: Session): Promise<Board> => {
  const { readAt: _readAt, stored: _stored, version: _version, ...read } = await loadBoard(session)
  return read
}

/** A switch without a row is off. */
const upsertSwitch = statement((given: Given<{ name: string; enabled: boolean }>) =>
  query
    .insertInto("switches")
    .values({ name: given.name, enabled: given.enabled })
    .onConflict((conflict) => conflict.column("name").doUpdateSet((set) => ({ enabled: set.ref("excluded.enabled") }))),
)

const setSwitch = async (tx: Transaction, name: string, enabled: boolean): Promise<void> => {
  await tx.run(upsertSwitch, { name, enabled })
}

const pause = statement((given: Given<{ kind: string }>) =>
  query
    .insertInto("paused_kinds")
    .values({ kind: given.kind })
    .onConflict((conflict) => conflict.column("kind").doNothing()),
)

const goOn = statement((given: Given<{ kind: string }>) =>
  query.deleteFrom("paused_kinds").where("kind", "=", given.kind),
)

/** Repeating it has no effect. Jobs that are claimed already are up to their workers, which read the board. */
const pauseKind = async (tx: Transaction, kind: string, paused: boolean): Promise<void> => {
  await tx.run(paused ? pause : goOn, { kind })
}

const upsertProjectLimit = statement((given: Given<{ projectId: ProjectId; concurrency: number }>) =>
  query
    .insertInto("project_limits")
    .values({ project_id: given.projectId, concurrency: given.concurrency })
    .onConflict((conflict) =>
      conflict.column("project_id").doUpdateSet((set) => ({ concurrency: set.ref("excluded.concurrency") })),
    ),
)

const deleteProjectLimit = statement((given: Given<{ projectId: ProjectId }>) =>
  query.deleteFrom("project_limits").where("project_id", "=", given.projectId),
)

const limitProject = async (tx: Transaction, projectId: ProjectId, concurrency: number | null): Promise<void> => {
  if (concurrency === null) await tx.run(deleteProjectLimit, { projectId })
  else await tx.run(upsertProjectLimit, { projectId, concurrency })
}

const selectPrices = query
  .selectFrom("prices")
  .select(["name", "version", "currency", "unit_amounts as unitAmounts", "active", "created_at as createdAt"])

const allPrices = statement(() => selectPrices.orderBy("name").orderBy("version"))

const priceOf = (row: RowOf<typeof allPrices>): PriceVersion => ({
  ...row,
  unitAmounts: decodeAmounts(row.unitAmounts, `price ${row.name} ${row.version}`),
})

const listPrices = async (session: Session): Promise<ReadonlyArray<PriceVersion>> =>
  (await session.all(allPrices, {})).map(priceOf)

/** Lets one transaction at a time change a price, until it ends. */
const oneAtATime = statement((given: Given<{ name: string }>) =>
  query.selectNoFrom(
    sql`pg_advisory_xact_lock(hashtextextended(current_database() || ' "kiln".price ' || ${given.name}::text, 0))`.as(
      "lock",
    ),
  ),
)

/** Locks the price until the transaction ends. */
const lockPrice = async (tx: Transaction, name: string): Promise<void> => {
  await tx.all(oneAtATime, { name })
}

/** At most one version of a price is active; a unique index enforces it. */
const deactivatePrice = statement((given: Given<{ name: string }>) =>
  query.updateTable("prices").set({ active: false }).where("name", "=", given.name).where("active", "=", true),
)

/** Activates the latest version. */
const activateLatest = statement((given: Given<{ name: string }>) =>
  query
    .updateTable("prices")
    .set({ active: true })
    .where("name", "=", given.name)
    .where("version", "=", (select) =>
      select
        .selectFrom("prices as all")
        .select((of) => of.fn.max("all.version").as("latest"))
        .where("all.name", "=", given.name),
    ),
)

const anyVersion = statement((given: Given<{ name: string }>) =>
  query.selectFrom("prices").select("id").where("name", "=", given.name).limit(1),
)

const activatePrice = async (tx: Transaction, name: string, active: boolean): Promise<boolean> => {
  await lockPrice(tx, name)
  await tx.run(deactivatePrice, { name })
  return active ? (await tx.run(activateLatest, { name })) === 1 : (await tx.get(anyVersion, { name })) !== undefined
}

const latestPrice = statement((given: Given<{ name: string }>) =>
  selectPrices.where("name", "=", given.name).orderBy("version", "desc").limit(1),
)

const insertPrice = statement(
  (
    given: Given<{
      name: string
      version: number
      currency: string
      unitAmounts: string
      active: boolean
      now: number
    }>,
  ) =>
    query.insertInto("prices").values({
      name: given.name,
      version: given.version,
      currency: given.currency,
      unit_amounts: given.unitAmounts,
      active: given.active,
      created_at: given.now,
    }),
)

/** Adds a version. Accepted jobs keep theirs. If the price was active, the new version is. */
const setPrice = async (
  tx: Transaction,
  { currency, name, unitAmounts }: Omit<PriceSnapshot, "version">,
): Promise<PriceVersion> => {
  await lockPrice(tx, name)
  const version = ((await tx.get(latestPrice, { name }))?.version ?? 0) + 1
  const active = (await tx.run(deactivatePrice, { name })) > 0
  await tx.run(insertPrice, { name, version, currency, unitAmounts: JSON.stringify(unitAmounts), active, now: tx.now })
  const row = await tx.get(latestPrice, { name })
  if (row === undefined) throw new TypeError("the inserted price was not found")
  return priceOf(row)
}

/** `hint` wakes idle workers when a gate may have opened. */
export const makePostgresSwitchboard = (
  db: Pick<Database, "read" | "write">,
  hint: Effect.Effect<void>,
): Switchboard["Service"] =>
  Switchboard.of({
    readBoard: db.read("Switchboard.readBoard", readBoard),
    pauseKind: (kind, paused) =>
      Effect.tap(
        db.write("Switchboard.pauseKind", (tx) => pauseKind(tx, kind, paused)),
        () => (paused ? Effect.void : hint),
      ),
    limitProject: (projectId, concurrency) =>
      Effect.tap(
        db.write("Switchboard.limitProject", (tx) => limitProject(tx, projectId, concurrency)),
        () => hint,
      ),
    setSwitch: (name, on) =>
      Effect.tap(
        db.write("Switchboard.setSwitch", (tx) => setSwitch(tx, name, on)),
        () => (on ? hint : Effect.void),
      ),
    setPrice: (price) => db.write("Switchboard.setPrice", (tx) => setPrice(tx, price)),
    activatePrice: (name, active) =>
      Effect.tap(
        db.write("Switchboard.activatePrice", (tx) => activatePrice(tx, name, active)),
        () => (active ? hint : Effect.void),
      ),
    listPrices: db.read("Switchboard.listPrices", listPrices),
    setSpendCap: (owner, cap) => db.write("Switchboard.setSpendCap", (tx) => setSpendCap(tx, owner, cap)),
    listSpending: db.read("Switchboard.listSpending", listSpending),
    publishWorker: (worker) => db.read("Switchboard.publishWorker", (session) => publishWorker(session, worker)),
    listWorkers: db.read("Switchboard.listWorkers", listWorkers),
  })
