import type { Board, PriceSnapshot } from "@kiln/core/domain"
import { decodeObject, decodeStrings } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

const enabledSwitches = statement(() => query.selectFrom("switches").select("name").where("enabled", "=", 1))

const activePrices = statement(() =>
  query
    .selectFrom("prices")
    .select(["id", "name", "version", "currency", "unit_amounts as unitAmounts"])
    .where("active", "=", 1),
)

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
    snapshot: { ...price, unitAmounts: decodeObject(unitAmounts, `price ${price.name} ${price.version}`) },
  }))
  const kinds = tx
    .all(liveWorkers, { now: tx.now })
    .flatMap((row) => decodeStrings(row.liveKinds, `worker ${row.workerId}`))
  return {
    switches: { ai: enabled.has("ai"), audio: enabled.has("audio"), images: enabled.has("images") },
    prices: Object.fromEntries(prices.map(({ snapshot }) => [snapshot.name, snapshot])),
    liveKinds: [...new Set(kinds)].sort(),
    stored: Object.fromEntries(prices.map((price) => [price.snapshot.name, price])),
  }
}

export const readBoard = (tx: Transaction): Board => {
  const { liveKinds, prices, switches } = loadBoard(tx)
  return { switches, prices, liveKinds }
}
