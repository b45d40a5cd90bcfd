import { setTimeout } from "node:timers/promises"
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import type { Claim } from "@kiln/core/ports"
import { freshDatabase } from "@kiln/postgres-lab"
import { fixtures } from "@kiln/conformance"
import { openStores } from "./support/openStores.ts"
import { session } from "./support/session.ts"

const { completionOf, jobId, newJob, noLimits, outputFile } = fixtures
/** Runs a scenario on a database of its own. Returns what happened, and what should. */
const outcome = async (scenario: string) => {
  await using database = await freshDatabase()
  await using stores = await openStores({ url: database.url, poolSize: 2, noteLanesEveryMs: 0 })
  await using other = await session(database.url)
  const run = Effect.runPromise
  const { jobs } = stores

  await run(jobs.createJobs([newJob(1), newJob(2)]))
  const { claims } = await run(
    jobs.claimJobs({
      runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }],
      limits: noLimits,
      limit: 2,
      leaseDurationMs: 60_000,
      maxLostWorkers: 3,
    }),
  )

  /** Whether the database executes a statement. */
  const taken = (statement: string): Promise<string> =>
    other.query(statement).then(
      () => "taken",
      () => "refused",
    )

  const one = `'${jobId(1)}'`
  const leave = `DELETE FROM "kiln".queue WHERE id = ${one}`
  /** Inserts a result of job 1. */
  const result = ({ kind = "kind", token = 2 } = {}) =>
    `INSERT INTO "kiln".results (job_seq, job_id, project_id, kind, mode, created_at, status, token, ran_ms, waited_ms, attempts,
     failures, lost_workers, finished_at, error_code)
   SELECT seq, id, project_id, ${kind}, mode, created_at, 'failed', ${token}, 0, 0, 1, 0, 0, 9, 'internal_error'
   FROM "kiln".jobs WHERE id = ${one}`

  const first = (): Claim => {
    const [claim] = claims
    if (claim === undefined) throw new Error("nothing was claimed")
    return claim
  }

  /** The outcomes of a verb, or that it was a defect. */
  const outcomesOf = async (ends: ReturnType<typeof jobs.completeJobs>): Promise<string> =>
    String(await run(Effect.catchCause(ends, () => Effect.succeed(["refused"]))))

  const complete = () => run(jobs.completeJobs(claims.map((claim) => completionOf(claim))))

  const scenarios: Readonly<Record<string, () => Promise<readonly [found: string, expected: string]>>> = {
    "result without leaving": async () => [await taken(result()), "refused"],
    "leaving without result": async () => [await taken(leave), "refused"],
    "old token": async () => [await taken(`WITH gone AS (${leave}) ${result({ token: 1 })}`), "refused"],
    "another kind": async () => [await taken(`WITH gone AS (${leave}) ${result({ kind: "'other'" })}`), "refused"],
    "changed result": async () => {
      await complete()
      return [await taken(`UPDATE "kiln".results SET attempts = 9 WHERE job_id = ${one}`), "refused"]
    },
    "removed result": async () => {
      await complete()
      return [await taken(`DELETE FROM "kiln".results WHERE job_id = ${one}`), "refused"]
    },
    "deleted while unfinished": async () => [await taken(`DELETE FROM "kiln".jobs WHERE id = ${one}`), "refused"],
    "erased with data": async () => {
      await complete()
      const erase = `UPDATE "kiln".results SET retained = 'deleted', output = NULL WHERE job_id = ${one}`
      return [await taken(erase), "refused"]
    },
    "begun done": async () => {
      const copy = `INSERT INTO "kiln".jobs SELECT (copied).* FROM (SELECT jsonb_populate_record(job,
      '{"id":"job_copy","seq":99,"idempotency_key":"copy"}') AS copied FROM "kiln".jobs AS job WHERE id = ${one}) AS copies RETURNING *`
      const end = `INSERT INTO "kiln".results (job_seq, job_id, project_id, kind, mode, created_at, status, token, ran_ms, waited_ms,
        attempts, failures, lost_workers, finished_at, output)
      SELECT 99, 'job_copy', project_id, kind, mode, created_at, 'done', 1, 0, 0, 0, 0, 0, 1, '{}' FROM "kiln".jobs WHERE id = ${one}`
      return [await taken(`WITH copied AS (${copy}) ${end}`), "refused"]
    },
    "request again": async () => {
      await complete()
      await other.query(`UPDATE "kiln".jobs SET request = NULL WHERE id = ${one}`)
      return [await taken(`UPDATE "kiln".jobs SET request = '{}' WHERE id = ${one}`), "refused"]
    },
    "queued again": async () => {
      const [row] = (await other.query(`SELECT to_jsonb(q)::text AS row FROM "kiln".queue AS q WHERE id = ${one}`)).rows
      await complete()
      const fresh = { ...JSON.parse(String(Object(row).row)), status: "queued", held: false, token: 0 }
      const insert = `INSERT INTO "kiln".queue SELECT * FROM json_populate_record(NULL::"kiln".queue, '${JSON.stringify(fresh)}')`
      return [await taken(insert), "refused"]
    },
    "left checkpoints": async () => {
      const { job, token } = first()
      await run(jobs.checkpointJobs([{ jobId: job.id, token, step: "a", value: 1 }]))
      await complete()
      return [String((await other.query('SELECT FROM "kiln".checkpoints')).rowCount), "0"]
    },
    "stale token": async () => {
      const { job, token } = first()
      return [await outcomesOf(jobs.completeJobs([completionOf({ job, token: token - 1 })])), "LeaseLost"]
    },
    "token of no claim": async () => {
      const { job, token } = first()
      await run(jobs.releaseJobs([{ jobId: job.id, token }]))
      return [await outcomesOf(jobs.completeJobs([completionOf({ job, token: token + 1 })])), "LeaseLost"]
    },
    "repeated end": async () => {
      await complete()
      return [String(await complete()), "Written,Written"]
    },
    "other end": async () => {
      const { job, token } = first()
      await complete()
      return [await outcomesOf(jobs.failJobs([{ jobId: job.id, token, errorCode: "internal_error" }])), "LeaseLost"]
    },
    "files of a repeat": async () => {
      const withFile = (n: number) => jobs.completeJobs([completionOf(first(), { files: [outputFile(first(), n)] })])
      await run(withFile(1))
      const outcomes = await outcomesOf(withFile(2))
      return [`${outcomes}, ${(await other.query('SELECT FROM "kiln".files')).rowCount} file`, "Written, 1 file"]
    },
    "time after the lease": async () => {
      const { job, token } = first()
      await run(jobs.extendLeases([{ jobId: job.id, token, leaseDurationMs: 1 }]))
      const { rows } = await other.query(
        `SELECT claimable_at - phase_started_at AS ran FROM "kiln".queue WHERE id = ${one}`,
      )
      await setTimeout(50)
      await complete()
      const ended = await other.query(`SELECT ran_ms AS ran FROM "kiln".results WHERE job_id = ${one}`)
      return [String(Object(ended.rows[0]).ran), String(Object(rows[0]).ran)]
    },
  }

  return (await scenarios[scenario]?.()) ?? ["", "a scenario"]
}

describe("the end of a job on Postgres", () => {
  it.each([
    "result without leaving",
    "leaving without result",
    "old token",
    "another kind",
    "changed result",
    "removed result",
    "deleted while unfinished",
    "erased with data",
    "begun done",
    "request again",
    "queued again",
    "left checkpoints",
    "stale token",
    "token of no claim",
    "repeated end",
    "other end",
    "files of a repeat",
    "time after the lease",
  ])("%s", async (scenario) => {
    const [found, expected] = await outcome(scenario)
    expect(found).toBe(expected)
  })
})
