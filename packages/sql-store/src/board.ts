import * as Effect from "effect/Effect"
import type { Board, PriceSnapshot, ProjectId, SpendCap, SpendOwner } from "@kiln/core/domain"
import { switchesWith } from "@kiln/core/rules"
import { type PriceVersion, type PublishedWorker, Switchboard } from "@kiln/core/ports"
import { decodeAmounts, decodeScope, decodeStandings, decodeStrings } from "./storedJob.ts"
import { assign, select, type Values } from "./columns.ts"
import {
  excluded,
  type Given,
  type Program,
  query,
  type RowOf,
  type Sql,
  statement,
  storeTime,
  type Transactions,
} from "./Sql.ts"
type PriceName = Values<"prices", "name">

// Reading the board

/** The rows of a board, which each adapter reads in its own way, since each creation of jobs depends on them. */
export interface BoardRows {
  readonly switches: ReadonlyArray<{ readonly name: string; readonly enabled: boolean | 0 | 1 }>
  /** The active versions. */
  readonly prices: ReadonlyArray<Values<"prices", "id" | "name" | "version" | "currency" | "unit_amounts">>
  readonly workers: ReadonlyArray<Values<"workers", "worker_id" | "live_kinds">>
  readonly paused: ReadonlyArray<string>
  readonly limits: ReadonlyArray<{ readonly projectId: string; readonly concurrency: number }>
  readonly served: ReadonlyArray<Values<"served_kinds", "kind" | "served_at">>
}

/** The board, and the price rows that jobs refer to. */
export interface StoredBoard extends Board {
  readonly stored: Readonly<Record<string, { readonly id: number; readonly snapshot: PriceSnapshot }>>
}

export const boardOf = (rows: BoardRows): StoredBoard => {
  const prices = rows.prices.map(({ id, unitAmounts, ...price }) => ({
    id,
    snapshot: { ...price, unitAmounts: decodeAmounts(unitAmounts, `price ${price.name} ${price.version}`) },
  }))
  const kinds = rows.workers.flatMap(({ liveKinds, workerId }) => decodeStrings(liveKinds, `worker ${workerId}`))
  return {
    switches: switchesWith(rows.switches.map(({ enabled, name }) => [name, Boolean(enabled)])),
    prices: Object.fromEntries(prices.map(({ snapshot }) => [snapshot.name, snapshot])),
    liveKinds: [...new Set(kinds)].sort(),
    lastServedAt: Object.fromEntries(rows.served.map(({ kind, servedAt }) => [kind, servedAt])),
    pausedKinds: rows.paused,
    projectConcurrency: Object.fromEntries(rows.limits.map(({ concurrency, projectId }) => [projectId, concurrency])),
    stored: Object.fromEntries(prices.map((price) => [price.snapshot.name, price])),
  }
}

// Switches and pauses

/** A switch that was never set has no row and is off. */
const upsertSwitch = statement((given: Given<Values<"switches", "name" | "enabled">>) =>
  query
    .insertInto("switches")
    .values(assign(given, "name", "enabled"))
    .onConflict((conflict) => conflict.column("name").doUpdateSet(assign(given, "enabled"))),
)

function* setSwitch(tx: Sql, name: string, enabled: boolean): Program<void> {
  yield* tx.run(upsertSwitch, { name, enabled })
}

/** A kind that is not paused has no row. */
const insertPause = statement((given: Given<Values<"paused_kinds", "kind">>) =>
  query
    .insertInto("paused_kinds")
    .values(assign(given, "kind"))
    .onConflict((conflict) => conflict.column("kind").doNothing()),
)

const deletePause = statement((given: Given<Values<"paused_kinds", "kind">>) =>
  query.deleteFrom("paused_kinds").where("kind", "=", given.kind),
)

/** Repeating it has no effect. Jobs that are claimed already are up to their workers, which read the board. */
function* pauseKind(tx: Sql, kind: string, paused: boolean): Program<void> {
  yield* tx.run(paused ? insertPause : deletePause, { kind })
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

function* limitProject(tx: Sql, projectId: ProjectId, concurrency: number | null): Program<void> {
  if (concurrency === null) yield* tx.run(deleteProjectLimit, { projectId })
  else yield* tx.run(upsertProjectLimit, { projectId, concurrency })
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
  active: Boolean(row.active),
})

type NewPrice = "name" | "version" | "currency" | "unit_amounts" | "active" | "created_at"

const insertPrice = statement((given: Given<Values<"prices", NewPrice>>) =>
  query
    .insertInto("prices")
    .values(assign(given, "name", "version", "currency", "unit_amounts", "active", "created_at")),
)

/** At most one version of a price is active; a unique index guards this as well. */
const deactivatePrice = statement((given: Given<PriceName>) =>
  query.updateTable("prices").set({ active: false }).where("name", "=", given.name).where("active", "=", true),
)

const activateLatest = statement((given: Given<PriceName>) =>
  query
    .updateTable("prices")
    .set({ active: true })
    .where("name", "=", given.name)
    .where("version", "=", (prices) =>
      prices
        .selectFrom("prices as all")
        .select((of) => of.fn.max("all.version").as("latest"))
        .where("all.name", "=", given.name),
    ),
)

/** Adds a version. Accepted jobs keep theirs. If the price was active, the new version is. */
function* setPrice(tx: Sql, { currency, name, unitAmounts }: Omit<PriceSnapshot, "version">): Program<PriceVersion> {
  yield* tx.lock(`price ${name}`)
  const version = ((yield* tx.get(latestPrice, { name }))?.version ?? 0) + 1
  const active = (yield* tx.run(deactivatePrice, { name })) > 0
  const createdAt = yield* tx.now()
  yield* tx.run(insertPrice, {
    name,
    version,
    currency,
    unitAmounts: JSON.stringify(unitAmounts),
    active,
    createdAt,
  })
  const row = yield* tx.get(latestPrice, { name })
  if (row === undefined) throw new TypeError("the inserted price was not found")
  return priceOf(row)
}

/** Activates the latest version, or deactivates the price. Returns whether the price exists. */
function* activatePrice(tx: Sql, name: string, active: boolean): Program<boolean> {
  yield* tx.lock(`price ${name}`)
  yield* tx.run(deactivatePrice, { name })
  return active ? (yield* tx.run(activateLatest, { name })) === 1 : (yield* tx.get(latestPrice, { name })) !== undefined
}

function* listPrices(tx: Sql): Program<ReadonlyArray<PriceVersion>> {
  return (yield* tx.all(allPrices, {})).map(priceOf)
}

// Spend caps

const allCaps = statement(() =>
  query
    .selectFrom("spend_caps")
    .select(select("spend_caps", "owner", "currency", "day", "month"))
    .orderBy("owner"),
)

export type StoredCap = RowOf<typeof allCaps>

export function* listCaps(tx: Sql): Program<ReadonlyArray<StoredCap>> {
  return yield* tx.all(allCaps, {})
}

const upsertCap = statement((given: Given<Values<"spend_caps", "owner" | "currency" | "day" | "month">>) =>
  query
    .insertInto("spend_caps")
    .values(assign(given, "owner", "currency", "day", "month"))
    .onConflict((conflict) => conflict.column("owner").doUpdateSet(excluded("currency", "day", "month"))),
)

const deleteCap = statement((given: Given<Values<"spend_caps", "owner">>) =>
  query.deleteFrom("spend_caps").where("owner", "=", given.owner),
)

/** What counts against the cap is the adapter's. */
export function* writeCap(tx: Sql, owner: SpendOwner, cap: SpendCap | null): Program<void> {
  if (cap === null) yield* tx.run(deleteCap, { owner })
  else yield* tx.run(upsertCap, { owner, currency: cap.currency, day: cap.day, month: cap.month })
}

// Workers

/** `live_until` is exclusive. */
const liveWorkers = statement(() =>
  query
    .selectFrom("workers")
    .select(select("workers", "worker_id", "live_kinds", "providers", "scope"))
    .where("live_until", ">", storeTime)
    .orderBy("worker_id"),
)

export function* listWorkers(tx: Sql): Program<ReadonlyArray<PublishedWorker>> {
  return (yield* tx.all(liveWorkers, {})).map(({ liveKinds, providers, scope, workerId }) => ({
    workerId,
    liveKinds: decodeStrings(liveKinds, `worker ${workerId}`),
    providers: decodeStandings(providers, `worker ${workerId}`),
    ...decodeScope(scope, `worker ${workerId}`),
  }))
}

/** The verbs that each adapter has its own way for. */
export type OwnVerbs = Pick<Switchboard["Service"], "readBoard" | "setSpendCap" | "listSpending" | "publishWorker">

/** `hint` wakes idle workers when a gate may have opened. */
export const makeSwitchboard = (
  db: Transactions,
  own: OwnVerbs,
  hint: Effect.Effect<void> = Effect.void,
): Switchboard["Service"] => {
  const hintIf = (opens: boolean) => () => (opens ? hint : Effect.void)
  return Switchboard.of({
    ...own,
    pauseKind: (kind, paused) =>
      Effect.tap(
        db.write("Switchboard.pauseKind", (tx) => pauseKind(tx, kind, paused)),
        hintIf(!paused),
      ),
    limitProject: (projectId, concurrency) =>
      Effect.tap(
        db.write("Switchboard.limitProject", (tx) => limitProject(tx, projectId, concurrency)),
        hintIf(true),
      ),
    setSwitch: (name, on) =>
      Effect.tap(
        db.write("Switchboard.setSwitch", (tx) => setSwitch(tx, name, on)),
        hintIf(on),
      ),
    setPrice: (price) => db.write("Switchboard.setPrice", (tx) => setPrice(tx, price)),
    activatePrice: (name, active) =>
      Effect.tap(
        db.write("Switchboard.activatePrice", (tx) => activatePrice(tx, name, active)),
        hintIf(active),
      ),
    listPrices: db.read("Switchboard.listPrices", listPrices),
    listWorkers: db.read("Switchboard.listWorkers", listWorkers),
  })
}
