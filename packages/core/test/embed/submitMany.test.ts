import { createEngine, type EngineSettings, type JobEvent, jobKind, KilnError } from "@kiln/core"
import { StoreUnavailable } from "@kiln/core/domain"
import { JobStore, storeAdapter } from "@kiln/core/ports"
import { memoryBlobs, MemoryStores } from "@kiln/testing"
import { Context, Effect, Layer } from "effect"
import { describe, expect, it } from "vitest"
import { z } from "zod"

const echo = jobKind({
  name: "echo",
  request: z.object({ n: z.number() }),
  run: async ({ request }) => ({ output: request }),
})

/** What happens around each call of the store that creates jobs: `numbers` are those of its requests. */
type AroundCreate = (numbers: ReadonlyArray<unknown>) => Effect.Effect<void, StoreUnavailable>

/** An engine without a worker, over memory stores; `calls` are the sizes of its calls of `createJobs`. */
const open = async (before: AroundCreate = () => Effect.void, settings: Partial<EngineSettings> = {}) => {
  const calls: Array<number> = []
  const stores = Layer.effectContext(
    Effect.map(Layer.build(Layer.fresh(MemoryStores.layer)), (built) => {
      const store = Context.get(built, JobStore)
      return Context.add(built, JobStore, {
        ...store,
        createJobs: (jobs) =>
          Effect.suspend(() => {
            calls.push(jobs.length)
            return Effect.andThen(before(jobs.map(({ request }) => request["n"])), store.createJobs(jobs))
          }),
      })
    }),
  )
  const engine = await createEngine({
    store: storeAdapter(stores),
    blobs: memoryBlobs(),
    kinds: [echo],
    worker: false,
    log: false,
    settings: { queueCap: 0, ...settings },
  })
  return { engine, calls }
}

const numbered = (length: number) => Array.from({ length }, (_, n) => ({ request: { n } }))

describe("submitMany", () => {
  it("has an outcome for each job, in order", async () => {
    const { engine } = await open()
    const before = await engine.submit("echo", { n: 7 }, { idempotencyKey: "known" })
    const outcomes = await engine.submitMany("echo", [
      { request: { n: 1 }, priority: "high", delayMs: 60_000 },
      { request: { n: "two" as never } },
      { request: { n: 7 }, idempotencyKey: "known" },
      { request: { n: 8 }, idempotencyKey: "known" },
      { request: { n: 5 }, idempotencyKey: "twice" },
      { request: { n: 5 }, idempotencyKey: "twice" },
      { request: { n: 7 }, idempotencyKey: "known", project: "other" },
    ])
    expect(outcomes.map(({ error, replayed }) => error?.code ?? replayed)).toEqual([
      false,
      "invalid_request",
      true,
      "idempotency_key_reused",
      false,
      true,
      false,
    ])
    expect(outcomes[0]?.job).toMatchObject({ kind: "echo", priority: "high", status: "queued" })
    expect(outcomes[2]?.job?.id).toBe(before.id)
    expect(outcomes[5]?.job?.id).toBe(outcomes[4]?.job?.id)
    expect(outcomes[6]?.job?.id).not.toBe(before.id)
    for (const refused of [outcomes[1], outcomes[3]]) expect(refused?.error).toBeInstanceOf(KilnError)
    await engine.stop()
  })

  it("accepts what fits under the queue cap and refuses the rest", async () => {
    const { engine } = await open(undefined, { queueCap: 3 })
    const outcomes = await engine.submitMany("echo", numbered(5))
    expect(outcomes.map(({ error }) => error?.code)).toEqual([
      undefined,
      undefined,
      undefined,
      "queue_full",
      "queue_full",
    ])
    await engine.stop()
  })

  it("stores up to 500 jobs in a call and emits an event for each job", async () => {
    const { calls, engine } = await open()
    const queued: Array<string> = []
    engine.on("queued", ({ jobId }: JobEvent & { type: "queued" }) => queued.push(jobId))
    const outcomes = await engine.submitMany("echo", numbered(1_700))
    expect(calls).toEqual([500, 500, 500, 200])
    expect(queued).toEqual(outcomes.map(({ job }) => job?.id))
    expect(await engine.submitMany("echo", [])).toEqual([])
    await engine.stop()
  })

  it("lets jobs of other callers in between", async () => {
    const { calls, engine } = await open()
    const order: Array<string> = []
    const many = engine.submitMany("echo", numbered(5_000)).then(() => order.push("many"))
    await engine.submit("echo", { n: 0 }).then(() => order.push("one"))
    await many
    expect(order).toEqual(["one", "many"])
    expect(calls.slice(0, 3)).toEqual([500, 500, 500])
    await engine.stop()
  })

  it("stores nothing when an option, the kind or the list is wrong", async () => {
    const { calls, engine } = await open()
    const wrong = [
      engine.submitMany("echo", [{ request: { n: 1 } }, { request: { n: 2 }, priorty: "high" } as never]),
      engine.submitMany("echo", [{ request: { n: 1 } }, { request: { n: 2 }, delayMs: -1 }]),
      engine.submitMany("echo", [{ request: { n: 1 } }, { request: { n: 2 }, idempotencyKey: "a b" }]),
      engine.submitMany("echo", { request: { n: 1 } } as never),
      engine.submitMany("echo", numbered(1), { idempotencyKey: "k" } as never),
      engine.submitMany("echo", numbered(1), { transaction: undefined } as never),
    ]
    for (const rejected of wrong) await expect(rejected).rejects.toThrow(TypeError)
    await expect(engine.submitMany("eco" as never, [])).rejects.toMatchObject({ code: "kind_unknown" })
    expect(calls).toEqual([])
    await engine.stop()
  })

  it("reports a store that fails with the jobs it affects", async () => {
    const down = new StoreUnavailable({ operation: "createJobs", cause: "down" })
    const { engine } = await open((numbers) => (numbers.includes(600) ? Effect.fail(down) : Effect.void))
    const outcomes = await engine.submitMany("echo", numbered(1_200))
    const failed = outcomes.flatMap(({ error }, n) => (error === undefined ? [] : [n]))
    expect(failed).toEqual(Array.from({ length: 500 }, (_, n) => 500 + n))
    expect(outcomes[600]?.error).toBe(down)
    await engine.stop()
  })

  it("rejects with a defect of the store, once the other jobs of the batch are stored", async () => {
    const { engine } = await open((numbers) =>
      numbers.includes(13) ? Effect.die(new RangeError("a bug in the store")) : Effect.void,
    )
    let queued = 0
    engine.on("queued", () => (queued += 1))
    await expect(engine.submitMany("echo", numbered(20))).rejects.toThrow("a bug in the store")
    expect(queued).toBe(19)
    await engine.stop()
  })

  it("stops where it is aborted", async () => {
    const controller = new AbortController()
    const { calls, engine } = await open((numbers) =>
      Effect.sync(() => {
        if (numbers.includes(0)) controller.abort(new Error("enough"))
      }),
    )
    await expect(engine.submitMany("echo", numbered(10_000), { signal: controller.signal })).rejects.toThrow("enough")
    await engine.submit("echo", { n: -1 })
    expect(calls.reduce((sum, size) => sum + size)).toBeLessThanOrEqual(1_501)
    await engine.stop()
  })

  it("a list is refused by an engine that has stopped, and one that is stopping leaves none waiting", async () => {
    const { engine } = await open()
    const long = engine.submitMany("echo", numbered(30_000))
    const stopping = engine.stop()
    await expect(long).rejects.toMatchObject({ name: "AbortError" })
    await stopping
    await expect(engine.submitMany("echo", numbered(1))).rejects.toMatchObject({ name: "AbortError" })
  })

  it("needs a store with transactions for a transaction", async () => {
    const { engine } = await open()
    await expect(engine.submitMany("echo", numbered(1), { transaction: {} as never })).rejects.toThrow(
      "this store does not accept callers' transactions",
    )
    expect(() => engine.submitManySync("echo", numbered(1), { transaction: {} as never })).toThrow(
      "this store does not accept synchronous transactions of callers",
    )
    await engine.stop()
  })
})
