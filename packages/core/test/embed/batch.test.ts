import { createEngine, jobKind, type StoreAdapter } from "@kiln/core"
import { memoryStore, testEngine } from "@kiln/testing"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { everyStore } from "../support/everyStore.ts"

const minute = 60_000

/** A kind whose calls are under the control of the test. `bad` fails alone, and `worse` fails all. */
const embedding = (
  options: { readonly size?: number; readonly waitMs?: number; readonly attemptTimeoutMs?: number } = {},
) => {
  const { attemptTimeoutMs, size = 8, waitMs = minute } = options
  const calls: Array<ReadonlyArray<string>> = []
  const held = { until: Promise.resolve() as Promise<unknown>, began: () => undefined as void }
  const left: Array<string> = []
  const kind = jobKind({
    name: "embed",
    request: z.object({ text: z.string() }),
    output: z.object({ length: z.int() }),
    errorCodes: ["refused"],
    batch: { size, waitMs },
    limits: { maxFailures: 2, ...(attemptTimeoutMs !== undefined && { attemptTimeoutMs }) },
    retry: { backoff: { baseMs: 0, maxMs: 0 } },
    run: async ({ failure, jobs, signal }) => {
      calls.push(jobs.map(({ request }) => request.text))
      for (const job of jobs) job.signal.addEventListener("abort", () => void left.push(job.request.text))
      signal.addEventListener("abort", () => void left.push("all"))
      held.began()
      await held.until
      if (jobs.some(({ request }) => request.text === "worse")) throw failure("refused", { retry: true })
      return jobs.map(({ attempt, request: { text } }) =>
        text === "bad" && attempt === 1 ? failure("refused", { retry: true }) : { output: { length: text.length } },
      )
    },
  })
  /** Holds the next call until the returned function is called. */
  const hold = () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const begun = Promise.withResolvers<void>()
    held.until = promise
    held.began = begun.resolve
    return { begun: begun.promise, release: resolve }
  }
  return { kind, calls, left, hold }
}

type Embedding = ReturnType<typeof embedding>["kind"]

const open = (kind: Embedding, store: StoreAdapter = memoryStore(), options: object = {}) =>
  createEngine({
    store,
    kinds: [kind],
    log: false,
    settings: { concurrency: 8, pollIntervalMs: 5, claimCheckIntervalMs: 20 },
    ...options,
  })

const texts = (count: number) => Array.from({ length: count }, (_, n) => ({ request: { text: "x".repeat(n + 1) } }))

describe.each(everyStore)("a batch (%s)", (_, openStore) => {
  it("is one call for several jobs, each of which ends with its own outcome and is retried alone", async () => {
    await using opened = await openStore()
    const { calls, kind } = embedding({ size: 4 })
    await using engine = await open(kind, opened.store, { autoStart: false })
    const made = await engine.submitMany("embed", [...texts(5), { request: { text: "bad" } }, ...texts(1)])
    expect(await engine.drain({ maxMs: minute })).toMatchObject({ attempts: 8, done: 7, stoppedBy: "empty" })
    expect(calls.map(({ length }) => length)).toEqual([4, 3, 1])
    expect(calls[2]).toEqual(["bad"])
    const ids = made.flatMap(({ job }) => (job === undefined ? [] : [job.id]))
    const ended = await Promise.all(ids.map((id) => engine.get(id)))
    expect(ended.map((job) => job.status === "done" && job.output?.length)).toEqual([1, 2, 3, 4, 5, 3, 1])
  })

  it("loses a job that is canceled, and goes on with the others", async () => {
    await using opened = await openStore()
    const { calls, hold, kind, left } = embedding({ size: 3 })
    await using engine = await open(kind, opened.store)
    const { begun, release } = hold()
    const jobs = await Promise.all(texts(3).map(({ request }) => engine.submit("embed", request)))
    await begun
    // Canceled by another process, which cannot tell the worker.
    await using other = await open(kind, opened.store, { worker: false })
    await other.operator.cancel(jobs[1]!)
    while (left.length === 0) await new Promise((resolve) => setTimeout(resolve, 5))
    release()
    const ends = await Promise.all(jobs.map((job) => engine.wait(job, { timeoutMs: minute })))
    expect(ends.map(({ status }) => status)).toEqual(["done", "failed", "done"])
    expect(left).toEqual(["xx"])
    expect(calls).toHaveLength(1)
  })
})

describe("a batch", () => {
  it("fails with each of its jobs if run throws, and each is retried until its own attempts are used up", async () => {
    const { calls, kind } = embedding({ size: 3 })
    await using engine = await open(kind)
    const jobs = await Promise.all(["a", "worse", "b"].map((text) => engine.submit("embed", { text })))
    const ends = await Promise.all(jobs.map((job) => engine.wait(job, { timeoutMs: minute })))
    expect(ends).toEqual(Array.from({ length: 3 }, () => expect.objectContaining({ errorCode: "refused" })))
    expect(calls.map(({ length }) => length)).toEqual([3, 3])
  })

  it("waits for further jobs no longer than waitMs, and its timeout begins with the call", async () => {
    const { calls, kind } = embedding({ waitMs: 2_000, attemptTimeoutMs: 1_500 })
    await using engine = await open(kind)
    const first = await engine.submit("embed", { text: "a" })
    const second = await engine.submit("embed", { text: "b" })
    const ends = await Promise.all([first, second].map((job) => engine.wait(job, { timeoutMs: minute })))
    expect(ends.map(({ status }) => status)).toEqual(["done", "done"])
    expect(calls).toEqual([["a", "b"]])
  })

  it("that takes too long fails with all of its jobs", async () => {
    const { calls, hold, kind, left } = embedding({ size: 2, attemptTimeoutMs: 20 })
    await using engine = await open(kind)
    hold()
    const jobs = await Promise.all(texts(2).map(({ request }) => engine.submit("embed", request)))
    const ends = await Promise.all(jobs.map((job) => engine.wait(job, { timeoutMs: minute })))
    expect(ends).toEqual(Array.from({ length: 2 }, () => expect.objectContaining({ errorCode: "job_timeout" })))
    expect(calls).toHaveLength(2)
    expect(left.filter((text) => text === "all")).toHaveLength(2)
  })

  it("starts at once when its worker stops, and a stop waits for it", async () => {
    const { calls, hold, kind } = embedding()
    const store = memoryStore()
    const engine = await open(kind, store)
    const { begun, release } = hold()
    const active = Promise.withResolvers<void>()
    engine.on("active", () => active.resolve())
    const job = await engine.submit("embed", { text: "a" })
    await active.promise
    expect(calls).toEqual([])
    const stopped = engine.stop()
    await begun
    release()
    await stopped
    await using later = await open(kind, store, { worker: false })
    expect(await later.get(job)).toMatchObject({ status: "done" })
  })

  it("ends with its last job", async () => {
    const { hold, kind, left } = embedding({ size: 2 })
    await using engine = await open(kind)
    const { begun } = hold()
    const jobs = await Promise.all(texts(2).map(({ request }) => engine.submit("embed", request)))
    await begun
    for (const job of jobs) await engine.operator.cancel(job)
    while (!left.includes("all")) await new Promise((resolve) => setTimeout(resolve, 5))
    expect(left.toSorted()).toEqual(["all", "x", "xx"])
  })

  it("has jobs of one project", async () => {
    const { calls, kind } = embedding()
    await using engine = await open(kind, memoryStore(), { autoStart: false })
    for (const project of ["one", "other", "one"]) await engine.submit("embed", { text: project }, { project })
    await engine.drain({ maxMs: minute })
    expect(calls.map((call) => call.join()).toSorted()).toEqual(["one,one", "other"])
  })

  it("starts once all slots hold jobs that wait for others", async () => {
    const { calls, kind } = embedding({ size: 8 })
    await using engine = await open(kind)
    const jobs = await Promise.all(
      Array.from({ length: 8 }, (_, n) => engine.submit("embed", { text: "a" }, { project: `p${n % 2}` })),
    )
    await Promise.all(jobs.map((job) => engine.wait(job, { timeoutMs: minute })))
    expect(calls.map(({ length }) => length)).toEqual([4, 4])
  })

  it("has one job in a test engine, whose jobs run one at a time", async () => {
    const { calls, kind } = embedding()
    await using kiln = await testEngine({ kinds: [kind] })
    expect(await kiln.submitAndWait("embed", { text: "a" })).toMatchObject({ status: "done", output: { length: 1 } })
    expect(calls).toEqual([["a"]])
  })

  it("charges each job for its own usage", async () => {
    const kind = jobKind({
      name: "priced",
      request: z.object({ tokens: z.int() }),
      price: "tokens",
      meters: ["tokens"],
      batch: { size: 3, waitMs: minute },
      run: async ({ jobs }) => jobs.map(({ request: { tokens } }) => ({ output: {}, usage: { tokens } })),
    })
    await using engine = await createEngine({ store: memoryStore(), kinds: [kind], mode: "live", log: false })
    await engine.operator.setPrice({ name: "tokens", currency: "eur", unitAmounts: { tokens: "2" } })
    const jobs = await Promise.all([1, 2, 3].map((tokens) => engine.submit("priced", { tokens })))
    const ends = await Promise.all(jobs.map((job) => engine.wait(job, { timeoutMs: minute })))
    expect(ends).toMatchObject(["2", "4", "6"].map((amount) => ({ status: "done", billing: { amount } })))
  })

  it.each([
    ["too few outcomes", []],
    ["no list", { output: {} }],
    ["no outcome", [null]],
    ["an outcome without output", [{ length: 1 }]],
  ])("fails its jobs at once for a bug of the kind: %s", async (_, returned) => {
    const bugs: Array<string> = []
    const kind = jobKind({
      name: "bug",
      request: z.object({}),
      batch: { size: 1, waitMs: 0 },
      run: async () => returned as never,
    })
    await using engine = await createEngine({
      store: memoryStore(),
      kinds: [kind],
      log: { to: ({ message }) => void bugs.push(message) },
    })
    const job = await engine.submitAndWait("bug", {}, { timeoutMs: minute })
    expect(job).toMatchObject({ status: "failed", errorCode: "internal_error" })
    expect(bugs.join()).toContain("run ")
  })
})

describe("the option batch", () => {
  const given = (options: object) => () =>
    jobKind({ name: "k", request: z.object({}), run: async () => [], ...options } as never)
  it.each([
    [{ batch: 8 }, 'batch of job kind "k" expects its options as an object'],
    [{ batch: { size: 8 } }, 'job kind "k": batch.waitMs must be a number between 0 and 60000'],
    [{ batch: { size: 0, waitMs: 1 } }, 'job kind "k": batch.size must be an integer between 1 and 1000, not 0'],
    [{ batch: { size: 1.5, waitMs: 1 } }, "batch.size must be an integer"],
    [{ batch: { size: 8, waitMS: 1 } }, 'unknown option "waitMS" in batch of job kind "k"; did you mean "waitMs"?'],
    [{ batch: { size: 8, waitMs: 1 }, files: ["a"] }, "a kind with batch cannot have files"],
    [{ batch: { size: 8, waitMs: 1 }, limits: { concurrency: 4 } }, "batch.size must be at most limits.concurrency, 4"],
  ])("%j is refused", (options, message) => {
    expect(given(options)).toThrow(message)
  })

  it("needs a slot for each job of a batch", async () => {
    const { kind } = embedding({ size: 9 })
    await expect(open(kind)).rejects.toThrow("batch.size must be at most settings.concurrency, 8, not 9")
    const settings = { limits: { perKind: { embed: 2 } } }
    await expect(open(kind, memoryStore(), { settings })).rejects.toThrow('settings.limits.perKind["embed"], 2, not 9')
    await using submits = await open(kind, memoryStore(), { worker: false })
    expect((await submits.submit("embed", { text: "a" })).status).toBe("queued")
  })
})
