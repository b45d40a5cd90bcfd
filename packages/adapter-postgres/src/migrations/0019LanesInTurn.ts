import type { Migration } from "@kiln/core/ports"
import { findFull, takeFunction } from "./0009TakeJobs.ts"
import { findLanesAfter, shareTurnsBySince } from "./takeJobs/lanes.ts"

/**
 * Of each kind, a claim goes on after the lane that was served last, which is `after_lane` in `kinds`, and prefers lanes served longest
 * ago. After a round, it goes only through the lanes that had a share. `take_jobs` stays for processes of the previous version.
 */
export const lanesInTurn: Migration = {
  name: "0019LanesInTurn",
  sql: takeFunction({
    name: "take_jobs_in_turn",
    moreVariables: "  sinces bigint[];\n  is_sorted boolean;\n",
    findLanes: findLanesAfter,
    shareTurns: shareTurnsBySince,
    some: "SELECT ord FROM unnest(shares) WITH ORDINALITY AS item(share, ord) WHERE share > 0",
    findFull: `
  IF project_slots > 0 OR kind_limits IS NOT NULL THEN
  ${findFull}
  END IF;`,
  }),
}
