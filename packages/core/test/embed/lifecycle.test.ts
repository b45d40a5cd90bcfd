import { createEngine, jobKind, type JobEvent, KilnError, type LogEntry } from "@kiln/core"
import { BlobUnavailable } from "@kiln/core/domain"
import { blobAdapter, BlobStore, JobStore, storeAdapter } from "@kiln/core/ports"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import { Effect, Layer } from "effect"
import { describe, expect, it, vi } from "vitest"
import { z } from "zod"
import { everyStore } from "../support/everyStore.ts"
import { storesWith } from "../support/faults.ts"
import { openWith } from "./support.ts"

const echo = jobKind({
  name: "echo",
  request: z.object({ n: z.number() }),
  run: async ({ request }) => ({ output: request }),
})

const stuck = () => {
  const ends = Promise.withResolvers<void>()
  const seen: Array<string> = []
  const kind = jobKind({
    name: "stuck",
    request: z.object({}),
    run: async ({ signal }) => {
      seen.push("begins")
      signal.addEventListener("abort", () => seen.push("aborted"))
      await ends.promise
      seen.push("ends")
      return { output: {} }
    },
  })
  return {
    kind,
    seen,
    ends,
    begun: () => vi.waitUntil(() => seen.includes("begins"), { timeout: 60_000, interval: 2 }),
  }
}

describe("the life of an engine", () => {
  it("runs nothing until it is started, if autoStart is false", async () => {
    await using engine = await openWith([echo], { autoStart: false })
    const job = await engine.submit("echo", { n: 1 })
    await expect(engine.wait(job, { timeoutMs: 100 })).rejects.toMatchObject({
      code: "wait_timeout",
      name: "WaitTimeout",
      afterMs: 100,
      retryable: true,
    })
    await Promise.all([engine.start(), engine.start()])
    expect(await engine.wait(job)).toMatchObject({ status: "done", output: { n: 1 } })
  })

  it.each(everyStore)("accepts the jobs of calls that began before it stops (%s)", async (_name, open) => {
    await using opened = await open()
    const client = await createEngine({ store: opened.store, kinds: [echo], worker: false, log: false })
    const begin = () => Array.from({ length: 20 }, (_, n) => client.submit("echo", { n }))
    const calls = begin()
    // The statements of these are on their way, those of the others are not.
    await new Promise(setImmediate)
    calls.push(...begin())
    await Promise.all([client.stop(), ...calls])
    await expect(client.submit("echo", { n: 20 })).rejects.toMatchObject({ code: "engine_closed" })
    for (const call of calls) expect(await call).toMatchObject({ kind: "echo", status: "queued" })
  })

  it.each(everyStore)("resolves lists that began before it stops, up to 1,500 jobs each (%s)", async (_name, open) => {
    await using opened = await open()
    const client = await createEngine({ store: opened.store, kinds: [echo], worker: false, log: false })
    const listOf = (count: number) =>
      client.submitMany(
        "echo",
        Array.from({ length: count }, (_, n) => ({ request: { n } })),
      )
    const sent = [listOf(1), listOf(1_500)]
    await new Promise(setImmediate)
    sent.push(listOf(1), listOf(1_500))
    const long = listOf(1_501).catch((error: unknown) => error)
    await client.stop()
    for (const list of sent) for (const { job } of await list) expect(job).toMatchObject({ status: "queued" })
    expect(await long).toMatchObject({ code: "engine_closed" })
  })

  it("lets running jobs finish when it stops", async () => {
    const { begun, ends, kind, seen } = stuck()
    const engine = await openWith([kind])
    await engine.submit("stuck", {})
    await begun()
    const stopping = engine.stop()
    ends.resolve()
    await stopping
    expect(seen).toEqual(["begins", "ends"])
    await expect(engine.get("job_x")).rejects.toMatchObject({ name: "AbortError" })
    await engine.stop()
  })

  it("releases jobs that do not finish within the drain time", async () => {
    const { begun, kind, seen } = stuck()
    const engine = await openWith([kind])
    await engine.submit("stuck", {})
    await begun()
    await expect(engine.wait("job_00000000000000000000000000")).rejects.toMatchObject({ code: "job_not_found" })
    await engine.stop({ drainMs: 20 })
    expect(seen).toEqual(["begins", "aborted"])
  })

  it("stops in bounded time although a store never answers, and another worker takes the job over", async () => {
    let calls = 0
    const stores = await Effect.runPromise(
      Effect.scoped(
        Layer.build(
          storesWith(JobStore, ({ completeJobs }) => ({
            completeJobs: (items) =>
              Effect.suspend(() => ((calls += 1) === 1 ? Effect.uninterruptible(Effect.never) : completeJobs(items))),
          })),
        ),
      ),
    )
    const shared = { store: storeAdapter(Layer.succeedContext(stores)), settings: { leaseDurationMs: 500 } }
    const engine = await openWith([echo], shared)
    const job = await engine.submit("echo", { n: 1 })
    await vi.waitUntil(() => calls === 1, { timeout: 60_000, interval: 2 })
    const stream = engine.events()
    // The time beyond the drain is shortened.
    const setTimer = globalThis.setTimeout
    const timers = vi.spyOn(globalThis, "setTimeout")
    timers.mockImplementation(((run: () => void, ms: number) => setTimer(run, ms === 25_000 ? 50 : ms)) as never)
    const stopping = engine.stop({ drainMs: 0 })
    timers.mockRestore()
    await expect(stopping).rejects.toMatchObject({ name: "StoreUnavailable", operation: "stop" })
    expect(await stream.next()).toMatchObject({ done: true })
    await using other = await openWith([echo], shared)
    expect(await other.wait(job)).toMatchObject({ status: "done", attempts: 2 })
  })

  it("waits until the signal aborts", async () => {
    const { kind } = stuck()
    await using engine = await openWith([kind], { autoStart: false })
    const job = await engine.submit("stuck", {})
    await expect(engine.wait(job, { signal: AbortSignal.abort(new Error("enough")) })).rejects.toThrow("enough")
    const later = new AbortController()
    const waiting = engine.wait(job, { signal: later.signal })
    later.abort(new Error("enough"))
    await expect(waiting).rejects.toThrow("enough")
  })

  it("keeps projects apart if they are given", async () => {
    await using engine = await openWith([echo])
    const job = await engine.submitAndWait("echo", { n: 1 }, { project: "one" })
    expect(await engine.get(job, { project: "one" })).toMatchObject({ status: "done" })
    expect(await engine.get(job)).toMatchObject({ status: "done" })
    const another = { project: "two" }
    for (const verb of [engine.get, engine.wait, engine.eraseData])
      await expect(verb(job, another)).rejects.toMatchObject({ code: "job_not_found", name: "JobNotFound" })
    await expect(engine.submit("echo", { n: 1 }, { project: "no such name" })).rejects.toThrow(TypeError)
    // The same key in two projects names two jobs.
    const key = { idempotencyKey: "k" }
    const [a, b] = [
      await engine.submit("echo", { n: 1 }, { ...key, project: "one" }),
      await engine.submit("echo", { n: 1 }, { ...key, ...another }),
    ]
    expect(a.id).not.toBe(b.id)
    // And so it does in the two modes.
    const live = await engine.submit("echo", { n: 1 }, { ...key, project: "one", mode: "live" })
    expect(live.id).not.toBe(a.id)
  })

  it.each([
    [{ delayMs: -1 }],
    [{ delayMs: Number.NaN }],
    [{ priority: "first" as never }],
    [{ priority: 6 }],
    [{ priority: -6 }],
    [{ priority: 1.5 }],
    [{ priority: Number.NaN }],
    [{ priority: "3" as never }],
  ])("refuses a placement like %o", async (options) => {
    await using engine = await openWith([echo], { autoStart: false })
    await expect(engine.submit("echo", { n: 1 }, options)).rejects.toThrow(TypeError)
  })

  it("runs jobs by priority, and delayed jobs later", async () => {
    const order: Array<number> = []
    let delayedMs = 0
    const kind = jobKind({
      name: "note",
      request: z.object({ n: z.number() }),
      run: async ({ request }) => {
        if (request.n === 5) delayedMs = Date.now() - submittedAt
        else order.push(request.n)
        return { output: {} }
      },
    })
    await using engine = await openWith([kind], { autoStart: false, settings: { concurrency: 1 } })
    const submittedAt = Date.now()
    const jobs = [
      await engine.submit("note", { n: 3 }),
      await engine.submit("note", { n: 4 }, { priority: "low" }),
      await engine.submit("note", { n: 2 }, { priority: "high" }),
      await engine.submit("note", { n: 5 }, { priority: "urgent", delayMs: 300 }),
      await engine.submit("note", { n: 1 }, { priority: "urgent" }),
    ]
    await engine.start()
    await Promise.all(jobs.map((job) => engine.wait(job)))
    expect(order).toEqual([1, 2, 3, 4])
    // On a busy machine the delay may end before the others have run.
    expect(delayedMs).toBeGreaterThanOrEqual(300)
  })

  it("takes numbers as priorities, and names those that have a name", async () => {
    const order: Array<number> = []
    const kind = jobKind({
      name: "note",
      request: z.object({ n: z.number() }),
      run: async ({ request }) => {
        order.push(request.n)
        return { output: {} }
      },
    })
    await using engine = await openWith([kind], { autoStart: false, settings: { concurrency: 1 } })
    const given = [-5, -1, 0, 1, 2, 3, 5]
    const jobs = await Promise.all(given.map((priority, n) => engine.submit("note", { n }, { priority })))
    const named = [-5, "low", "normal", "high", "urgent", 3, 5]
    expect(jobs.map((job) => job.priority)).toEqual(named)
    expect(await Promise.all(jobs.map(async (job) => (await engine.get(job)).priority))).toEqual(named)
    const listed = new Map((await engine.operator.list()).jobs.map(({ id, priority }) => [id, priority]))
    expect(jobs.map(({ id }) => listed.get(id))).toEqual(named)
    // A priority that was read can be given again.
    for (const { priority } of jobs)
      expect((await engine.submit("note", { n: -1 }, { priority, delayMs: 60_000 })).priority).toBe(priority)
    await engine.start()
    await Promise.all(jobs.map((job) => engine.wait(job)))
    expect(order).toEqual([6, 5, 4, 3, 2, 1, 0])
  })

  it("refuses values that are not an adapter, a transaction or a worker", async () => {
    await expect(createEngine({ store: {} as never, blobs: memoryBlobs(), kinds: [echo] })).rejects.toThrow(/"store"/)
    await using engine = await createEngine({
      store: memoryStore(),
      blobs: memoryBlobs(),
      kinds: [echo],
      worker: false,
    })
    await expect(engine.start()).rejects.toThrow("worker: false")
    await expect(engine.submit("echo", { n: 1 }, { transaction: {} as never })).rejects.toThrow(/does not accept/)
    expect(() => engine.submitSync("echo", { n: 1 }, { transaction: {} as never })).toThrow(
      /does not accept synchronous/,
    )
    await expect(engine.submit("other" as never, {} as never)).rejects.toMatchObject({ code: "kind_unknown" })
  })

  it("reports a store that cannot be opened", async () => {
    const away = new BlobUnavailable({ operation: "open", cause: "gone" })
    const blobs = blobAdapter(Layer.effect(BlobStore, Effect.fail(away)))
    const opening = createEngine({ store: memoryStore(), blobs, kinds: [echo] })
    await expect(opening).rejects.toMatchObject({ name: "BlobUnavailable", code: "service_unavailable" })
    await expect(opening).rejects.toBeInstanceOf(KilnError)
  })
})

describe("the log of an engine", () => {
  const failing = jobKind({
    name: "failing",
    request: z.object({}),
    limits: { maxFailures: 1 },
    run: async () => {
      throw new Error("a prompt")
    },
  })

  it("goes to standard error from warnings on, without messages of a kind", async () => {
    const [error, log] = [vi.spyOn(console, "error"), vi.spyOn(console, "log")]
    error.mockImplementation(() => undefined)
    await using engine = await createEngine({ store: memoryStore(), blobs: memoryBlobs(), kinds: [failing] })
    await engine.submitAndWait("failing", {})
    expect(log).not.toHaveBeenCalled()
    const said = error.mock.calls.join("\n")
    vi.restoreAllMocks()
    expect(said).toContain("attempt ended without a result")
    expect(said).not.toContain("a prompt")
  })

  it("goes to a function, or is off", async () => {
    const entries: Array<LogEntry> = []
    await using engine = await openWith([failing], { log: (entry) => entries.push(entry) })
    const { id } = await engine.submitAndWait("failing", {})
    const fields = { jobId: id, projectId: "prj_embedded", attempt: 1 }
    expect(entries).toEqual([expect.objectContaining({ level: "warning", fields, at: expect.any(Date) })])
  })
})

describe("events", () => {
  it("report the life of a job, in order, to callbacks and streams", async () => {
    const failing = jobKind({
      name: "failing",
      request: z.object({}),
      limits: { maxFailures: 2 },
      run: async () => {
        throw new Error("no")
      },
    })
    await using engine = await openWith([echo, failing])
    const heard: Array<JobEvent> = []
    const types = ["queued", "active", "attempt_failed", "completed", "failed", "erased"] as const
    const subscriptions = types.map((type) => engine.on(type, (event) => heard.push(event)))
    const stream = engine.events()
    const job = await engine.submitAndWait("echo", { n: 1 })
    await engine.eraseData(job)
    const failed = await engine.submitAndWait("failing", {})
    const about = { kind: "failing", mode: "sandbox", projectId: "prj_embedded", jobId: failed.id }
    await vi.waitUntil(() => heard.length === 9, { timeout: 60_000, interval: 2 })
    expect(heard.map(({ type }) => type).join(" ")).toBe(
      "queued active completed erased queued active attempt_failed active failed",
    )
    expect(heard[3]).toEqual({ type: "erased", jobId: job.id })
    expect(heard[6]).toMatchObject({ ...about, attempt: 1, errorCode: "internal_error", retryInMs: expect.any(Number) })
    const thrown = { error: expect.objectContaining({ message: "no" }), durationMs: expect.any(Number) }
    expect(heard[6]).toMatchObject(thrown)
    expect(heard[8]).toEqual({ ...about, type: "failed", attempt: 2, errorCode: "internal_error", ...thrown })
    const streamed: Array<JobEvent> = []
    for await (const event of stream) if (streamed.push(event) === 9) break
    expect(streamed).toEqual(heard)
    for (const end of subscriptions) end()
    await engine.submitAndWait("echo", { n: 2 })
    expect(heard).toHaveLength(9)
  })

  it("a listener that throws does not affect others", async () => {
    const log: Array<LogEntry> = []
    await using engine = await openWith([echo], { log: (entry) => log.push(entry) })
    engine.on("active", () => {
      throw new Error("a bug of the listener's")
    })
    const heard: Array<string> = []
    engine.on("active", ({ jobId }) => heard.push(jobId))
    const job = await engine.submitAndWait("echo", { n: 1 })
    expect(job.status).toBe("done")
    expect(heard).toEqual([job.id])
    await vi.waitUntil(() => log.length > 0, { timeout: 60_000, interval: 2 })
    expect(log[0]).toMatchObject({ level: "error", message: expect.stringContaining("a bug of the listener's") })
  })

  it("a stream that is read late has the latest 1,000 events", async () => {
    await using engine = await openWith([echo], { autoStart: false, settings: { queueCap: 0 } })
    const stream = engine.events()
    const jobs = await Promise.all(Array.from({ length: 1_003 }, (_, n) => engine.submit("echo", { n })))
    await stream.return?.()
    const late = engine.events()
    for (const job of jobs) await engine.operator.cancel(job)
    await engine.stop()
    const heard: Array<JobEvent> = []
    for await (const event of late) heard.push(event)
    expect(heard).toHaveLength(1_000)
    expect(heard.at(-1)).toMatchObject({ type: "failed", jobId: jobs.at(-1)?.id })
  })

  it("a stream ends with the engine, with its signal, and when the reader stops", async () => {
    const engine = await openWith([echo])
    const given = new AbortController()
    const [whole, aborted, left] = [engine.events(), engine.events({ signal: given.signal }), engine.events()]
    const ends = Promise.all([whole.next(), aborted.next()])
    given.abort()
    await left.return?.()
    expect(await left.next()).toEqual({ done: true, value: undefined })
    await engine.stop()
    expect(await ends).toEqual([
      { done: true, value: undefined },
      { done: true, value: undefined },
    ])
  })
})
