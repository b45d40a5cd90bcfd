import { sql } from "kysely"
import { type Board, lastServedStepMs, type PriceSnapshot, type ProjectId, switchesWith } from "@kiln/core/domain"
import {
  decodeAmounts,
  decodeScope,
  decodeStandings,
  decodeStrings,
  encodeScope,
  type PriceVersion,
  type PublishedWorker,
  Switchboard,
} from "@kiln/core/ports"
import { assign, select, type Values } from "./columns.ts"
import type { Database } from "./Database.ts"
import { listSpending, setSpendCap } from "./spending.ts"
import { type Given, query, type RowOf, statement } from "./Statement.ts"
import type { Transaction } from "./Transaction.ts"

type Now = { readonly now: number }
type PriceName = Values<"prices", "name">

// Reading the board

const allSwitches = statement(() => query.selectFrom("switches").select(select("switches", "name", "enabled")))

const activePrices = statement(() =>
  query
    .selectFrom("prices")
    .select(select("prices", "id", "name", "version", "currency", "unit_amounts"))
    .where("active", "=", 1),
)

const servedKinds = statement(() =>
  query.selectFrom("served_kinds").select(select("served_kinds", "kind", "served_at")),
)

/** Paused kinds, and projects that have a limit, in one statement: the board is read often, and both are few. */
const operatorLimits = statement(() =>
  query
    .selectFrom("paused_kinds")
    .select(["kind as name", sql<number | null>`NULL`.as("concurrency")])
    .unionAll(query.selectFrom("project_limits").select(["project_id as name", "concurrency"]))
    .orderBy("name"),
)

/** `live_until` is exclusive. */
const liveWorkers = statement((given: Given<Now>) =>
  query
    .selectFrom("workers")
    .select(select("workers", "worker_id", "live_kinds", "providers", "scope"))
    .where("live_until", ">", given.now)
    .orderBy("worker_id"),
)

/** The board, and the price rows that jobs refer to. */
export interface StoredBoard extends Board {
  readonly stored: Readonly<Record<string, { readonly id: number; readonly snapshot: PriceSnapshot }>>
}

export const loadBoard = (tx: Transaction): StoredBoard => {
  const prices = tx.all(activePrices, {}).map(({ id, unitAmounts, ...price }) => ({
    id,
    snapshot: { ...price, unitAmounts: decodeAmounts(unitAmounts, `price ${price.name} ${price.version}`) },
  }))
  const kinds = tx
    .all(liveWorkers, { now: tx.now })
    .flatMap((row) => decodeStrings(row.liveKinds, `worker ${row.workerId}`))
  const limits = tx.all(operatorLimits, {})
  return {
    switches: switchesWith(tx.all(allSwitches, {}).map(({ enabled, name }) => [name, enabled === 1])),
    prices: Object.fromEntries(prices.map(({ snapshot }) => [snapshot.name, snapshot])),
    liveKinds: [...new Set(kinds)].sort(),
    lastServedAt: Object.fromEntries(tx.all(servedKinds, {}).map(({ kind, servedAt }) => [kind, servedAt])),
    pausedKinds: limits.flatMap(({ concurrency, name }) => (concurrency === null ? [name] : [])),
    projectConcurrency: Object.fromEntries(
      limits.flatMap(({ concurrency, name }) => (concurrency === null ? [] : [[name, concurrency]])),
    ),
    stored: Object.fromEntries(prices.map((price) => [price.snapshot.name, price])),
  }
}

export const readBoard = (tx: Transaction): Board => {
  const { stored: _, ...board } = loadBoard(tx)
  return board
}

// Switches and pauses

/** A switch that was never set has no row and is off. */
const upsertSwitch = statement((given: Given<Values<"switches", "name" | "enabled">>) =>
  query
    .insertInto("switches")
    .values(assign(given, "name", "enabled"))
    .onConflict((conflict) => conflict.column("name").doUpdateSet({ enabled: given.enabled })),
)

const setSwitch = (tx: Transaction, name: string, on: boolean): void => {
  tx.run(upsertSwitch, { name, enabled: on ? 1 : 0 })
}

/** A kind that is not paused has no row. */
const insertPause = statement((given: Given<Values<"paused_kinds", "kind">>) =>
  query
    .insertInto("paused_kinds")
    .values(assign(given, "kind"))
    .onConflict((conflict) => conflict.doNothing()),
)

const deletePause = statement((given: Given<Values<"paused_kinds", "kind">>) =>
  query.deleteFrom("paused_kinds").where("kind", "=", given.kind),
)

const pauseKind = (tx: Transaction, kind: string, paused: boolean): void => {
  tx.run(paused ? insertPause : deletePause, { kind })
}

const upsertProjectLimit = statement((given: Given<Values<"project_limits", "project_id" | "concurrency">>) =>
  query
    .insertInto("project_limits")
    .values(assign(given, "project_id", "concurrency"))
    .onConflict((conflict) => conflict.column("project_id").doUpdateSet(assign(given, "concurrency"))),
)

const deleteProjectLimit = statement((given: Given<Values<"project_limits", "project_id">>) =>
  query.deleteFrom("project_limits").where("project_id", "=", given.projectId),
)

const limitProject = (tx: Transaction, projectId: ProjectId, concurrency: number | null): void => {
  if (concurrency === null) tx.run(deleteProjectLimit, { projectId })
  else tx.run(upsertProjectLimit, { projectId, concurrency })
}

// Prices

const selectPrices = query
  .selectFrom("prices")
  .select(select("prices", "name", "version", "currency", "unit_amounts", "active", "created_at"))

const allPrices = statement(() => selectPrices.orderBy("name").orderBy("version"))

const latestPrice = statement((given: Given<PriceName>) =>
  selectPrices.where("name", "=", given.name).orderBy("version", "desc").limit(1),
)

const priceOf = (row: RowOf<typeof allPrices>): PriceVersion => ({
  ...row,
  unitAmounts: decodeAmounts(row.unitAmounts, `price ${row.name} ${row.version}`),
  active: row.active === 1,
})

type NewPrice = "name" | "version" | "currency" | "unit_amounts" | "active" | "created_at"

const insertPrice = statement((given: Given<Values<"prices", NewPrice>>) =>
  query
    .insertInto("prices")
    .values(assign(given, "name", "version", "currency", "unit_amounts", "active", "created_at")),
)

/** At most one version of a price is active; a unique index guards this as well. */
const deactivatePrice = statement((given: Given<PriceName>) =>
  query.updateTable("prices").set({ active: 0 }).where("name", "=", given.name).where("active", "=", 1),
)

const activateLatest = statement((given: Given<PriceName>) =>
  query
    .updateTable("prices")
    .set({ active: 1 })
    .where("name", "=", given.name)
    .where("version", "=", (prices) =>
      prices
        .selectFrom("prices as all")
        .select((of) => of.fn.max("all.version").as("latest"))
        .where("all.name", "=", given.name),
    ),
)

/** Adds a version. Accepted jobs keep theirs. If the price was active, the new version is. */
const setPrice = (tx: Transaction, { currency, name, unitAmounts }: Omit<PriceSnapshot, "version">): PriceVersion => {
  const version = (tx.get(latestPrice, { name })?.version ?? 0) + 1
  const active = tx.run(deactivatePrice, { name }) > 0 ? 1 : 0
  tx.run(insertPrice, {
    name,
    version,
    currency,
    unitAmounts: JSON.stringify(unitAmounts),
    active,
    createdAt: tx.now,
  })
  const row = tx.get(latestPrice, { name })
  if (row === undefined) throw new TypeError("the inserted price was not found")
  return priceOf(row)
}

/** Activates the latest version, or deactivates the price. Returns whether the price exists. */
const activatePrice = (tx: Transaction, name: string, active: boolean): boolean => {
  tx.run(deactivatePrice, { name })
  return active ? tx.run(activateLatest, { name }) === 1 : tx.get(latestPrice, { name }) !== undefined
}

// Workers

const upsertWorker = statement(
  (given: Given<Values<"workers", "worker_id" | "live_kinds" | "providers" | "scope" | "live_until">>) => {
    const published = assign(given, "live_kinds", "providers", "scope", "live_until")
    return query
      .insertInto("workers")
      .values({ worker_id: given.workerId, ...published })
      .onConflict((conflict) => conflict.column("worker_id").doUpdateSet(published))
  },
)

/** Without this, every process that ever ran would leave a row. */
const forgetWorkers = statement((given: Given<Now>) => query.deleteFrom("workers").where("live_until", "<=", given.now))

/** Outlives the workers. A row from `before` or later stays as it is. */
const recordServed = statement(
  (given: Given<Values<"served_kinds", "kind" | "served_at"> & { readonly before: number }>) =>
    query
      .insertInto("served_kinds")
      .values(assign(given, "kind", "served_at"))
      .onConflict((conflict) =>
        conflict
          .column("kind")
          .doUpdateSet({ served_at: given.servedAt })
          .where("served_kinds.served_at", "<", given.before),
      ),
)

const publishWorker = (
  tx: Transaction,
  { liveKinds, providers, scope, ttlMs, workerId }: PublishedWorker & { readonly ttlMs: number },
): void => {
  const { now } = tx
  tx.run(forgetWorkers, { now })
  tx.run(upsertWorker, {
    workerId,
    liveKinds: JSON.stringify(liveKinds),
    providers: JSON.stringify(providers),
    scope: encodeScope(scope),
    liveUntil: now + ttlMs,
  })
  // The last publication of a worker that stops is exact.
  const before = ttlMs > 0 ? now - lastServedStepMs : now
  for (const kind of liveKinds) tx.run(recordServed, { kind, servedAt: now, before })
}

export const listWorkers = (tx: Transaction): ReadonlyArray<PublishedWorker> =>
  tx.all(liveWorkers, { now: tx.now }).map(({ liveKinds, providers, scope, workerId }) => ({
    workerId,
    liveKinds: decodeStrings(liveKinds, `worker ${workerId}`),
    providers: decodeStandings(providers, `worker ${workerId}`),
    ...decodeScope(scope, `worker ${workerId}`),
  }))

export const makeSqliteSwitchboard = (db: Pick<Database, "read" | "write">): Switchboard["Service"] =>
  Switchboard.of({
    readBoard: db.read("Switchboard.readBoard", readBoard),
    pauseKind: (kind, paused) => db.write("Switchboard.pauseKind", (tx) => pauseKind(tx, kind, paused)),
    limitProject: (projectId, concurrency) =>
      db.write("Switchboard.limitProject", (tx) => limitProject(tx, projectId, concurrency)),
    setSwitch: (name, on) => db.write("Switchboard.setSwitch", (tx) => setSwitch(tx, name, on)),
    setPrice: (price) => db.write("Switchboard.setPrice", (tx) => setPrice(tx, price)),
    activatePrice: (name, active) => db.write("Switchboard.activatePrice", (tx) => activatePrice(tx, name, active)),
    listPrices: db.read("Switchboard.listPrices", (tx) => tx.all(allPrices, {}).map(priceOf)),
    setSpendCap: (owner, cap) => db.write("Switchboard.setSpendCap", (tx) => setSpendCap(tx, owner, cap)),
    listSpending: db.read("Switchboard.listSpending", listSpending),
    publishWorker: (worker) => db.write("Switchboard.publishWorker", (tx) => publishWorker(tx, worker)),
    listWorkers: db.read("Switchboard.listWorkers", listWorkers),
  })
