import { sql } from "kysely"
import type { Board } from "@kiln/core/domain"
import { lastServedStepMs } from "@kiln/core/rules"
import type { PublishedWorker, Switchboard } from "@kiln/core/ports"
import { boardOf, encodeScope, makeSwitchboard, type StoredBoard } from "@kiln/sql-store"
import { assign, select, type Values } from "./columns.ts"
import type { Database } from "./Database.ts"
import { listSpending, setSpendCap } from "./spending.ts"
import { type Given, query, statement } from "./Statement.ts"
import type { Transaction } from "./Transaction.ts"
import { transactionsOf } from "./transactionsOf.ts"

type Now = { readonly now: number }

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
    .select(select("workers", "worker_id", "live_kinds"))
    .where("live_until", ">", given.now),
)

export const loadBoard = (tx: Transaction): StoredBoard => {
  const limits = tx.all(operatorLimits, {})
  return boardOf({
    switches: tx.all(allSwitches, {}),
    prices: tx.all(activePrices, {}),
    workers: tx.all(liveWorkers, { now: tx.now }),
    paused: limits.flatMap(({ concurrency, name }) => (concurrency === null ? [name] : [])),
    limits: limits.flatMap(({ concurrency, name }) => (concurrency === null ? [] : [{ projectId: name, concurrency }])),
    served: tx.all(servedKinds, {}),
  })
}

export const readBoard = (tx: Transaction): Board => {
  const { stored: _, ...board } = loadBoard(tx)
  return board
}

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

export const makeSqliteSwitchboard = (db: Pick<Database, "read" | "write">): Switchboard["Service"] =>
  makeSwitchboard(transactionsOf(db), {
    readBoard: db.read("Switchboard.readBoard", readBoard),
    setSpendCap: (owner, cap) => db.write("Switchboard.setSpendCap", (tx) => setSpendCap(tx, owner, cap)),
    listSpending: db.read("Switchboard.listSpending", listSpending),
    publishWorker: (worker) => db.write("Switchboard.publishWorker", (tx) => publishWorker(tx, worker)),
  })
