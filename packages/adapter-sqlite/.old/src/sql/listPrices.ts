import type { PriceVersion } from "@kiln/core/ports"
import { decodeObject } from "@kiln/core/ports"
import { query, type RowOf, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

export const selectPrices = query
  .selectFrom("prices")
  .select(["name", "version", "currency", "unit_amounts as unitAmounts", "active", "created_at as createdAt"])

const allPrices = statement(() => selectPrices.orderBy("name").orderBy("version"))

export const priceOf = (row: RowOf<typeof allPrices>): PriceVersion => ({
  ...row,
  unitAmounts: decodeObject(row.unitAmounts, `price ${row.name} ${row.version}`),
  active: row.active === 1,
})

export const listPrices = (tx: Transaction): ReadonlyArray<PriceVersion> => tx.all(allPrices, {}).map(priceOf)
