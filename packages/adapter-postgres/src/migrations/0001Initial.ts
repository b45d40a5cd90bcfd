import type { Migration } from "@kiln/core/ports"
import { limits } from "./0003Limits.ts"
import { accessTables, boardTables, uploadTables } from "./initial/accounts.ts"
import { callerFunctions } from "./initial/callers.ts"
import { attemptTables } from "./initial/attempts.ts"
import { blobTables } from "./initial/blobs.ts"
import { auditTable } from "./initial/audit.ts"
import { jobTables } from "./initial/jobs.ts"
import { jobTriggers } from "./initial/jobTriggers.ts"
import { claimFunction } from "./initial/claims.ts"
import { deliveryTables } from "./initial/deliveries.ts"
import { endFunction } from "./initial/ends.ts"
import { functions } from "./initial/functions.ts"
import { queueTables, queueTriggers } from "./initial/queue.ts"
import { scheduleTables } from "./initial/schedules.ts"
import { spendingTables } from "./initial/spending.ts"
import { submittedTables } from "./initial/submitted.ts"
import { vacuumSettings } from "./initial/vacuum.ts"

/**
 * Store time is the database's clock, read when the function is called and not when the transaction began: processes on many
 * machines compare leases by one clock.
 */
const storeTime = `
CREATE FUNCTION "kiln".store_time() RETURNS bigint LANGUAGE sql VOLATILE AS
  'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint';
`

/** Raises the message of a trigger whose invariant would break. */
const refuse = `
CREATE FUNCTION "kiln".refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION '%', TG_ARGV[0]; END $$;
`

/** Refuses a statement that wrote fewer rows than it was given. */
const requireAll = `
CREATE FUNCTION "kiln".require_all(written bigint, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF written <> expected THEN RAISE EXCEPTION '% of % jobs were not written', expected - written, expected; END IF;
END $$;
`

const initial: Migration = {
  name: "0001Initial",
  sql:
    storeTime +
    refuse +
    requireAll +
    boardTables +
    accessTables +
    auditTable +
    uploadTables +
    blobTables +
    jobTables +
    attemptTables +
    queueTables +
    vacuumSettings +
    jobTriggers +
    queueTriggers +
    functions +
    claimFunction +
    endFunction +
    spendingTables +
    scheduleTables +
    submittedTables +
    callerFunctions +
    deliveryTables,
}

/**
 * In order; each is applied once. Migrations only add, because processes of the previous version run beside the new one during a
 * rollout. A released migration never changes.
 */
export const migrations: ReadonlyArray<Migration> = [initial, limits]
