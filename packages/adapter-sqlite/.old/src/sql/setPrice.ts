import type { PriceSnapshot } from "@kiln/core/domain"
import type { PriceVersion } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Flag } from "../Tables.ts"
import type { Transaction } from "../Transaction.ts"
import { deactivatePrice } from "./activatePrice.ts"
import { priceOf, selectPrices } from "./listPrices.ts"

const latestPrice = statement((given: Given<{ name: string }>) =>
  selectPrices.where("name", "=", given.name).orderBy("version", "desc").limit(1),
)

const insertPrice = statement(
  (given: Given<{ name: string; version: number; currency: string; unitAmounts: string; active: Flag; now: number }>) =>
    query.insertInto("prices").values({
      name: given.name,
      version: given.version,
      currency: given.currency,
      unit_amounts: given.unitAmounts,
      active: given.active,
      created_at: given.now,
    }),
)

/** Adds a version. What was accepted before keeps its own; an active price stays active with the new one. */
export const setPrice = (
  tx: Transaction,
  { currency, name, unitAmounts }: Omit<PriceSnapshot, "version">,
): PriceVersion => {
  const version = (tx.get(latestPrice, { name })?.version ?? 0) + 1
  const active = tx.run(deactivatePrice, { name }) > 0 ? 1 : 0
  tx.run(insertPrice, { name, version, currency, unitAmounts: JSON.stringify(unitAmounts), active, now: tx.now })
  const row = tx.get(latestPrice, { name })
  if (row === undefined) throw new TypeError("an inserted price has a row")
  return priceOf(row)
}
