import { afterAll, beforeAll, describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Scope } from "effect"
import pg from "pg"
import { fixtures } from "@kiln/conformance"
import { everyState } from "./support/everyState.ts"

type Attempt = readonly [what: string, sql: string, message: RegExp]

const id = (n: number): string => `'${fixtures.jobId(n)}'`
const job = (n: number, set: string): string => `UPDATE jobs SET ${set} WHERE id = ${id(n)}`
const result = (n: number, set: string): string => `UPDATE results SET ${set} WHERE job_id = ${id(n)}`
const queued = (n: number, set: string): string => `UPDATE queue SET ${set} WHERE id = ${id(n)}`
const upload = (n: number, set: string): string => `UPDATE uploads SET ${set} WHERE id = '${fixtures.uploadId(n)}'`
const seqOf = (n: number): string => `(SELECT seq FROM jobs WHERE id = ${id(n)})`

/** A copy of a row, the columns that are named replaced. */
const copyOf = (table: string, n: number, changes: Readonly<Record<string, string>>): string => {
  const idColumn = table === "results" ? "job_id" : "id"
  const given = Object.entries({ [idColumn]: "'job_copy'", ...changes })
  return `INSERT INTO ${table} SELECT (copied).* FROM (SELECT jsonb_populate_record(row, jsonb_build_object(${given
    .map(([column, value]) => `'${column}', ${value}`)
    .join(", ")})) AS copied FROM ${table} AS row WHERE ${idColumn} = ${id(n)}) AS one`
}
/** A copy of job `n` as it was when it was new, in the queue like any other. */
const copyOfJob = (n: number, changes: Readonly<Record<string, string>>): string =>
  copyOf("jobs", n, { seq: "nextval('jobs_seq_seq')", idempotency_key: "'copy'", ...changes })

/** The result of job `n`. */
const resultOf = (n: number, how: Readonly<Record<string, string>>): string => {
  const ends = {
    ran_ms: "1",
    waited_ms: "1",
    attempts: "1",
    failures: "0",
    lost_workers: "0",
    finished_at: "9",
    token: "9",
  }
  const given = Object.entries({ ...ends, ...how })
  return `INSERT INTO results (job_seq, job_id, project_id, kind, mode, created_at, ${given.map(([column]) => column).join(", ")})
    SELECT seq, id, project_id, kind, mode, created_at, ${given.map(([, value]) => value).join(", ")} FROM jobs WHERE id = ${id(n)}`
}
/** Ends job `n` as the verbs do: it leaves the queue and gets a result. */
const end = (n: number, how: Readonly<Record<string, string>>): string =>
  `WITH gone AS (DELETE FROM queue WHERE id = ${id(n)}) ${resultOf(n, how)}`

/** A change of job `n` between two places in the queue. */
const replaced = (n: number, set: string): string => `DELETE FROM queue WHERE id = ${id(n)}; ${job(n, set)}`

const failed = { status: "'failed'", error_code: "'x'" }
const done = { status: "'done'", output: "'{}'" }
const addFile = "INSERT INTO files (id, job_seq, name, blob_key, media_type, bytes, sha256)"

/** Everything a mistake above the store might try. Each is refused by the database itself. */
const refused: ReadonlyArray<readonly [promise: string, attempts: ReadonlyArray<Attempt>]> = [
  [
    "acceptance",
    [
      [
        "a second job for a key and idempotency key",
        copyOfJob(1, { idempotency_key: "row.idempotency_key" }),
        /unique.*jobs_key_id_idempotency_key_key/,
      ],
      ["a second job for an upload", copyOfJob(10, {}), /unique.*jobs_upload/],
      ["a second job of one id", copyOfJob(1, { id: "row.id" }), /unique.*jobs_id_key/],
      [
        "a job for a key that was replaced",
        `INSERT INTO replaced_keys SELECT key_id, 'copy', '', seq FROM jobs WHERE id = ${id(1)}; ${copyOfJob(1, {})}`,
        /whose request was replaced/,
      ],
      [
        "a job for an upload that has not arrived",
        copyOfJob(1, { upload_id: `'${fixtures.uploadId(2)}'` }),
        /has arrived/,
      ],
      ["a job for an erased upload", copyOfJob(1, { upload_id: `'${fixtures.uploadId(6)}'` }), /has arrived/],
      [
        "a job for another key's upload",
        copyOfJob(1, { upload_id: `'${fixtures.uploadId(3)}'`, key_id: "'key_other'" }),
        /belongs to its key/,
      ],
      [
        "a job for an upload of another project",
        copyOfJob(1, { upload_id: `'${fixtures.uploadId(3)}'`, project_id: "'prj_other'" }),
        /belongs to its key/,
      ],
      [
        "another request for an upload that has not arrived",
        replaced(1, `upload_id = '${fixtures.uploadId(2)}'`),
        /has arrived/,
      ],
      [
        "a job for an upload of another mode",
        copyOfJob(1, { upload_id: `'${fixtures.uploadId(3)}'`, mode: "'live'" }),
        /belongs to its key/,
      ],
      [
        "a job that begins done",
        `WITH copied AS (${copyOf("jobs", 4, { seq: "99", idempotency_key: "'copy'" })}) ${copyOf("results", 4, { job_seq: "99" })}`,
        /null value in column "lane_id"/,
      ],
      [
        "a job that begins done, its place written first",
        `WITH ended AS (${copyOf("results", 4, { job_seq: "99" })}) ${copyOf("jobs", 4, { seq: "99", idempotency_key: "'copy'" })}`,
        /job that has left the queue|null value in column "lane_id"/,
      ],
      ["a place in the queue for no job", copyOf("queue", 1, { job_seq: "99" }), /inserted with its job/],
      [
        "another place for a job that is inserted with it",
        `WITH copied AS (${copyOfJob(1, {})} RETURNING seq) ${copyOf("queue", 1, { job_seq: "(SELECT seq FROM copied)" })}`,
        /inserted with its job/,
      ],
      ["a place in the queue for a finished job", copyOf("queue", 1, { id: id(4), job_seq: seqOf(4) }), /with its job/],
      ["a second place in the queue", copyOf("queue", 1, { id: "row.id" }), /inserted with its job/],
      ["a sandbox job with a price", copyOfJob(1, { price_id: "1" }), /only a live job can have a price/],
      [
        "a sandbox job with a price for another request",
        replaced(1, "price_id = 1"),
        /only a live job can have a price/,
      ],
      ["a job of an unknown price", copyOfJob(7, { price_id: "99" }), /foreign key.*jobs_price_id_fkey/],
      ["a job of an unknown lane", copyOfJob(1, { kind: "'unknown'" }), /null value in column "lane_id"/],
      ["a version of a kind below the first", copyOfJob(1, { kind_version: "0" }), /domain kind_version/],
      ["an unknown mode", copyOfJob(1, { mode: "'test'" }), /domain job_mode/],
      ["a job that may wait for less than no time", copyOfJob(1, { queue_limit_ms: "-1" }), /domain not_negative/],
      ["a job that may run for less than no time", copyOfJob(1, { run_limit_ms: "-1" }), /domain not_negative/],
      ["a delay below zero", copyOfJob(1, { delay_ms: "-1" }), /domain not_negative/],
      ["a lane of a version below the first", "UPDATE lanes SET kind_version = 0", /lanes_kind_version_check/],
      [
        "two lanes of one name",
        "INSERT INTO lanes (project_id, kind, kind_version, mode) SELECT project_id, kind, kind_version, mode FROM lanes",
        /unique.*lanes/,
      ],
      ["a second clock of fairness", "INSERT INTO fairness VALUES (2, 0)", /fairness_id_check/],
    ],
  ],
  [
    "the state machine",
    [
      ["processing → queued", queued(3, "status = 'queued', token = token + 1"), /cannot change from this status/],
      ["queued → done", end(1, done), /leaves the queue exactly when it ends/],
      ["waiting for another attempt → done", end(3, done), /leaves the queue exactly when it ends/],
      ["an unknown status", queued(1, "status = 'paused', token = token + 1"), /domain unfinished_status/],
      ["an unknown end", end(2, { status: "'canceled'", error_code: "'x'" }), /check constraint/],
      ["held while queued", queued(1, "held = true, token = token + 1"), /cannot change from this status/],
      ["unfinished and never claimable", queued(3, "claimable_at = NULL"), /null value in column "claimable_at"/],
      ["unfinished without a deadline", queued(3, "deadline_at = NULL"), /null value in column "deadline_at"/],
      ["attempts that are forgotten", queued(2, "attempts = -1"), /domain not_negative/],
      ["finished and in the queue", resultOf(2, failed), /job that has left the queue/],
      ["a result of no job", copyOf("results", 4, { job_seq: "99" }), /job that has left the queue/],
      [
        "a result of another job",
        end(2, failed).replace("SELECT seq, id", `SELECT ${seqOf(1)}, id`),
        /job that has left the queue|leaves the queue exactly when it ends/,
      ],
      ...["project_id", "kind", "mode", "created_at"].map((column): Attempt => [
        `a result with another ${column}`,
        end(2, failed).replace(new RegExp(`(SELECT .*?)${column}`), column === "created_at" ? "$11" : "$1'live'"),
        /leaves the queue exactly when it ends/,
      ]),
      [
        "a result under the id of another job",
        end(2, failed).replace("SELECT seq, id", `SELECT seq, ${id(1)}`),
        /leaves the queue exactly when it ends/,
      ],
      [
        "a result of a job in the queue under an id of no job",
        resultOf(2, failed).replace("SELECT seq, id", "SELECT seq, 'job_none'"),
        /job that has left the queue/,
      ],
      ["a result with attempts below zero", end(2, { ...failed, attempts: "-1" }), /results_count/],
      ["a result with a token below zero", end(2, { ...failed, token: "-1" }), /results_count/],
      ["a second result", resultOf(4, done), /unique.*results_pkey/],
      [
        "a result whose data is gone already",
        end(2, { status: "'done'", retained: "'deleted'" }),
        /whose data is kept/,
      ],
      ["a result deleted", `DELETE FROM results WHERE job_id = ${id(4)}`, /cannot be deleted without the job/],
      [
        "out of the queue and not finished",
        `DELETE FROM queue WHERE id = ${id(2)}`,
        /leaves the queue exactly when it ends/,
      ],
      ["finished without a time", end(2, { ...failed, finished_at: "NULL" }), /null value in column "finished_at"/],
      ["finished without a token", end(2, { ...failed, token: "NULL" }), /null value in column "token"/],
      ["finished without its attempts", end(2, { ...failed, attempts: "NULL" }), /null value in column "attempts"/],
      ["done without output", end(2, { status: "'done'" }), /check constraint/],
      ["done with an error code", end(2, { ...done, error_code: "'x'" }), /check constraint/],
      ["failed without an error code", end(2, { status: "'failed'" }), /check constraint/],
      [
        "failed and erased with output",
        end(2, { ...failed, output: "'{}'", retained: "'expired'" }),
        /check constraint|cannot keep data/,
      ],
      ["an unfinished job deleted", `DELETE FROM jobs WHERE id = ${id(2)}`, /unfinished job cannot be deleted/],
      [
        "an unfinished job deleted with its place in the queue",
        `WITH gone AS (DELETE FROM queue WHERE id = ${id(2)}) DELETE FROM jobs WHERE id = ${id(2)}`,
        /unfinished job cannot be deleted|leaves the queue exactly when it ends/,
      ],
      ...Object.entries({
        id: "'job_copy'",
        seq: "99",
        project_id: "'other'",
        key_id: "'other'",
        mode: "'live'",
        kind: "'other'",
        kind_version: "2",
        created_at: "1",
        idempotency_key: "'other'",
        fingerprint: "'other'",
        queue_limit_ms: "1",
        run_limit_ms: "1",
        delay_ms: "5",
        request: "'{}'",
      }).map(([column, value]): Attempt => [`another ${column}`, job(1, `${column} = ${value}`), /cannot be changed/]),
      ["another price", job(7, "price_id = 1"), /cannot be changed/],
      ["another priority than in the queue", job(1, "priority = 2"), /only a job that waits/],
      ["another priority in the queue alone", queued(1, "priority = 2"), /another priority than the job/],
      ["another priority while held", queued(2, "priority = 2"), /only a job that waits/],
      ["another priority once finished", job(4, "priority = 2"), /only a job that waits/],
      [
        "another priority than when it was claimed",
        `${queued(1, "priority = 2")}; ${queued(1, "status = 'processing', held = true, token = token + 1")}; ${job(1, "priority = 2")}`,
        /only a job that waits/,
      ],
      ["a priority out of range", copyOfJob(1, { priority: "6" }), /domain job_rank/],
      ["other fields that stay", job(4, "kept = '{}'"), /cannot be changed/],
      ["another upload", job(10, `upload_id = '${fixtures.uploadId(3)}'`), /cannot be changed/],
      ["its upload let go while it is unfinished", job(10, "upload_id = NULL"), /cannot be changed/],
      ["its upload let go when it is done", job(8, "upload_id = NULL"), /cannot be changed/],
      ["its upload let go for nobody", `${end(10, failed)}; ${job(10, "upload_id = NULL")}`, /only to a retry/],
      [
        "another upload once failed",
        `${end(10, failed)}; ${job(10, `upload_id = '${fixtures.uploadId(3)}'`)}`,
        /cannot be changed/,
      ],
      [
        "its upload let go once erased",
        `${end(10, failed)}; ${job(10, "request = NULL")}; ${result(10, "retained = 'deleted'")}; ${job(10, "upload_id = NULL")}`,
        /cannot be changed/,
      ],
      ["another lane", queued(1, "lane_id = (SELECT max(id) FROM lanes)"), /cannot be changed/],
      ["another job's place", queued(1, `job_seq = ${seqOf(2)}`), /cannot be changed/],
      ["another time of its creation", queued(1, "created_at = 1"), /cannot be changed/],
    ],
  ],
  [
    "fencing",
    [
      ["a token that shrinks", queued(3, "token = token - 1"), /token of a job must increase/],
      ["a claim without a new token", queued(3, "held = true"), /token of a job must increase/],
      ["the end of a claim without a new token", queued(2, "held = false"), /token of a job must increase/],
      [
        "a claim of a queued job without a new token",
        queued(1, "status = 'processing'"),
        /token of a job must increase/,
      ],
      ["a finish without a new token", end(2, { ...failed, token: "1" }), /leaves the queue exactly when it ends/],
      ["a result without a new token", end(2, { ...done, token: "1" }), /leaves the queue exactly when it ends/],
      [
        "a step of a job that nobody holds",
        `INSERT INTO checkpoints VALUES (${id(3)}, 'a', '1')`,
        /while a worker holds/,
      ],
      ["a step of a finished job", `INSERT INTO checkpoints VALUES (${id(4)}, 'a', '1')`, /while a worker holds/],
      [
        "a step rewritten when nobody holds its job",
        `${queued(2, "held = false, token = token + 1")}; UPDATE checkpoints SET value = '1'`,
        /while a worker holds/,
      ],
    ],
  ],
  [
    "a finished job",
    [
      ["its status", result(4, "status = 'failed', error_code = 'x', output = NULL"), /cannot be changed/],
      ["its status taken back", `DELETE FROM results WHERE job_id = ${id(5)}`, /cannot be deleted without the job/],
      ["its job", result(5, `job_seq = ${seqOf(1)}`), /cannot be changed/],
      ["its project", result(5, "project_id = 'prj_other'"), /cannot be changed/],
      ["its error code", result(5, "error_code = 'other'"), /cannot be changed/],
      ["its time", result(4, "finished_at = finished_at + 1"), /cannot be changed/],
      ["its token", result(4, "token = token + 1"), /cannot be changed/],
      ["its attempts", result(4, "attempts = attempts + 1"), /cannot be changed/],
      ["its failures", result(4, "failures = failures + 1"), /cannot be changed/],
      ["its lost workers", result(4, "lost_workers = lost_workers + 1"), /cannot be changed/],
      ["how long it ran", result(4, "ran_ms = ran_ms + 1"), /cannot be changed/],
      ["how long it waited", result(4, "waited_ms = waited_ms + 1"), /cannot be changed/],
      ["its output", result(4, "output = '{\"a\":1}'"), /cannot be changed/],
      ["its warning", result(4, "warning_code = 'output_truncated'"), /cannot be changed/],
      ["its bill", result(6, "charge = '{}'"), /cannot be changed/],
      ["a place in the queue again", copyOf("queue", 1, { id: id(4), job_seq: seqOf(4) }), /inserted with its job/],
      ["its files", "UPDATE files SET blob_key = 'other'", /cannot be changed/],
      ["its output given back after erasing", result(9, "output = '{}'"), /cannot be changed|check constraint/],
      ["its erasure undone", result(9, "retained = 'kept', output = '{}'"), /cannot keep data/],
      ["deleted made expired", result(9, "retained = 'expired'"), /cannot keep data/],
      ["erased while its data is there", result(4, "retained = 'deleted', output = NULL"), /cannot keep data/],
      [
        "erased while its files are there",
        `${job(4, "request = NULL")}; ${result(4, "retained = 'deleted', output = NULL")}`,
        /cannot keep data/,
      ],
      [
        "erased with its output",
        `${job(8, "request = NULL")}; ${result(8, "retained = 'deleted'")}`,
        /check constraint/,
      ],
      [
        "erased while records of its attempts are there",
        `${job(5, "request = NULL")}; ${result(5, "retained = 'deleted'")}`,
        /cannot keep data/,
      ],
      [
        "a record of an attempt for an erased one",
        `INSERT INTO attempts VALUES (${seqOf(9)}, 1, 'x', '', NULL, 1, 1, 'w')`,
        /the record of an attempt needs a job/,
      ],
      ["the record of an attempt", "UPDATE attempts SET message = 'other'", /cannot be changed/],
      ["a request for an erased one", job(9, "request = '{}'"), /cannot be changed/],
      ["a file for an erased one", `${addFile} VALUES ('f', ${seqOf(9)}, 'a', 'b', 'c', 1, 'd')`, /files need a job/],
      ["a file for a running one", `${addFile} VALUES ('f', ${seqOf(2)}, 'a', 'b', 'c', 1, 'd')`, /files need a job/],
      ["a file for a failed one", `${addFile} VALUES ('f', ${seqOf(5)}, 'a', 'b', 'c', 1, 'd')`, /files need a job/],
      [
        "two files of one name",
        `${addFile} SELECT 'f', job_seq, name, 'b', 'c', 1, 'd' FROM files`,
        /unique.*files_job_seq_name_key/,
      ],
    ],
  ],
  [
    "money",
    [
      ["a live job done without a charge", end(7, done), /check constraint/],
      ["a sandbox job done with a charge", end(2, { ...done, charge: "'{}'" }), /check constraint/],
      ["a failed job with a charge", end(7, { ...failed, charge: "'{}'" }), /check constraint/],
      [
        "a charge without an amount",
        end(7, { ...done, charge: `'{"currency":"usd","lineItems":[]}'` }),
        /null value in column "amount" of relation "charges"/,
      ],
      ["a charge that is not JSON", end(7, { ...done, charge: "'usd 1'" }), /invalid input syntax for type json/],
      ["a second charge", "INSERT INTO charges SELECT * FROM charges", /unique.*charges_pkey/],
      [
        "a charge for a sandbox job",
        `INSERT INTO charges VALUES (${id(4)}, 'p', 'k', 'x', 'usd', '1', '[]', 1)`,
        /live job that is done/,
      ],
      [
        "a charge for a job that is not done",
        `INSERT INTO charges VALUES (${id(7)}, 'p', 'k', 'x', 'usd', '1', '[]', 1)`,
        /live job that is done/,
      ],
      [
        "a charge for no job",
        "INSERT INTO charges VALUES ('job_none', 'p', 'k', 'x', 'usd', '1', '[]', 1)",
        /live job that is done/,
      ],
      ["a charge changed", "UPDATE charges SET amount = '0'", /cannot be changed/],
      ["a charge deleted", "DELETE FROM charges", /cannot be deleted/],
      ["a price changed", "UPDATE prices SET unit_amounts = '{}'", /cannot be changed/],
      ["a price in use deleted", "DELETE FROM prices WHERE active", /foreign key.*jobs_price_id_fkey/],
      ["two active versions of a price", "UPDATE prices SET active = true", /unique.*prices_active/],
      [
        "a second version of one number",
        "INSERT INTO prices (name, version, currency, unit_amounts, active, created_at) SELECT name, version, currency, unit_amounts, false, 1 FROM prices",
        /unique.*prices_name_version_key/,
      ],
    ],
  ],
  [
    "uploads",
    [
      ["a token that shrinks", upload(5, "token = 0"), /token of an upload must increase/],
      ["transfers forgotten", upload(5, "transfers = 0"), /token of an upload must increase/],
      ["a second file", upload(3, "blob_key = 'other', sha256 = 'other'"), /receive only one file/],
      ["a transfer after the file", upload(3, "claimed_until = 9"), /receive only one file/],
      ["a file taken back", upload(3, "blob_key = NULL, bytes = NULL, sha256 = NULL"), /receive only one file/],
      ["half a file", upload(2, "blob_key = 'a'"), /check constraint/],
      ["a file while it is in transfer", upload(5, "blob_key = 'a', bytes = 1, sha256 = 'b'"), /check constraint/],
      ["erased with its file", upload(3, "erased = true"), /check constraint/],
      [
        "erased while its job is unfinished",
        upload(4, "erased = true, blob_key = NULL, bytes = NULL, sha256 = NULL"),
        /cannot be erased while its job is unfinished/,
      ],
      ["its erasure undone", upload(6, "erased = false"), /cannot be restored/],
      ["another length", upload(2, "declared_seconds = 1"), /cannot be changed/],
      ["another owner", upload(2, "key_id = 'key_other'"), /cannot be changed/],
      ["deleted under its job", `DELETE FROM uploads WHERE id = '${fixtures.uploadId(4)}'`, /foreign key/],
    ],
  ],
  [
    "access",
    [
      [
        "a key of no project",
        "INSERT INTO api_keys (id, project_id, mode, scopes, created_at) VALUES ('k', 'none', 'test', '[]', 1)",
        /foreign key/,
      ],
      [
        "two projects of one name",
        "INSERT INTO projects (id, name, created_at) VALUES ('p', 'one', 1)",
        /unique.*projects_name_key/,
      ],
      [
        "two keys for one secret",
        "INSERT INTO key_secrets SELECT secret_hash, key_id, 1, NULL FROM key_secrets LIMIT 1",
        /unique.*key_secrets_pkey/,
      ],
      ["a key of another mode", "UPDATE api_keys SET mode = 'sandbox'", /api_keys_mode_check/],
      [
        "a revoked key made valid",
        "UPDATE api_keys SET revoked_at = NULL WHERE revoked_at IS NOT NULL",
        /cannot become active again/,
      ],
      [
        "a second purge of one place",
        "INSERT INTO purges (blob_prefix, recorded_at) SELECT blob_prefix, 1 FROM purges",
        /unique.*purges_blob_prefix_key/,
      ],
    ],
  ],
]

const tables = [
  "jobs",
  "results",
  "queue",
  "lanes",
  "checkpoints",
  "attempts",
  "files",
  "charges",
  "prices",
  "uploads",
  "api_keys",
]

// One database for all: what is refused leaves nothing behind.
let client: pg.Client
const scope = Scope.makeUnsafe()
beforeAll(async () => {
  const url = await Effect.runPromise(Scope.provide(everyState, scope))
  client = new pg.Client({ connectionString: url, options: "-c search_path=kiln" })
  await client.connect()
})
afterAll(async () => {
  await client.end()
  await Effect.runPromise(Scope.close(scope, Exit.void))
})

const dump = async (): Promise<ReadonlyArray<unknown>> => {
  const rows: Array<unknown> = []
  for (const table of tables) rows.push((await client.query(`SELECT * FROM ${table} ORDER BY ${table}`)).rows)
  return rows
}

/** Runs in one transaction and commits it, so that deferred checks run too. */
const commit = (sql: string): Promise<unknown> =>
  client.query(`BEGIN; ${sql}; COMMIT`).catch(async (error: unknown) => {
    await client.query("ROLLBACK")
    throw error
  })

describe("the database itself refuses", () => {
  for (const [promise, attempts] of refused)
    describe(promise, () => {
      it.each(attempts.map(([what, sql, message]) => ({ what, sql, message })))("$what", async ({ message, sql }) => {
        const before = await dump()
        await expect(commit(sql)).rejects.toThrow(message)
        expect(await dump()).toEqual(before)
      })
    })
})

/** In a transaction that is given up afterwards. */
const tentatively = async (use: () => Promise<void>): Promise<void> => {
  await client.query("BEGIN")
  try {
    await use()
  } finally {
    await client.query("ROLLBACK")
  }
}

it("ending a job writes its charge and clears the steps of one that is done, by any statement", () =>
  tentatively(async () => {
    await client.query(`INSERT INTO checkpoints VALUES (${id(7)}, 'a', '1')`)
    await client.query(end(2, failed))
    const steps = async () => (await client.query("SELECT step FROM checkpoints ORDER BY step")).rows
    expect(await steps()).toEqual([{ step: "a" }, { step: "reply" }])
    const charge = '{"currency":"usd","amount":"1.5","lineItems":[{"meter":"images"}]}'
    await client.query(end(7, { ...done, charge: `'${charge}'` }))
    expect(await steps()).toEqual([{ step: "reply" }])
    await client.query("SET CONSTRAINTS ALL IMMEDIATE")
    const bills = "SELECT job_id, currency, amount, line_items, charged_at FROM charges ORDER BY job_id"
    expect((await client.query(bills)).rows).toMatchObject([
      { job_id: fixtures.jobId(6), amount: "0.00015" },
      {
        job_id: fixtures.jobId(7),
        currency: "usd",
        amount: "1.5",
        line_items: '[{"meter":"images"}]',
        charged_at: "9",
      },
    ])
  }))

it("charges outlive their jobs, and no job can be charged a second time under an old id", () =>
  tentatively(async () => {
    await client.query(`DELETE FROM jobs WHERE id = ${id(6)}`)
    await client.query("SET CONSTRAINTS ALL IMMEDIATE")
    expect((await client.query("SELECT job_id FROM charges")).rows).toEqual([{ job_id: fixtures.jobId(6) }])
    await client.query("SET CONSTRAINTS ALL DEFERRED")
    await client.query(copyOfJob(7, { id: id(6) }).replaceAll("'job_copy'", id(6)))
    await client.query(`UPDATE queue SET status = 'processing', held = true, token = 1 WHERE id = ${id(6)}`)
    const charge = '{"currency":"usd","amount":"1","lineItems":[]}'
    await expect(client.query(end(6, { ...done, charge: `'${charge}'` }))).rejects.toThrow(/unique.*charges_pkey/)
  }))
