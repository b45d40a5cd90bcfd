import { rankOf, ranks } from "@kiln/core/rules"

const [highest = 0] = ranks
const lowest = ranks.at(-1) ?? 0
const normal = rankOf("normal")

/** A condition on the rank that a job is stored with. */
export const isRank = (value: string): string => `${value} BETWEEN ${lowest} AND ${highest}`

/**
 * The ranks that jobs of a lane may have from a time on, in the order in which they are served, as a subquery with the column `rank`. Most lanes
 * have only normal jobs: the ranks above and below are each looked for with one probe, and listed only where there are any. A
 * descent from the highest rank in use would need no list, but it would pass the dead entries of every job that ended lately.
 */
export const ranksOf = (laneId: string, floor: string): string => `(
          SELECT listed.rank::smallint AS rank
          FROM (VALUES (${normal + 1}, ${highest}), (${normal}, ${normal}), (${lowest}, ${normal - 1})) AS side(lowest, highest)
          CROSS JOIN LATERAL generate_series(side.highest, side.lowest, -1) AS listed(rank)
          WHERE side.lowest = side.highest OR EXISTS (
            SELECT FROM "kiln".queue AS other
            WHERE other.lane_id = ${laneId} AND other.priority BETWEEN side.lowest AND side.highest AND other.claimable_at >= ${floor})
        )`
