import { sql } from "kysely"
import { ranks } from "@kiln/core/domain"
import type { Given } from "../Statement.ts"

// Lanes keep which ranks their jobs ever had, a bit for each, so that claims look only for those.

const lowest = Math.min(...ranks)

export const bitOf = (rank: number): number => 1 << (rank - lowest)

/** Returns the ranks of a lane in the order in which they are served. */
export const ranksIn = (bits: number): ReadonlyArray<number> => ranks.filter((rank) => (bits & bitOf(rank)) !== 0)

/** Whether a lane knows a rank. */
export const knowsRank = ({ priority }: Given<{ readonly priority: number }>) =>
  sql<boolean>`((ranks >> (${priority} - ${sql.lit(lowest)})) & 1 = 1)`
