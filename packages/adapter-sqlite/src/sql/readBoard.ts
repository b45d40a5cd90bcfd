import type { Board, PriceSnapshot } from "@kiln/core/domain"
import { decodeAmounts, decodeStrings } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

const enabledSwitches = statement(() => query.selectFrom("switches").select("name").where("enabled", "=", 1))

const activePrices = statement(() =>
  query
    .selectFrom("prices")
    .select(["id", "name", "version", "currency", "unit_amounts as unitAmounts"])
    .where("active", "=", 1),
)

const servedKinds = statement(() => query.selectFrom("served_kinds").select(["kind", "served_at as servedAt"]))

const pausedKinds = statement(() => query.selectFrom("paused_kinds").select("kind").orderBy("kind"))

/** What a worker published counts until its time is up, exclusive. */
const liveWorkers = statement((given: Given<{ now: number }>) =>
  query
    .selectFrom("workers")
    .select(["worker_id as workerId", "live_kinds as liveKinds"])
    .where("live_until", ">", given.now),
)

/** The board, with the rows of its prices, which jobs refer to. */
export interface StoredBoard extends Board {
  readonly stored: Readonly<Record<string, { readonly id: number; readonly snapshot: PriceSnapshot }>>
}

export const loadBoard = (tx: Transaction): StoredBoard => {
  const enabled = new Set(tx.all(enabledSwitches, {}).map((row) => row.name))
  const prices = tx.all(activePrices, {}).map(({ id, unitAmounts, ...price }) => ({
    id,
    snapshot: { ...price, unitAmounts: decodeAmounts(unitAmounts, `price ${price.name} ${price.version}`) },
  }))
  const kinds = tx
    .all(liveWorkers, { now: tx.now })
    .flatMap((row) => decodeStrings(row.liveKinds, `worker ${row.workerId}`))
  return {
    switches: { ai: enabled.has("ai"), audio: enabled.has("audio"), images: enabled.has("images") },
    prices: Object.fromEntries(prices.map(({ snapshot }) => [snapshot.name, snapshot])),
    liveKinds: [...new Set(kinds)].sort(),
    lastServedAt: Object.fromEntries(tx.all(servedKinds, {}).map(({ kind, servedAt }) => [kind, servedAt])),
    pausedKinds: tx.all(pausedKinds, {}).map(({ kind }) => kind),
    stored: Object.fromEntries(prices.map((price) => [price.snapshot.name, price])),
  }
}

export const readBoard = (tx: Transaction): Board => {
  const { stored: _, ...board } = loadBoard(tx)
  return board
}
