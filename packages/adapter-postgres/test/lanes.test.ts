import { Effect, Exit, type Layer, ManagedRuntime } from "effect"
import pg from "pg"
import { describe, expect, it } from "vitest"
import { JobStore } from "@kiln/core/ports"
import { freshDatabase } from "@kiln/postgres-lab"
import { fixtures } from "@kiln/conformance"
import { postgresMigrations, type PostgresOptions, PostgresStores } from "../src/index.ts"

const { newJob, noLimits, projectId, keyId } = fixtures

/** Several processes' stores on one database. */
const openStores = async (count: number, options: Partial<PostgresOptions>) => {
  const database = await freshDatabase()
  await Effect.runPromise(postgresMigrations.apply({ url: database.url }))
  const runtimes = Array.from({ length: count }, () =>
    ManagedRuntime.make(
      PostgresStores.layer({
        url: database.url,
        poolSize: 3,
        notifications: false,
        ...options,
      }) as Layer.Layer<JobStore>,
    ),
  )
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  return {
    client,
    stores: runtimes.map((runtime) => ({
      run: <A>(use: (store: JobStore["Service"]) => Effect.Effect<A, unknown>): Promise<A> =>
        runtime.runPromise(Effect.flatMap(JobStore, use)),
    })),
    [Symbol.asyncDispose]: async () => {
      await client.end()
      await Promise.all(runtimes.map((runtime) => runtime.dispose()))
      await database.dispose()
    },
  }
}

const request = {
  runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" as const }],
  limits: noLimits,
  limit: 5,
  leaseDurationMs: 60_000,
  maxLostWorkers: 3,
}

const claimAndComplete = (store: JobStore["Service"], limit: number) =>
  Effect.gen(function* () {
    const result = yield* store.claimJobs({ ...request, limit })
    yield* store.completeJobs(
      result.claims.map(({ job, token }) => ({
        jobId: job.id,
        token,
        output: {},
        files: [],
        warningCode: null,
        charge: null,
      })),
    )
    return result
  })

/** Makes transactions that add jobs stand for some milliseconds between their last statement and their commit, where others may come in. */
const slowCommits = `
CREATE FUNCTION "kiln".slow_commit() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.003); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER slow_commit AFTER INSERT ON "kiln".queue
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "kiln".slow_commit();
`

/** Two processes add jobs one by one while two others take all there are, so that the lane is set aside and brought back all the time. */
const addAndTake = async (jobs: number, opened: Awaited<ReturnType<typeof openStores>>) => {
  const [first, second, third, fourth] = opened.stores
  if (!first || !second || !third || !fourth) throw new Error("four stores were opened")
  const progress = { adding: 2, done: 0 }
  const add = async (store: typeof first, from: number) => {
    for (let n = from; n < jobs; n += 2) await store.run((verbs) => verbs.createJobs([newJob(n)]))
    progress.adding -= 1
  }
  const take = async (store: typeof first) => {
    while (progress.adding > 0 || progress.done < jobs) {
      const { claims, nextInMs } = await store.run((verbs) => claimAndComplete(verbs, 50))
      progress.done += claims.length
      // Nothing is in progress and the store reports nothing waiting: a job missing now would be missing permanently.
      if (progress.adding === 0 && claims.length === 0 && nextInMs === undefined) return
    }
  }
  await Promise.all([add(first, 0), add(second, 1), take(third), take(fourth)])
  const { rows } = await opened.client.query<{ left: number }>(`SELECT count(*)::int AS left FROM "kiln".queue`)
  return { done: progress.done, left: rows[0]?.left }
}

describe("lanes used by several processes", () => {
  it(
    "never lose sight of a job that is added while other processes find the lane empty",
    { timeout: 120_000 },
    async () => {
      await using opened = await openStores(4, { noteLanesEveryMs: 0 })
      await opened.client.query(slowCommits)
      expect(await addAndTake(600, opened)).toEqual({ done: 600, left: 0 })
    },
  )

  it("would lose jobs if lanes were set aside without their lock", { timeout: 120_000 }, async () => {
    await using opened = await openStores(4, { noteLanesEveryMs: 0 })
    await opened.client.query(slowCommits)
    const { rows } = await opened.client.query<{ definition: string }>(
      `SELECT pg_get_functiondef('"kiln".settle_lanes'::regproc) AS definition`,
    )
    const without = rows[0]?.definition.replace(/ OR NOT pg_try_advisory_xact_lock\(.*\) THEN/, " THEN")
    if (without === undefined || without === rows[0]?.definition) throw new Error("the lock is not where it was")
    await opened.client.query(without)
    expect((await addAndTake(600, opened)).left).toBeGreaterThan(0)
  })

  it("are served in turn by each process, although turns are noted late", { timeout: 180_000 }, async () => {
    const projects = 40
    await using opened = await openStores(2, {})
    const [first, second] = opened.stores
    if (!first || !second) throw new Error("two stores were opened")
    // The first project floods; the others have a job each.
    await first.run((store) => store.createJobs(Array.from({ length: 400 }, (_, n) => newJob(n))))
    for (let p = 2; p <= projects; p += 1)
      await first.run((store) => store.createJobs([newJob(1_000 + p, { projectId: projectId(p), keyId: keyId(p) })]))
    const others = new Set<string>()
    let floods = 0
    for (let round = 0; round < 2 * projects && others.size < projects - 1; round += 1) {
      const { claims } = await (round % 2 === 0 ? first : second).run((store) => claimAndComplete(store, 1))
      for (const { job } of claims) {
        if (job.projectId === projectId(1)) floods += 1
        else others.add(job.projectId)
      }
    }
    expect(others.size).toBe(projects - 1)
    // Each process gives the flood a turn now and then, and no more than that.
    expect(floods).toBeLessThanOrEqual(8)
  })

  it("tell when a delayed job is due although its lane was just found empty, also behind a page of others", async () => {
    await using opened = await openStores(2, {})
    const [first, second] = opened.stores
    if (!first || !second) throw new Error("two stores were opened")
    const jobOf = (n: number, p: number, delayMs = 0) =>
      newJob(n, { projectId: projectId(p), keyId: keyId(p), delayMs })
    const nextInMs = async (store: typeof first) => (await store.run((verbs) => claimAndComplete(verbs, 1))).nextInMs
    await first.run((store) => store.createJobs([jobOf(1, 1)]))
    expect((await first.run((store) => claimAndComplete(store, 5))).claims).toHaveLength(1)
    await first.run((store) => store.createJobs([jobOf(2, 1, 300)]))
    expect(await nextInMs(first)).toBeLessThanOrEqual(300)
    // More lanes than the second store, which knows none of them, looks at once. It empties only the last.
    await first.run((store) => store.createJobs(Array.from({ length: 12 }, (_, p) => jobOf(10 + p, p + 1))))
    expect((await first.run((store) => claimAndComplete(store, 50))).claims.length).toBeGreaterThanOrEqual(12)
    await first.run((store) => store.createJobs([jobOf(3, 1, 400)]))
    expect(await nextInMs(second)).toBeLessThanOrEqual(400)
  })

  it("keep their positions when a claim finds nothing", async () => {
    await using opened = await openStores(1, { noteLanesEveryMs: 0 })
    const [only] = opened.stores
    if (!only) throw new Error("one store was opened")
    await only.run((store) => store.createJobs([newJob(1)]))
    const before = await opened.client.query(`SELECT virtual_time, next_at FROM "kiln".lanes`)
    const exit = await only.run((store) => Effect.exit(store.claimJobs({ ...request, limit: 0 })))
    expect(Exit.isSuccess(exit)).toBe(true)
    expect((await opened.client.query(`SELECT virtual_time, next_at FROM "kiln".lanes`)).rows).toEqual(before.rows)
  })
})
