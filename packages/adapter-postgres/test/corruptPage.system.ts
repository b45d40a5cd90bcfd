import { closeSync, openSync, writeSync } from "node:fs"
import { join } from "node:path"
import { Effect, type Layer, ManagedRuntime } from "effect"
import pg from "pg"
import { expect, it } from "vitest"
import { JobStore } from "@kiln/core/ports"
import { type Cluster, startCluster } from "@kiln/postgres-lab"
import { fixtures } from "@kiln/conformance"
import { PostgresStores } from "../src/index.ts"

const request = {
  runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" as const }],
  limits: fixtures.noLimits,
  limit: 10,
  leaseDurationMs: 30_000,
  maxLostWorkers: 3,
}

/** Long, and of a kind that the server cannot make short: its bytes stand on pages of their own. */
const longText = Array.from({ length: 3_000 }, (_, n) => ((n * 7_919) % 100_003).toString(36)).join("")

/** Writes over the pages that hold long requests, while the server is down. */
const damage = async (cluster: Cluster): Promise<void> => {
  const client = new pg.Client({ connectionString: cluster.adminUrl.replace(/\/[^/]*$/, "/kiln") })
  await client.connect()
  const { rows } = await client.query<{ path: string }>(
    `SELECT pg_relation_filepath(reltoastrelid) AS path FROM pg_class WHERE oid = '"kiln".jobs'::regclass`,
  )
  await client.query("CHECKPOINT")
  await client.end()
  await cluster.stop("fast")
  const file = openSync(join(cluster.directory, "data", rows[0]?.path ?? ""), "r+")
  writeSync(file, Buffer.alloc(3_000, 0x5a), 0, 3_000, 2_000)
  closeSync(file)
  await cluster.start()
}

it("a damaged page fails its job, and the queue goes on", async () => {
  await using cluster = await startCluster()
  const opened = () => {
    const runtime = ManagedRuntime.make(
      PostgresStores.layer({ url: cluster.url, poolSize: 2, notifications: false }) as Layer.Layer<JobStore>,
    )
    return {
      run: <A>(use: (store: JobStore["Service"]) => Effect.Effect<A, unknown>) =>
        runtime.runPromise(Effect.flatMap(JobStore, use)),
      [Symbol.asyncDispose]: () => runtime.dispose(),
    }
  }
  {
    await using before = opened()
    const jobs = [fixtures.newJob(1), fixtures.newJob(2, { request: { input: longText } }), fixtures.newJob(3)]
    await before.run((store) => store.createJobs(jobs))
  }
  await damage(cluster)
  await using store = opened()
  const claimed: Array<string> = []
  for (let round = 0; round < 3; round += 1)
    for (const { job } of (await store.run((verbs) => verbs.claimJobs(request))).claims) claimed.push(job.id)
  expect(claimed).toEqual([fixtures.jobId(1), fixtures.jobId(3)])
  const client = new pg.Client({ connectionString: cluster.url })
  await client.connect()
  const { rows } = await client.query(`SELECT job_id AS id, error_code FROM "kiln".results WHERE status = 'failed'`)
  await client.end()
  expect(rows).toEqual([{ id: fixtures.jobId(2), error_code: "internal_error" }])
})
