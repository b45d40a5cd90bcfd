import { createEngine, jobKind } from "@kiln/core"
import { JobStore, storeAdapter, WakeUp } from "@kiln/core/ports"
import { memoryBlobs, MemoryStores } from "@kiln/testing"
import { Context, Effect, Layer } from "effect"
import { afterEach, describe, expect, it, vi } from "vitest"
import { z } from "zod"

// Speed, guarded by counts: they are the same on every machine.

const echo = jobKind({
  name: "echo",
  request: z.object({ n: z.number() }),
  run: async ({ request }) => ({ output: request }),
})

/** Counts what accepting jobs costs, from `open` on. */
const open = async () => {
  const counts = { calls: 0, wakeUps: 0 }
  const stores = Layer.effectContext(
    Effect.gen(function* () {
      const built = yield* Layer.build(Layer.fresh(MemoryStores.layer))
      const store = Context.get(built, JobStore)
      const wakeUp = Context.get(yield* Layer.build(Layer.fresh(WakeUp.layer)), WakeUp)
      const notify = Effect.andThen(
        Effect.sync(() => void (counts.wakeUps += 1)),
        wakeUp.notify,
      )
      return built.pipe(
        Context.add(WakeUp, { ...wakeUp, notify }),
        Context.add(JobStore, {
          ...store,
          createJobs: (jobs) =>
            Effect.suspend(() => {
              counts.calls += 1
              return store.createJobs(jobs)
            }),
        }),
      )
    }),
  )
  const engine = await createEngine({
    store: storeAdapter(stores),
    blobs: memoryBlobs(),
    kinds: [echo],
    worker: false,
    log: false,
    settings: { queueCap: 0, sweepIntervalMs: 60_000, pruneIntervalMs: 60_000 },
  })
  return { counts, engine }
}

/** The number of the next fiber: they are counted from the start of the process. */
const nextFiber = () => Effect.runFork(Effect.void).id

type Submitting = (engine: Awaited<ReturnType<typeof open>>["engine"]) => Promise<unknown>

const measureOnce = async (submitting: Submitting) => {
  const { counts, engine } = await open()
  await engine.submit("echo", { n: 0 })
  const before = { ...counts, fibers: nextFiber() }
  const timers = vi.spyOn(globalThis, "setTimeout")
  const turns = vi.spyOn(globalThis, "setImmediate")
  await submitting(engine)
  const result = {
    calls: counts.calls - before.calls,
    wakeUps: counts.wakeUps - before.wakeUps,
    fibers: nextFiber() - before.fibers - 1,
    timers: timers.mock.calls.length,
    turns: turns.mock.calls.length,
  }
  vi.restoreAllMocks()
  await engine.stop()
  return result
}

/**
 * The least of five measurements. Background work of the process and of the engine, which goes by the clock, only ever adds to a
 * count, and more so on a busy machine.
 */
const measured = async (submitting: Submitting) => {
  const least = await measureOnce(submitting)
  for (let round = 1; round < 5; round += 1) {
    const counts = await measureOnce(submitting)
    for (const name of Object.keys(least) as Array<keyof typeof least>)
      least[name] = Math.min(least[name], counts[name])
  }
  return least
}

afterEach(() => vi.restoreAllMocks())

describe("accepting jobs costs", () => {
  it("a lone caller one call of the store and one fiber, and no timer", async () => {
    const counts = await measured((engine) => engine.submit("echo", { n: 1 }))
    expect(counts).toEqual({ calls: 1, wakeUps: 1, fibers: 1, timers: 0, turns: 1 })
  })

  it("32 callers one call, one fiber and one wake-up for each of their rounds", async () => {
    const counts = await measured(async (engine) => {
      let n = 0
      const caller = async () => {
        while (n < 320) await engine.submit("echo", { n: n++ })
      }
      await Promise.all(Array.from({ length: 32 }, caller))
    })
    expect(counts).toEqual({ calls: 10, wakeUps: 10, fibers: 10, timers: 0, turns: 10 })
  })

  it("a list two fibers, and one call for each 500 jobs", async () => {
    const counts = await measured((engine) =>
      engine.submitMany(
        "echo",
        Array.from({ length: 2_000 }, (_, n) => ({ request: { n } })),
      ),
    )
    expect(counts).toMatchObject({ calls: 4, wakeUps: 4, fibers: 2, timers: 0 })
  })
})
