import type { PriceVersion } from "@kiln/core/ports"
import { formatTime } from "../Output.ts"

/** Formats a version of a price as `--json` prints it. */
export const priceFields = (price: PriceVersion) => ({
  name: price.name,
  version: price.version,
  active: price.active,
  currency: price.currency,
  unit_amounts: price.unitAmounts,
  created_at: formatTime(price.createdAt),
})
