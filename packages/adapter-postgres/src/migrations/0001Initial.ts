import type { Migration } from "@kiln/core/ports"
import { accessTables, boardTables, uploadTables } from "./initial/accounts.ts"
import { jobTables } from "./initial/jobs.ts"
import { jobTriggers } from "./initial/jobTriggers.ts"
import { functions } from "./initial/functions.ts"
import { queueTables, queueTriggers } from "./initial/queue.ts"

/**
 * Store time is the database's clock, read when it is asked for and not when the transaction began: processes on many
 * machines compare leases by one clock.
 */
const storeTime = `
CREATE FUNCTION "kiln".store_time() RETURNS bigint LANGUAGE sql VOLATILE AS
  'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint';
`

/** What the triggers say when an invariant would break. */
const refuse = `
CREATE FUNCTION "kiln".refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION '%', TG_ARGV[0]; END $$;
`

const initial: Migration = {
  name: "0001Initial",
  sql:
    storeTime +
    refuse +
    boardTables +
    accessTables +
    uploadTables +
    jobTables +
    queueTables +
    jobTriggers +
    queueTriggers +
    functions,
}

/**
 * In order, each applied once. A migration only ever adds, because processes of the previous version run beside the new one
 * during a rollout. A released migration never changes.
 */
export const migrations: ReadonlyArray<Migration> = [initial]
