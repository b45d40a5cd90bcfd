import type { Migration } from "@kiln/core/ports"
import { accessTables } from "./initial/access.ts"
import { boardTables } from "./initial/board.ts"
import { jobTables } from "./initial/jobs.ts"
import { jobTriggers } from "./initial/jobTriggers.ts"
import { laneFunctions } from "./initial/laneFunctions.ts"
import { queueTables } from "./initial/queue.ts"
import { queueTriggers } from "./initial/queueTriggers.ts"
import { uploadTables } from "./initial/uploads.ts"

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

export const initial: Migration = {
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
    laneFunctions,
}
