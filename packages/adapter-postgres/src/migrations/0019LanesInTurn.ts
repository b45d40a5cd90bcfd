import type { Migration } from "@kiln/core/ports"
import { findFull, takeFunction } from "./0009TakeJobs.ts"
import { findLanesAfter } from "./takeJobs/lanes.ts"

/**
 * A claim that goes on after the lane that was served last, and looks only at lanes that have something to tell. `take_jobs` stays for
 * processes of the previous version.
 */
export const lanesInTurn: Migration = {
  name: "0019LanesInTurn",
  sql: takeFunction({
    name: "take_jobs_in_turn",
    more: ", after_lane bigint",
    aboutMore: "-- after_lane:    the lane that the process served last; 0 if there is none\n",
    findLanes: findLanesAfter,
    some: "SELECT ord FROM unnest(shares) WITH ORDINALITY AS item(share, ord) WHERE share > 0",
    findFull: `
  IF project_slots > 0 OR kind_limits IS NOT NULL THEN
  ${findFull}
  END IF;`,
  }),
}
