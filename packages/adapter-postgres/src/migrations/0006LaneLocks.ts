import type { Migration } from "@kiln/core/ports"
import { functions } from "./initial/functions.ts"

/** The lock of a lane before. */
const ofLane = (id: string): string => `hashtextextended(current_database() || ' "kiln".lanes ' || ${id}, 0)`

/** The lock that a lane shares with others. Transactions that add jobs share it anyway; only settling a lane excludes them. */
const ofGroup = (id: string): string =>
  `hashtextextended(current_database() || ' "kiln".lanes mod 256 ' || ${id} % 256, 0)`

const addingLocks = (text: string): string =>
  ["lane", "id"].reduce(
    (replaced, id) =>
      replaced.replaceAll(
        `pg_advisory_xact_lock_shared(${ofLane(id)})`,
        `pg_advisory_xact_lock_shared(${ofGroup(id)})`,
      ),
    text,
  )

/** A transaction that began before this migration holds the lock of the lane alone, so settling takes both. */
const settlingLocks = (text: string): string =>
  text.replaceAll(
    `OR NOT pg_try_advisory_xact_lock(${ofLane("lane")}) THEN`,
    `OR NOT pg_try_advisory_xact_lock(${ofLane("lane")}) OR NOT pg_try_advisory_xact_lock(${ofGroup("lane")}) THEN`,
  )

/**
 * Lets lanes share 256 locks. Each lane had a lock of its own, and a caller's transaction that adds jobs of thousands of projects
 * filled the table of locks, which all sessions of the server share.
 */
export const laneLocks: Migration = {
  name: "0006LaneLocks",
  sql: `-- No lane is settled by the functions of before while those of now add to it.
LOCK TABLE "kiln".lanes IN SHARE ROW EXCLUSIVE MODE;
${settlingLocks(addingLocks(functions)).replaceAll("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")}`,
}
