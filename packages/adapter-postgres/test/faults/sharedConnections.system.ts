import { Effect } from "effect"
import pg from "pg"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { freshDatabase } from "@kiln/postgres-lab"
import { fixtures } from "@kiln/conformance"
import type { PostgresOptions } from "../../src/index.ts"
import { openStores, outcomeOf } from "./support/openStores.ts"

const { newJob, noLimits, projectId } = fixtures

const request = (kind: string, limit: number) => ({
  runnable: [{ kind, kindVersion: 1, mode: "sandbox" as const }],
  limits: noLimits,
  limit,
  leaseDurationMs: 30_000,
  maxLostWorkers: 3,
})

let database: Awaited<ReturnType<typeof freshDatabase>>
let client: pg.Client
beforeAll(async () => {
  database = await freshDatabase()
  client = new pg.Client({ connectionString: database.url })
  await client.connect()
})
afterAll(async () => {
  await client.end()
  await database.dispose()
})
const open = (options: Partial<PostgresOptions>) => openStores({ url: database.url, ...options })

/** Somebody else holds what this locks, for as long as the work takes. */
const whileHeld = async <A>(lock: string, work: () => Promise<A>): Promise<A> => {
  await client.query("BEGIN")
  await client.query(lock)
  try {
    return await work()
  } finally {
    await client.query("ROLLBACK")
  }
}

describe("a step that failed", () => {
  it("sends nothing afterwards on a connection that another step uses by then", async () => {
    await using store = await open({ poolSize: 2, noteLanesEveryMs: 0, lockTimeoutMs: 400, retryForMs: 1 })
    const jobs = Array.from({ length: 30 }, (_, n) => newJob(n, { kind: "flood", projectId: projectId(n + 1) }))
    await Effect.runPromise(store.jobs.createJobs(jobs))
    // All lanes but the first are empty and say otherwise: there is much to correct, lane after lane.
    await client.query(`SET session_replication_role = replica;
      DELETE FROM kiln.queue WHERE id <> '${fixtures.jobId(0)}';
      UPDATE kiln.lanes SET next_at = next_at - 1000 WHERE id > 1;
      SET session_replication_role = origin;
      CREATE TABLE kiln.seen (sync text);
      CREATE FUNCTION kiln.see() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO kiln.seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;
      CREATE CONSTRAINT TRIGGER see AFTER INSERT ON kiln.jobs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION kiln.see()`)
    await whileHeld("SELECT FROM kiln.lanes WHERE id = 1 FOR UPDATE", async () => {
      const claim = outcomeOf(store.jobs.claimJobs(request("flood", 1)))
      const creations = Array.from({ length: 4 }, (_, n) =>
        outcomeOf(store.jobs.createJobs([newJob(100 + n, { kind: "other", projectId: projectId(50) })])),
      )
      // Claimed jobs are handed out, although the positions of their lanes could not be saved.
      expect(await claim).toMatchObject({ claims: [{ job: { id: fixtures.jobId(0) } }] })
      await Promise.all(creations)
    })
    // Settling lanes turns durability off for its own transaction, and must not do so for anybody else's.
    const { rows } = await client.query("SELECT sync, count(*)::int FROM kiln.seen GROUP BY 1")
    expect(rows).toEqual([{ sync: "on", count: 4 }])
    await client.query("DROP FUNCTION kiln.see CASCADE; DROP TABLE kiln.seen")
  })

  it("reports its first cause, and is retried if that allows it", async () => {
    await using store = await open({ lockTimeoutMs: 300 })
    const kind = "abandoned"
    await Effect.runPromise(store.jobs.createJobs([newJob(200, { kind })]))
    await Effect.runPromise(store.jobs.claimJobs({ ...request(kind, 1), leaseDurationMs: 1 }))
    const others = [201, 202].map((n) => newJob(n, { kind, projectId: projectId(2) }))
    await Effect.runPromise(store.jobs.createJobs(others))
    // As an erasure holds it. The claim abandons that job in its first round, and is refused while it sends the second.
    await client.query("BEGIN")
    await client.query(`SELECT FROM kiln.jobs WHERE id = '${fixtures.jobId(200)}' FOR NO KEY UPDATE`)
    const claim = outcomeOf(store.jobs.claimJobs({ ...request(kind, 2), maxLostWorkers: 1 }))
    await new Promise((resolve) => setTimeout(resolve, 900))
    await client.query("COMMIT")
    expect(await claim).toMatchObject({ claims: [{}, {}], abandoned: [fixtures.jobId(200)] })
  })
})

describe("settings of a session", () => {
  it("cannot be overridden by the URL", async () => {
    const url = new URL(database.url)
    url.searchParams.set("options", "-c statement_timeout=0 -c synchronous_commit=off -c work_mem=5MB")
    await client.query(`CREATE TABLE kiln.settings (name text, setting text);
      CREATE FUNCTION kiln.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO kiln.settings SELECT name, setting FROM pg_settings
          WHERE name IN ('statement_timeout', 'synchronous_commit', 'work_mem', 'default_transaction_isolation'); RETURN NULL; END $$;
      CREATE TRIGGER note AFTER INSERT ON kiln.projects FOR EACH ROW EXECUTE FUNCTION kiln.note()`)
    await using store = await open({ url: url.href })
    await Effect.runPromise(store.keys.createProject({ id: projectId(9), name: "nine" }))
    const { rows } = await client.query<{ name: string; setting: string }>("SELECT * FROM kiln.settings")
    expect(Object.fromEntries(rows.map(({ name, setting }) => [name, setting]))).toEqual({
      statement_timeout: "10000",
      synchronous_commit: "on",
      work_mem: "5120",
      default_transaction_isolation: "read committed",
    })
  })
})

describe("lanes", () => {
  it("that two transactions insert in opposite order do not deadlock", async () => {
    await using first = await open({ poolSize: 3 })
    await using second = await open({ poolSize: 3 })
    for (let round = 0; round < 8; round += 1) {
      const lanes = Array.from({ length: 60 }, (_, lane) => ({ kind: `round${round}`, projectId: projectId(lane + 1) }))
      const jobs = lanes.map((lane, n) => newJob(10_000 + round * 200 + n, lane))
      const reversed = lanes.toReversed().map((lane, n) => newJob(10_100 + round * 200 + n, lane))
      await Promise.all([
        Effect.runPromise(first.jobs.createJobs(jobs)),
        Effect.runPromise(second.jobs.createJobs(reversed)),
      ])
    }
    const { rows } = await client.query<{ deadlocks: number }>(
      "SELECT deadlocks::int FROM pg_stat_database WHERE datname = current_database()",
    )
    expect(rows[0]?.deadlocks).toBe(0)
  })

  it("that have just been emptied do not hide the one that has jobs, however many they are", async () => {
    await using store = await open({})
    const kind = "burst"
    const jobs = Array.from({ length: 40 }, (_, n) => newJob(20_000 + n, { kind, projectId: projectId(n + 1) }))
    await Effect.runPromise(store.jobs.createJobs(jobs))
    for (let claimed = 0; claimed < jobs.length;) {
      const { claims } = await Effect.runPromise(store.jobs.claimJobs(request(kind, 50)))
      claimed += claims.length
    }
    await Effect.runPromise(store.jobs.createJobs([newJob(21_000, { kind, projectId: projectId(40) })]))
    const startedAt = performance.now()
    let looks = 0
    for (let found = 0; found === 0; looks += 1)
      found = (await Effect.runPromise(store.jobs.claimJobs(request(kind, 1)))).claims.length
    expect(looks).toBeLessThanOrEqual(3)
    expect(performance.now() - startedAt).toBeLessThan(900)
  })
})
