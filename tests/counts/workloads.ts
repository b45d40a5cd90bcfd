import { createEngine, type EmbeddedEngine, jobKind, type StoreAdapter } from "@kiln/core"
import { memoryBlobs } from "@kiln/testing"
import { Effect } from "effect"

/** Jobs of each workload. */
export const jobs = 100

const anything = {
  "~standard": { version: 1 as const, vendor: "kiln-counts", validate: (value: unknown) => ({ value }) },
}

/** A kind whose attempts do nothing. */
const noop = jobKind({ name: "noop", request: anything, run: () => Promise.resolve({ output: {} }) })

type Engine = EmbeddedEngine<typeof noop>

/** Opens an engine whose worker waits for `start`, without sweeps in the way of the counts. */
export const openCounted = (store: StoreAdapter): Promise<Engine> =>
  createEngine({
    store,
    blobs: memoryBlobs(),
    kinds: [noop],
    autoStart: false,
    log: false,
    settings: { concurrency: jobs, limits: { perProject: 0 }, sweepIntervalMs: 3_600_000, pruneIntervalMs: 3_600_000 },
  })

const submit = (engine: Engine, count: number) =>
  Promise.all(Array.from({ length: count }, (_, index) => engine.submit("noop", { index })))

/** Creates the jobs one after the other. */
export const createOneByOne = async (engine: Engine): Promise<void> => {
  for (let index = 0; index < jobs; index += 1) await engine.submit("noop", { index })
}

/** Creates the jobs by 32 callers, each of which waits for its own. */
export const createBy32 = async (engine: Engine): Promise<void> => {
  let left = jobs
  const call = async (): Promise<void> => {
    while (left > 0) {
      left -= 1
      await engine.submit("noop", { index: left })
    }
  }
  await Promise.all(Array.from({ length: 32 }, call))
}

/** Queues the jobs, lets `before` begin to count, and runs them. */
export const drain = async (engine: Engine, before: () => void): Promise<void> => {
  // One exists already.
  await submit(engine, jobs - 1)
  const done = Promise.withResolvers<void>()
  let count = 0
  using _ = engine.on("completed", () => {
    count += 1
    if (count === jobs) done.resolve()
  })
  before()
  await engine.start()
  await done.promise
}

/**
 * Creates the jobs one after the other while the worker is idle. `before` is called before each creation, `after` when its
 * attempt begins.
 */
export const startOneByOne = async (engine: Engine, before: () => void, after: () => void): Promise<void> => {
  await engine.start()
  let ended = Promise.withResolvers<void>()
  using _started = engine.on("active", after)
  using _done = engine.on("completed", () => ended.resolve())
  // The first job is left by the opening, and shows that the worker runs.
  await ended.promise
  for (let index = 0; index < jobs; index += 1) {
    ended = Promise.withResolvers()
    await new Promise((resolve) => void setImmediate(resolve))
    before()
    await engine.submit("noop", { index })
    await ended.promise
  }
}

/** The number of fibers that this process has made so far, this call's own included: they are numbered. */
export const fibersMade = (): number => Effect.runFork(Effect.void).id

export type { Engine }
