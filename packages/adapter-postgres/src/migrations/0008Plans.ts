import type { Migration } from "@kiln/core/ports"

/** Functions, some of them of triggers, whose statements look up rows of tables that grow. The others have this setting since they exist. */
const lookUpRows = [
  "add_job",
  "add_jobs",
  "charge_of_live_done_job",
  "checkpoint_while_held",
  "claim_jobs",
  "create_job",
  "create_jobs",
  "end_jobs",
  "erase_for_good",
  "erase_upload_for_good",
  "file_of_done_job",
  "price_and_upload",
  "result_goes_with_job",
  "serve_lanes",
  "settle_lanes",
  "stand_in_queue",
  "upload_leaves_failed",
  "upload_went_to_retry",
]

/** Joins other than one look into an index for each row. */
const otherJoins = ["enable_hashjoin", "enable_mergejoin", "enable_material"]

/**
 * The charge of a live job, as before, but the one row of the closed ledger is found by its key. Without a condition, only a sequential scan
 * finds it. Where these are off, servers before Postgres 18 take it for so dear that they compile it, which takes tens of
 * milliseconds for each charge.
 */
const writeCharge = `CREATE OR REPLACE FUNCTION "kiln".write_charge() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(
    ('"kiln".closed_ledger'::regclass::oid::bigint - 2147483648)::int, (NEW.finished_at / 1000 - 2147483648)::int);
  INSERT INTO "kiln".charges (job_id, project_id, key_id, kind, currency, amount, line_items, charged_at)
  SELECT NEW.job_id, NEW.project_id, (SELECT key_id FROM "kiln".jobs WHERE seq = NEW.job_seq), NEW.kind,
    NEW.charge::json ->> 'currency', NEW.charge::json ->> 'amount', NEW.charge::json -> 'lineItems',
    greatest(NEW.finished_at, closed_until)
  FROM "kiln".closed_ledger WHERE closed_ledger.id = 1;
  RETURN NULL;
END $$;
`

const turnOff = (name: string, settings: ReadonlyArray<string>): string =>
  settings.map((setting) => `ALTER FUNCTION "kiln".${name} SET ${setting} = off;\n`).join("")

/**
 * Settings of single functions, in place of settings of whole sessions. A session plans a function's statements once and keeps the plans, so
 * a table may grow after it was planned for. No form of a statement prevents a sequential scan of a table that is empty when it is planned.
 *
 * - Everywhere, no sequential scans: a look into a `queue` of 100,000 rows that was planned for an empty one takes 25 ms instead of 0.01.
 * - `claim_jobs` and `end_jobs`, one plan for all parameters. By its estimates, the server would plan each claim anew (1.2 ms of its time
 *   instead of 0.6), and ends with their parameters: it would then know that they look for held jobs, and search the index of these for each
 *   end, which statistics from a time without workers call empty (460 ms of its time for 4,000 jobs instead of 170).
 * - Both, only nested loops. Claims return jobs in the order in which they were locked, and a hash join of ends reads the whole index of the
 *   queue (0.49 ms for the end of a job instead of 0.33).
 * - `claim_jobs`, no bitmaps, or a claim reads and sorts all jobs of a lane.
 */
export const plans: Migration = {
  name: "0008Plans",
  sql: [
    writeCharge,
    ...lookUpRows.map((name) => turnOff(name, ["enable_seqscan"])),
    turnOff("end_jobs", otherJoins),
    turnOff("claim_jobs", [...otherJoins, "enable_bitmapscan"]),
    ...["claim_jobs", "end_jobs"].map(
      (name) => `ALTER FUNCTION "kiln".${name} SET plan_cache_mode = force_generic_plan;\n`,
    ),
  ].join(""),
}
