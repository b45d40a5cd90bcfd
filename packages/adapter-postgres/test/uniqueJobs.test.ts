import { expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { createEngine, jobKind } from "@kiln/core"
import { memoryBlobs } from "@kiln/testing"
import { postgresStore } from "../src/index.ts"
import { begun, connected, emptyDatabase, runSql } from "./support/databases.ts"

const hello = jobKind({
  name: "hello",
  request: {
    "~standard": { version: 1, vendor: "test", validate: (value: unknown) => ({ value: value as { n: number } }) },
  },
  run: async () => ({ output: {} }),
})

const engineOn = (url: string) =>
  Effect.acquireRelease(
    Effect.promise(() =>
      createEngine({
        store: postgresStore({ url, poolSize: 4, notifications: false }),
        blobs: memoryBlobs(),
        kinds: [hello],
        autoStart: false,
        log: false,
        settings: { queueCap: 0 },
      }),
    ),
    (engine) => Effect.promise(() => engine.stop()),
  )

const unique = { by: ["n"], while: "unfinished" } as const
const submissions = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, index) => ({ request: { n: from + index }, unique }))

it.live("any number of unique jobs in a caller's transaction take a few places in the server's table of locks", () =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    const engine = yield* engineOn(url)
    const transaction = yield* begun(url)
    const { locks } = yield* Effect.promise(async () => {
      await engine.submitMany("hello", submissions(0, 400), { transaction })
      await engine.submit("hello", { n: 400 }, { transaction, unique })
      // Other transactions wait for their own scopes only.
      expect(await engine.submit("hello", { n: 401 }, { unique })).toMatchObject({ status: "queued" })
      const held = await transaction.query("SELECT count(*)::int AS locks FROM pg_locks WHERE pid = pg_backend_pid()")
      await transaction.query("COMMIT")
      return held.rows[0] as { readonly locks: number }
    })
    expect(locks).toBeLessThan(100)
    const again = yield* Effect.promise(() => engine.submitMany("hello", submissions(0, 402)))
    expect(again.every((outcome) => "deduplicated" in outcome)).toBe(true)
    expect(yield* runSql(url, "SELECT count(*)::int AS jobs FROM kiln.jobs")).toEqual([{ jobs: 402 }])
  }),
)

it.live("so do jobs of any number of projects, and all of them are claimable after the commit", () =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    const engine = yield* engineOn(url)
    const transaction = yield* begun(url)
    const locks = yield* Effect.promise(async () => {
      const jobs = Array.from({ length: 700 }, (_, n) => ({ request: { n }, project: `tenant-${n}` }))
      await engine.submitMany("hello", jobs, { transaction })
      await engine.submit("hello", { n: 701 }, { transaction, project: "tenant-701" })
      const held = await transaction.query("SELECT count(*)::int AS locks FROM pg_locks WHERE pid = pg_backend_pid()")
      await transaction.query("COMMIT")
      return (held.rows[0] as { readonly locks: number }).locks
    })
    expect(locks).toBeLessThan(400)
    expect(yield* runSql(url, "SELECT count(*)::int AS lanes FROM kiln.lanes WHERE next_at IS NOT NULL")).toEqual([
      { lanes: 701 },
    ])
  }),
)

it.live("a scope that a transaction has taken and not committed is waited for, and free after its rollback", () =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    const engine = yield* engineOn(url)
    const transaction = yield* begun(url)
    yield* Effect.promise(async () => {
      await engine.submit("hello", { n: 1 }, { transaction, unique })
      const waiting = engine.submit("hello", { n: 1 }, { unique })
      const isOpen = Symbol("open")
      const first = await Promise.race([waiting, new Promise((resolve) => setTimeout(resolve, 150, isOpen))])
      expect(first).toBe(isOpen)
      await transaction.query("ROLLBACK")
      expect(await waiting).not.toHaveProperty("deduplicated")
    })
    expect(yield* runSql(url, "SELECT count(*)::int AS scopes FROM kiln.job_scopes WHERE job_seq > 0")).toEqual([
      { scopes: 1 },
    ])
  }),
)

it.live("a refused job leaves no entry of its scope behind", () =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    const engine = yield* Effect.acquireRelease(
      Effect.promise(() =>
        createEngine({
          store: postgresStore({ url, poolSize: 4, notifications: false }),
          blobs: memoryBlobs(),
          kinds: [hello],
          autoStart: false,
          log: false,
          settings: { queueCap: 1 },
        }),
      ),
      (made) => Effect.promise(() => made.stop()),
    )
    yield* Effect.promise(async () => {
      await engine.submit("hello", { n: 1 }, { unique })
      await expect(engine.submit("hello", { n: 2 }, { unique })).rejects.toMatchObject({ code: "queue_full" })
    })
    expect(yield* runSql(url, "SELECT count(*)::int AS scopes FROM kiln.job_scopes")).toEqual([{ scopes: 1 }])
  }),
)

it.live("a process of the previous version, which locks scopes in its own way, is waited for", () =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    const engine = yield* engineOn(url)
    yield* Effect.promise(() => engine.submit("hello", { n: 1 }, { unique }))
    const older = yield* begun(url)
    yield* Effect.promise(async () => {
      await older.query("SELECT pg_advisory_xact_lock(hashtextextended(scope, 0)) FROM kiln.job_scopes")
      const waiting = engine.submit("hello", { n: 1 }, { unique })
      const isOpen = Symbol("open")
      const first = await Promise.race([waiting, new Promise((resolve) => setTimeout(resolve, 150, isOpen))])
      await older.query("COMMIT")
      expect(first).toBe(isOpen)
      expect(await waiting).toMatchObject({ deduplicated: true })
    })
  }),
)

it.live("a claim that began before a request was replaced takes neither the old one nor the new one", () =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    const engine = yield* engineOn(url)
    const claims = yield* begun(url)
    const replace = { by: "all", while: "queued", onDuplicate: "replace" } as const
    // As `take_jobs_in_turn` locks places and reads their jobs, except that its snapshot is half a second older than its locks.
    const claim = `WITH begun AS MATERIALIZED (SELECT pg_sleep(0.5)), head AS MATERIALIZED (
      SELECT queue.job_seq FROM begun CROSS JOIN LATERAL (
        SELECT * FROM kiln.queue WHERE begun IS NOT NULL AND NOT held FOR UPDATE SKIP LOCKED) AS queue)
      SELECT jobs.request FROM head JOIN kiln.jobs ON jobs.seq = head.job_seq`
    const [early, late] = yield* Effect.promise(async () => {
      await engine.submit("hello", { n: 1 }, { unique: replace })
      const before = claims.query(claim)
      await new Promise((resolve) => setTimeout(resolve, 100))
      await engine.submit("hello", { n: 2 }, { unique: replace })
      return [(await before).rows, (await claims.query(claim)).rows]
    })
    expect(early).toEqual([])
    expect(late).toEqual([{ request: '{"n":2}' }])
    yield* Effect.promise(() => claims.query("ROLLBACK"))
  }),
)

/** Replaces requests as a submission of another process does. */
const replaceEach = (
  key: string,
) => `SELECT kiln.replace_job(id, kind_version, upload_id, priority::smallint, kept, ${key}, fingerprint,
  price_id, queue_limit_ms, run_limit_ms, delay_ms, request, NULL, false) FROM kiln.jobs`

it.live("a verb that waits for a replacement finds the job in its new place", () =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    const engine = yield* engineOn(url)
    const replacing = yield* connected(url)
    yield* Effect.promise(async () => {
      const { id } = await engine.submit("hello", { n: 1 }, { delayMs: 60_000 })
      const whileReplaced = async <A>(verb: () => Promise<A>) => {
        await replacing.query("BEGIN")
        await replacing.query(replaceEach("id || clock_timestamp()"))
        const answer = verb()
        await new Promise((resolve) => setTimeout(resolve, 100))
        await replacing.query("COMMIT")
        return answer
      }
      await whileReplaced(() => engine.operator.reschedule(id, { delayMs: 90_000 }))
      await whileReplaced(() => engine.operator.reschedule(id, { priority: "high" }))
      await whileReplaced(() => engine.signal(id, "go", 1))
      await whileReplaced(() => engine.operator.cancel(id))
      expect(await engine.get(id)).toMatchObject({ status: "failed" })
    })
  }),
)

it.live(
  "a caller's transaction whose snapshot is older than a replacement makes no second job for the replaced key",
  () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const engine = yield* engineOn(url)
      const client = yield* connected(url)
      const replace = { by: "all", while: "queued", onDuplicate: "replace" } as const
      yield* Effect.promise(async () => {
        const { id } = await engine.submit("hello", { n: 0 })
        await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM kiln.jobs")
        const job = await engine.submit("hello", { n: 1 }, { unique: replace, idempotencyKey: "one" })
        await engine.submit("hello", { n: 2 }, { unique: replace })
        const repeat = () => engine.submit("hello", { n: 1 }, { transaction: client, idempotencyKey: "one" })
        await expect(repeat()).rejects.toMatchObject({ code: "service_unavailable", cause: { code: "40001" } })
        await client.query("ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        expect(await repeat()).toMatchObject({ id: job.id })
        expect((await engine.submit("hello", { n: 3 }, { transaction: client })).id).not.toBe(id)
        await client.query("COMMIT")
      })
      expect(yield* runSql(url, "SELECT idempotency_key FROM kiln.replaced_keys")).toEqual([{ idempotency_key: "one" }])
    }),
)
