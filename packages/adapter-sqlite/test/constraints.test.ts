import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { fixtures } from "@kiln/conformance"
import { everyState, sharedEveryState } from "./support/arrangeJobs.ts"

type Attempt = readonly [what: string, sql: string, message: RegExp]

/** Inserts a copy of job `n` with some columns replaced. */
const copyOfJob = (n: number, changes: Record<string, string>): string => {
  const columns = [
    "id",
    "lane_id",
    "project_id",
    "key_id",
    "mode",
    "kind",
    "kind_version",
    "upload_id",
    "idempotency_key",
    "fingerprint",
    "price_id",
    "created_at",
    "queue_limit_ms",
    "run_limit_ms",
    "status",
    "token",
    "held",
    "claimable_at",
    "deadline_at",
    "phase_started_at",
    "ran_ms",
    "waited_ms",
    "attempts",
    "failures",
    "lost_workers",
    "finished_at",
    "error_code",
    "warning_code",
    "retained",
    "charge",
    "output",
    "priority",
    "kept",
    "request",
  ]
  const values = { id: "'job_copy'", idempotency_key: "'copy'", ...changes } as Record<string, string>
  return `INSERT INTO kiln_jobs (${columns.join(", ")}) SELECT ${columns.map((column) => values[column] ?? column).join(", ")} FROM kiln_jobs WHERE id = '${fixtures.jobId(n)}'`
}
const job = (n: number, set: string): string => `UPDATE kiln_jobs SET ${set} WHERE id = '${fixtures.jobId(n)}'`
const upload = (n: number, set: string): string => `UPDATE kiln_uploads SET ${set} WHERE id = '${fixtures.uploadId(n)}'`
const seqOf = (n: number): string => `(SELECT seq FROM kiln_jobs WHERE id = '${fixtures.jobId(n)}')`

const finishing =
  "claimable_at = NULL, deadline_at = NULL, phase_started_at = NULL, finished_at = 9, held = 0, token = token + 1"

/** Attempts that a bug above the database could make. The database itself rejects each of them. */
const refused: ReadonlyArray<readonly [promise: string, attempts: ReadonlyArray<Attempt>]> = [
  [
    "acceptance",
    [
      [
        "a second job for a key and idempotency key",
        copyOfJob(1, { idempotency_key: "idempotency_key" }),
        /UNIQUE.*jobs\.key_id, kiln_jobs\.idempotency_key/,
      ],
      ["a second job for an upload", copyOfJob(10, {}), /UNIQUE.*jobs\.upload_id/],
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
      ["a job that begins processing", copyOfJob(2, {}), /new job must be queued/],
      ["a job that begins done", copyOfJob(4, {}), /new job must be queued/],
      ["a priority out of range", copyOfJob(1, { priority: "6" }), /CHECK.*priority/],
      ["a sandbox job with a price", copyOfJob(1, { price_id: "1" }), /CHECK.*mode = 'live' OR price_id IS NULL/],
      [
        "a job of an unknown price",
        copyOfJob(7, { price_id: "99", status: "'queued'", token: "0", held: "0" }),
        /FOREIGN KEY/,
      ],
      ["a job of an unknown lane", copyOfJob(1, { lane_id: "99" }), /FOREIGN KEY/],
      ["a version of a kind below the first", copyOfJob(1, { kind_version: "0" }), /CHECK.*kind_version >= 1/],
      ["a text where a number belongs", copyOfJob(1, { created_at: "'now'" }), /cannot store TEXT/],
    ],
  ],
  [
    "the state machine",
    [
      ["processing → queued", job(3, "status = 'queued', token = token + 1"), /cannot change from this status/],
      ["queued → done", job(1, `status = 'done', output = '{}', ${finishing}`), /cannot change from this status/],
      ["an unknown status", job(1, "status = 'paused', token = token + 1"), /cannot change from this status/],
      ["held while queued", job(1, "held = 1, token = token + 1"), /CHECK.*held = 0 OR status/],
      ["unfinished and never claimable", job(3, "claimable_at = NULL"), /CHECK.*claimable_at/],
      ["unfinished without a deadline", job(3, "deadline_at = NULL"), /CHECK.*deadline_at/],
      [
        "finished and claimable",
        job(2, `status = 'failed', error_code = 'x', ${finishing.replace("claimable_at = NULL", "claimable_at = 1")}`),
        /CHECK.*claimable_at/,
      ],
      [
        "finished without a time",
        job(2, `status = 'failed', error_code = 'x', ${finishing.replace("finished_at = 9", "finished_at = NULL")}`),
        /CHECK.*finished_at/,
      ],
      ["done without output", job(2, `status = 'done', ${finishing}`), /CHECK.*output/],
      [
        "done with an error code",
        job(2, `status = 'done', output = '{}', error_code = 'x', ${finishing}`),
        /CHECK.*error_code/,
      ],
      ["failed without an error code", job(2, `status = 'failed', ${finishing}`), /CHECK.*error_code/],
      [
        "failed and erased with output",
        job(
          2,
          `status = 'failed', error_code = 'x', output = '{}', retained = 'expired', request = NULL, ${finishing}`,
        ),
        /CHECK.*output/,
      ],
      ["output while processing", job(2, "output = '{}'"), /CHECK.*output/],
      ["erased while unfinished", job(2, "retained = 'deleted'"), /CHECK.*retained|cannot keep data/],
      [
        "an unfinished job deleted",
        `DELETE FROM kiln_jobs WHERE id = '${fixtures.jobId(2)}'`,
        /unfinished job cannot be deleted/,
      ],
      ["another version of its kind", job(1, "kind_version = 2"), /cannot be changed/],
      ["another priority while held", job(2, "priority = 2"), /only a job that waits/],
      ["another priority once finished", job(4, "priority = 2"), /only a job that waits/],
      ["other kept fields", job(1, "kept = '[]'"), /cannot be changed/],
      ["its upload taken from it", job(10, "upload_id = NULL"), /only a failed job/],
      ["its upload taken from it when it is done", job(8, "upload_id = NULL"), /only a failed job/],
      ["an upload it never had", job(5, `upload_id = '${fixtures.uploadId(3)}'`), /only a failed job/],
      ["another owner", job(1, "key_id = 'key_other'"), /cannot be changed/],
      ["another price", job(7, "price_id = 1"), /cannot be changed/],
      ["another request", job(1, "request = '{}'"), /cannot be changed/],
      ["another request after its begin", job(3, "request = '{}', idempotency_key = 'x'"), /cannot be changed/],
      ["other kept fields after its begin", job(3, "kept = '{}', idempotency_key = 'x'"), /cannot be changed/],
      ["its request taken from it", job(4, "request = NULL"), /cannot be changed/],
      [
        "another long request",
        `UPDATE kiln_job_data SET request = '{}' WHERE job_seq = ${seqOf(8)}`,
        /cannot be changed/,
      ],
      ["a second request", `INSERT INTO kiln_job_data VALUES (${seqOf(1)}, '{}')`, /one request/],
      ["a lease beyond its deadline", job(2, "claimable_at = deadline_at + 1"), /CHECK.*claimable_at <= deadline_at/],
    ],
  ],
  [
    "fencing",
    [
      ["a token that shrinks", job(3, "token = token - 1"), /token of a job must increase/],
      ["a claim without a new token", job(3, "held = 1"), /token of a job must increase/],
      ["the end of a claim without a new token", job(2, "held = 0"), /token of a job must increase/],
      [
        "a finish without a new token",
        job(2, `status = 'failed', error_code = 'x', ${finishing.replace("token + 1", "token")}`),
        /token of a job must increase/,
      ],
      [
        "a step of a job that nobody holds",
        `INSERT INTO kiln_checkpoints VALUES (${seqOf(3)}, 'a', '1')`,
        /while a worker holds/,
      ],
      [
        "a step of a finished job",
        `INSERT INTO kiln_checkpoints VALUES (${seqOf(4)}, 'a', '1')`,
        /while a worker holds/,
      ],
    ],
  ],
  [
    "a finished job",
    [
      [
        "its status",
        job(4, "status = 'failed', error_code = 'x', output = NULL, token = token + 1"),
        /cannot be changed|cannot change from this status/,
      ],
      ["its error code", job(5, "error_code = 'other'"), /cannot be changed/],
      ["its time", job(4, "finished_at = finished_at + 1"), /cannot be changed/],
      ["its token", job(4, "token = token + 1"), /cannot be changed/],
      ["its attempts", job(4, "attempts = attempts + 1"), /cannot be changed/],
      ["its output", job(4, "output = '{}'"), /cannot be changed/],
      ["its warning", job(4, "warning_code = 'output_truncated'"), /cannot be changed/],
      ["its bill", job(6, "charge = '{}'"), /cannot be changed/],
      ["its files", "UPDATE kiln_files SET blob_key = 'other'", /cannot be changed/],
      ["its output given back after erasing", job(9, "output = '{}'"), /cannot be changed/],
      ["its erasure undone", job(9, "retained = 'kept', output = '{}'"), /cannot keep data/],
      ["deleted made expired", job(9, "retained = 'expired'"), /cannot keep data/],
      ["erased while its data is there", job(4, "retained = 'deleted', output = NULL"), /cannot keep data/],
      ["erased while its request is there", job(12, "retained = 'deleted'"), /CHECK.*request IS NULL/],
      [
        "erased while records of its attempts are there",
        job(5, "retained = 'deleted', request = NULL"),
        /cannot keep data/,
      ],
      [
        "a record of an attempt for an erased one",
        `INSERT INTO kiln_attempts VALUES (${seqOf(9)}, 1, 'x', '', NULL, 1, 1, 'w')`,
        /cannot have records of attempts/,
      ],
      ["the record of an attempt", "UPDATE kiln_attempts SET message = 'other'", /cannot be changed/],
      [
        "erased while its long request is there",
        job(8, "retained = 'deleted', request = NULL, output = NULL"),
        /cannot keep data/,
      ],
      ["its request given back after erasing", job(9, "request = '{}'"), /cannot be changed/],
      ["data for an erased one", `INSERT INTO kiln_job_data VALUES (${seqOf(9)}, '{}')`, /cannot have data/],
      [
        "a file for an erased one",
        `INSERT INTO kiln_files (id, job_seq, name, blob_key, media_type, bytes, sha256) VALUES ('f', ${seqOf(9)}, 'a', 'b', 'c', 1, 'd')`,
        /only a done job/,
      ],
      [
        "a file for a running one",
        `INSERT INTO kiln_files (id, job_seq, name, blob_key, media_type, bytes, sha256) VALUES ('f', ${seqOf(2)}, 'a', 'b', 'c', 1, 'd')`,
        /only a done job/,
      ],
      [
        "two files of one name",
        `INSERT INTO kiln_files (id, job_seq, name, blob_key, media_type, bytes, sha256) SELECT 'f', job_seq, name, 'b', 'c', 1, 'd' FROM kiln_files`,
        /UNIQUE.*files\.job_seq, kiln_files\.name/,
      ],
    ],
  ],
  [
    "money",
    [
      ["a live job done without a charge", job(7, `status = 'done', output = '{}', ${finishing}`), /CHECK.*charge/],
      [
        "a sandbox job done with a charge",
        job(2, `status = 'done', output = '{}', charge = '{}', ${finishing}`),
        /CHECK.*charge/,
      ],
      [
        "a failed job with a charge",
        job(7, `status = 'failed', error_code = 'x', charge = '{}', ${finishing}`),
        /CHECK.*charge/,
      ],
      [
        "a charge without an amount",
        job(7, `status = 'done', output = '{}', charge = '{"currency":"usd"}', ${finishing}`),
        /NOT NULL.*charges\.amount/,
      ],
      ["a second charge", `INSERT INTO kiln_charges SELECT * FROM kiln_charges`, /UNIQUE.*charges\.job_id/],
      [
        "a charge for a sandbox job",
        `INSERT INTO kiln_charges VALUES ('${fixtures.jobId(4)}', 'p', 'k', 'x', 'usd', '1', '[]', 1)`,
        /live job that is done/,
      ],
      [
        "a charge for a job that is not done",
        `INSERT INTO kiln_charges VALUES ('${fixtures.jobId(7)}', 'p', 'k', 'x', 'usd', '1', '[]', 1)`,
        /live job that is done/,
      ],
      [
        "a charge for no job",
        `INSERT INTO kiln_charges VALUES ('job_none', 'p', 'k', 'x', 'usd', '1', '[]', 1)`,
        /live job that is done/,
      ],
      ["a charge changed", "UPDATE kiln_charges SET amount = '0'", /cannot be changed/],
      ["a charge deleted", "DELETE FROM kiln_charges", /cannot be deleted/],
      ["a price changed", "UPDATE kiln_prices SET unit_amounts = '{}'", /cannot be changed/],
      ["a price in use deleted", "DELETE FROM kiln_prices WHERE active = 1", /FOREIGN KEY/],
      ["two active versions of a price", "UPDATE kiln_prices SET active = 1", /UNIQUE.*prices\.name/],
    ],
  ],
  [
    "uploads",
    [
      ["a token that shrinks", upload(5, "token = 0"), /token of an upload must increase/],
      ["transfers forgotten", upload(5, "transfers = 0"), /token of an upload must increase/],
      ["a second file", upload(3, "blob_key = 'other', sha256 = 'other'"), /receive only one file/],
      ["a transfer after the file", upload(3, "claimed_until = 9"), /receive only one file/],
      ["half a file", upload(2, "blob_key = 'a'"), /CHECK.*blob_key/],
      ["a file while it is in transfer", upload(5, "blob_key = 'a', bytes = 1, sha256 = 'b'"), /CHECK.*claimed_until/],
      ["erased with its file", upload(3, "erased = 1"), /CHECK.*erased/],
      [
        "erased while its job is unfinished",
        upload(4, "erased = 1, blob_key = NULL, bytes = NULL, sha256 = NULL"),
        /cannot be erased while its job is unfinished/,
      ],
      ["its erasure undone", upload(6, "erased = 0"), /cannot be restored/],
      ["another length", upload(2, "declared_seconds = 1"), /cannot be changed/],
      ["deleted under its job", `DELETE FROM kiln_uploads WHERE id = '${fixtures.uploadId(4)}'`, /FOREIGN KEY/],
    ],
  ],
  [
    "access",
    [
      [
        "a key of no project",
        "INSERT INTO kiln_api_keys (id, project_id, mode, scopes, created_at) VALUES ('k', 'none', 'test', '[]', 1)",
        /FOREIGN KEY/,
      ],
      [
        "two projects of one name",
        "INSERT INTO kiln_projects (id, name, created_at) VALUES ('p', 'one', 1)",
        /UNIQUE.*projects\.name/,
      ],
      [
        "two keys for one secret",
        `INSERT INTO kiln_key_secrets SELECT secret_hash, key_id, 1, NULL FROM kiln_key_secrets LIMIT 1`,
        /UNIQUE.*key_secrets\.secret_hash/,
      ],
      ["a key of another mode", "UPDATE kiln_api_keys SET mode = 'sandbox'", /CHECK.*mode/],
      [
        "a revoked key made valid",
        "UPDATE kiln_api_keys SET revoked_at = NULL WHERE revoked_at IS NOT NULL",
        /cannot become active again/,
      ],
    ],
  ],
]

describe("the database itself refuses", () => {
  const database = sharedEveryState()

  for (const [promise, attempts] of refused)
    describe(promise, () => {
      it.each(attempts.map(([what, sql, message]) => ({ what, sql, message })))("$what", ({ message, sql }) => {
        const { connection } = database()
        const dump = () =>
          ["jobs", "job_data", "checkpoints", "attempts", "files", "charges", "prices", "uploads", "api_keys"].map(
            (table) => connection.prepare(`SELECT * FROM kiln_${table}`).all([]),
          )
        const before = dump()
        // What the database accepts by mistake must not reach the next attempt.
        connection.exec("SAVEPOINT attempt")
        try {
          expect(() => connection.prepare(sql).run([])).toThrow(message)
          expect(dump()).toEqual(before)
        } finally {
          connection.exec("ROLLBACK TO attempt; RELEASE attempt")
        }
      })
    })
})

it.effect(
  "the end of a job writes its charge and clears the steps of one that is done, whichever statement ends it",
  () =>
    Effect.gen(function* () {
      const { connection } = yield* everyState
      connection.exec(job(2, `status = 'failed', error_code = 'x', ${finishing}`))
      connection.exec(`INSERT INTO kiln_checkpoints VALUES (${seqOf(7)}, 'a', '1')`)
      const steps = () => connection.prepare("SELECT step FROM kiln_checkpoints ORDER BY step").all([])
      expect(steps()).toEqual([{ step: "a" }, { step: "reply" }])
      connection.exec(
        job(
          7,
          `status = 'done', output = '{}', charge = '{"currency":"usd","amount":"1.5","lineItems":[{"meter":"images"}]}', ${finishing}`,
        ),
      )
      expect(steps()).toEqual([{ step: "reply" }])
      const bills = connection
        .prepare("SELECT job_id, currency, amount, line_items, charged_at FROM kiln_charges ORDER BY job_id")
        .all([])
      expect(bills).toMatchObject([
        { job_id: fixtures.jobId(6), amount: "0.00015" },
        {
          job_id: fixtures.jobId(7),
          currency: "usd",
          amount: "1.5",
          line_items: '[{"meter":"images"}]',
          charged_at: 9,
        },
      ])
    }),
)

it.effect("charges outlive their jobs, and no new job can be charged under an old id", () =>
  Effect.gen(function* () {
    const { connection } = yield* everyState
    connection.exec(`DELETE FROM kiln_jobs WHERE id = '${fixtures.jobId(6)}'`)
    expect(connection.prepare("SELECT job_id FROM kiln_charges").all([])).toEqual([{ job_id: fixtures.jobId(6) }])
    expect(
      connection
        .prepare("SELECT COUNT(*) AS left FROM kiln_job_data WHERE job_seq NOT IN (SELECT seq FROM kiln_jobs)")
        .all([]),
    ).toEqual([{ left: 0 }])
  }),
)

it.effect("an upload that a failed job releases can be swept, unless another job takes it", () =>
  Effect.gen(function* () {
    const { connection } = yield* everyState
    const left = () =>
      connection
        .prepare("SELECT sweep_at = usable_until AS swept FROM kiln_uploads WHERE id = ?")
        .get([fixtures.uploadId(4)])
    connection.exec(job(10, `status = 'failed', error_code = 'x', ${finishing}`))
    expect(left()).toEqual({ swept: null })
    connection.exec(job(10, "upload_id = NULL"))
    expect(left()).toEqual({ swept: 1 })
  }),
)
