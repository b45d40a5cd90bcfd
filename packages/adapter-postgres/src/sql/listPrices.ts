import type { PriceVersion } from "@kiln/core/ports"
import { decodeAmounts } from "@kiln/core/ports"
import type { Session } from "../Session.ts"
import { query, type RowOf, statement } from "../Statement.ts"

export const selectPrices = query
  .selectFrom("prices")
  .select(["name", "version", "currency", "unit_amounts as unitAmounts", "active", "created_at as createdAt"])

const allPrices = statement(() => selectPrices.orderBy("name").orderBy("version"))

export const priceOf = (row: RowOf<typeof allPrices>): PriceVersion => ({
  ...row,
  unitAmounts: decodeAmounts(row.unitAmounts, `price ${row.name} ${row.version}`),
})

export const listPrices = async (session: Session): Promise<ReadonlyArray<PriceVersion>> =>
  (await session.all(allPrices, {})).map(priceOf)
