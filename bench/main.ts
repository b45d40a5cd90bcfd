import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { authorize, type Principal } from "@kiln/core/domain"
import { defaultEngineSettings, Engine, EngineConfig, layerCrypto, layerEngine } from "@kiln/core/effect"
import { JobKind, JobKinds } from "@kiln/core/kinds"
import { type JobStore, MediaProbe, Providers } from "@kiln/core/ports"
import { Worker } from "@kiln/core/worker"
import { PostgresStores } from "@kiln/adapter-postgres"
import { SqliteStores } from "@kiln/adapter-sqlite"
import { startCluster } from "@kiln/postgres-lab"
import { MemoryBlobStore, MemoryStores } from "@kiln/testing"
import { Clock, Effect, Fiber, Layer, Schema } from "effect"

/** Called when an attempt begins. */
let attemptBegan = (): void => undefined

/** A kind that does nothing, so that only the engine is measured. */
const noop = JobKind({
  name: "noop",
  keyScope: "bench",
  request: Schema.Struct({}),
  price: "none",
  switches: [],
  providers: [],
  run: () =>
    Effect.sync(() => {
      attemptBegan()
      return { output: {}, files: [], usage: {} }
    }),
})
const principal: Principal = { keyId: "key_bench", projectId: "prj_bench", mode: "sandbox", scopes: ["bench"] }

const create = (count: number, callers: number, name: string) =>
  Effect.gen(function* () {
    const engine = yield* Engine
    const grant = authorize(principal, "bench")
    if (grant === undefined) return yield* Effect.die("no grant")
    yield* Effect.forEach(
      Array.from({ length: count }, (_, index) => index),
      (index) => engine.createJob(grant, noop, {}, `${name}-${index}`),
      { concurrency: callers, discard: true },
    )
  })

/** Runs all queued jobs through the worker's own loop; returns when the queue is empty. */
const drain = (last: string) =>
  Effect.gen(function* () {
    const worker = yield* Worker
    const engine = yield* Engine
    const running = yield* Effect.forkChild(worker.run)
    const grant = authorize(principal, "bench")
    if (grant === undefined) return yield* Effect.die("no grant")
    const { job } = yield* engine.createJob(grant, noop, {}, last)
    while ((yield* engine.getJob(principal, job.id)).status !== "done") yield* Effect.sleep(1)
    yield* Fiber.interrupt(running)
  })

const timed = Effect.fnUntraced(function* <E, R>(what: string, count: number, work: Effect.Effect<void, E, R>) {
  const started = yield* Clock.monotonicTimeNanos
  yield* work
  const seconds = Number((yield* Clock.monotonicTimeNanos) - started) / 1e9
  console.log(
    `${what.padEnd(34)} ${Math.round(count / seconds)
      .toLocaleString("en")
      .padStart(10)} /s`,
  )
})

/** Runs `work` with an engine and a worker over `store`, as a separate process would have them. */
const inProcess =
  (store: Layer.Layer<JobStore, unknown>) =>
  <A, E>(work: Effect.Effect<A, E, Engine | Worker>): Effect.Effect<A, unknown> =>
    Effect.provide(
      work,
      Worker.layer.pipe(
        Layer.provideMerge(layerEngine),
        Layer.provide(
          Layer.mergeAll(
            store as typeof MemoryStores.layer,
            MemoryBlobStore.layer,
            Layer.succeed(Providers, { sandbox: {}, live: {} }),
            Layer.succeed(MediaProbe, { probe: () => Effect.succeed({ seconds: 1 }) }),
            layerCrypto,
          ),
        ),
        Layer.provide(
          Layer.mergeAll(
            Layer.succeed(JobKinds, [noop]),
            Layer.succeed(EngineConfig, { ...defaultEngineSettings, queueCap: 0, concurrency: 500 }),
          ),
        ),
      ),
    )

/** Measures the time from `createJob` in one process to the attempt in another, in milliseconds, one job at a time on an idle queue. */
const startLatency = (store: Layer.Layer<JobStore, unknown>, jobs: number) =>
  Effect.gen(function* () {
    yield* Effect.forkScoped(inProcess(store)(Effect.flatMap(Worker, (worker) => worker.run)))
    yield* inProcess(store)(
      Effect.gen(function* () {
        yield* create(50, 1, "latency-warm")
        yield* Effect.sleep(1_500)
        const times: Array<number> = []
        for (let n = 0; n < jobs; n += 1) {
          const began = new Promise<number>((resolve) => (attemptBegan = () => resolve(performance.now())))
          const calledAt = performance.now()
          yield* create(1, 1, `latency-${n}`)
          times.push((yield* Effect.promise(() => began)) - calledAt)
          yield* Effect.sleep(20)
        }
        const sorted = times.toSorted((x, y) => x - y)
        const at = (share: number) => (sorted[Math.floor(share * sorted.length)] ?? 0).toFixed(1)
        console.log(`${"submit to start, median / p99".padEnd(34)} ${`${at(0.5)} / ${at(0.99)}`.padStart(10)} ms`)
      }),
    )
  }).pipe(Effect.scoped)

const suite = (store: Layer.Layer<JobStore, unknown>): Effect.Effect<void, unknown> =>
  inProcess(store)(
    Effect.gen(function* () {
      yield* create(500, 32, "warm")
      yield* timed("create, 1 caller", 2_000, create(2_000, 1, "one"))
      yield* timed("create, 32 callers", 20_000, create(20_000, 32, "many"))
      yield* timed("drain", 22_500, drain("last"))
    }).pipe(Effect.scoped),
  )

/** The benchmarks by the name given on the command line. Postgres runs in its own cluster, with fsync on. */
const subjects: Readonly<Record<string, () => Promise<void>>> = {
  sqlite: async () => {
    const directory = mkdtempSync(join(tmpdir(), "kiln-bench-"))
    try {
      await Effect.runPromise(suite(SqliteStores.layer({ path: join(directory, "kiln.db") })))
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  },
  postgres: async () => {
    await using cluster = await startCluster({ fsync: true, settings: { synchronous_commit: "on" } })
    await Effect.runPromise(suite(PostgresStores.layer({ url: cluster.url })))
    await Effect.runPromise(startLatency(PostgresStores.layer({ url: cluster.url }), 200))
  },
  memory: () => Effect.runPromise(suite(MemoryStores.layer)),
}

const asked = process.argv.slice(2)
for (const name of asked.length === 0 ? ["sqlite", "postgres"] : asked) {
  console.log(name)
  const measure = subjects[name]
  if (measure === undefined)
    throw new Error(`unknown benchmark "${name}": expected one of ${Object.keys(subjects).join(", ")}`)
  await measure()
}
