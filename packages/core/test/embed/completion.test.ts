import { createEngine, type Finished, jobKind, type LogEntry } from "@kiln/core"
import { memoryBlobs, memoryStore, testEngine } from "@kiln/testing"
import { describe, expect, it } from "vitest"
import { z } from "zod"

const seconds = 1_000

/** A kind that fails on demand, and what its `onFinished` was called with. */
const reporting = (act: (finished: Finished) => unknown = () => undefined) => {
  const calls: Array<Finished> = []
  const kind = jobKind({
    name: "digest",
    request: z.object({ to: z.string(), broken: z.boolean().optional() }),
    metadata: ["to"],
    run: async ({ failure, request }) => {
      if (request.broken === true) throw failure("internal_error")
      return { output: { sent: request.to } }
    },
    onFinished: async (finished) => {
      calls.push(finished)
      await act(finished)
    },
  })
  return { calls, kind }
}

const idsOf = (calls: ReadonlyArray<Finished>) => calls.map(({ job }) => job.id)

describe("operator.redeliver", () => {
  it("calls onFinished again, after it was confirmed and after it was given up", async () => {
    let isBroken = false
    const { calls, kind } = reporting(() => {
      if (isBroken) throw new Error("the receiver is down")
    })
    await using kiln = await testEngine({ kinds: [kind] })
    const { id } = await kiln.submit("digest", { to: "ada" })
    await kiln.operator.redeliver(id)
    await kiln.advance(6 * seconds)
    expect(calls.map(({ attempt, job }) => [attempt, job.id])).toEqual([1, 1].map((attempt) => [attempt, id]))
    isBroken = true
    await kiln.operator.redeliver(id)
    await kiln.advance(3 * 86_400 * seconds)
    expect(calls).toHaveLength(12)
    isBroken = false
    await kiln.operator.redeliver(id)
    await kiln.advance(6 * seconds)
    expect(calls.slice(2).map(({ attempt }) => attempt)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1])
  })

  it("refuses a job that is not finished, and one whose kind had no onFinished", async () => {
    const { kind } = reporting()
    const silent = jobKind({ name: "silent", request: z.object({}), run: async () => ({ output: {} }) })
    await using kiln = await testEngine({ kinds: [kind, silent], mode: "manual" })
    const waiting = await kiln.submit("digest", { to: "ada" })
    const refused = { code: "job_not_delivered" }
    await expect(kiln.operator.redeliver(waiting)).rejects.toMatchObject({ ...refused, reason: "unfinished" })
    const done = await kiln.submit("silent", {})
    await kiln.operator.cancel(done)
    await expect(kiln.operator.redeliver(done)).rejects.toMatchObject({ ...refused, reason: "no_handler" })
    await expect(kiln.operator.redeliver("job_none")).rejects.toMatchObject({ code: "job_not_found" })
  })
})

describe("onFinished in a test engine", () => {
  it("is called with the finished job, as `get` returns it, before `submit` resolves", async () => {
    const { calls, kind } = reporting()
    await using kiln = await testEngine({ kinds: [kind] })
    const done = await kiln.submit("digest", { to: "ada" })
    const failed = await kiln.submit("digest", { to: "bob", broken: true })
    expect(calls.map(({ attempt, job }) => [attempt, job])).toEqual([
      [1, await kiln.get(done)],
      [1, await kiln.get(failed)],
    ])
    expect(calls.map(({ job }) => job.status)).toEqual(["done", "failed"])
    expect(calls.map(({ job }) => job.metadata)).toEqual([{ to: "ada" }, { to: "bob" }])
  })

  it("is called for canceled jobs and for jobs that waited too long", async () => {
    const { calls, kind } = reporting()
    await using kiln = await testEngine({ kinds: [kind], mode: "manual", settings: { queueLimitMs: 60 * seconds } })
    const canceled = await kiln.submit("digest", { to: "ada" })
    await kiln.operator.cancel(canceled)
    await kiln.advance(seconds)
    const late = await kiln.submit("digest", { to: "bob" })
    await kiln.advance(61 * seconds)
    expect(calls.map(({ job }) => [job.id, job.status === "failed" && job.errorCode])).toEqual([
      [canceled.id, "canceled_by_operator"],
      [late.id, "queue_timeout"],
    ])
  })

  it("is called again after it failed, with growing pauses, until it succeeds", async () => {
    const at: Array<number> = []
    const { calls, kind } = reporting(({ attempt }) => {
      at.push(kiln.now().getTime())
      if (attempt < 4) throw new Error("the mail server is down")
    })
    await using kiln = await testEngine({ kinds: [kind], settings: {} })
    const { id } = await kiln.submit("digest", { to: "ada" })
    for (let n = 0; n < 300; n++) await kiln.advance(seconds)
    expect(idsOf(calls)).toEqual([id, id, id, id])
    const pauses = at.slice(1).map((time, n) => time - (at[n] ?? 0))
    // 5 s, 20 s, 80 s, up to a fifth shorter, and found at the next whole second.
    expect(pauses.map((pause, n) => pause > 5_000 * 4 ** n * 0.8 && pause <= 5_000 * 4 ** n + seconds)).toEqual([
      true,
      true,
      true,
    ])
  })

  it("is given up after ten calls, with a log entry that names the job", async () => {
    const log: Array<LogEntry> = []
    const { calls, kind } = reporting(() => Promise.reject(new Error("a prompt")))
    await using kiln = await testEngine({ kinds: [kind], log: (entry) => log.push(entry) })
    const { id } = await kiln.submit("digest", { to: "ada" })
    for (let n = 0; n < 96; n++) await kiln.advance(3_600 * seconds)
    expect(calls.map(({ attempt }) => attempt)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    expect(log.filter(({ level }) => level === "error").map(({ message }) => message)).toEqual([
      expect.stringContaining(`onFinished failed 10 times for ${id}`),
    ])
    expect(JSON.stringify(log)).not.toContain("a prompt")
  })

  it("of the engine is called for kinds that have none of their own", async () => {
    const { calls, kind } = reporting()
    const other = jobKind({ name: "other", request: z.object({}), run: async () => ({ output: {} }) })
    const kinds: Array<string> = []
    const store = memoryStore()
    await using engine = await createEngine({
      store,
      blobs: memoryBlobs(),
      kinds: [kind, other],
      log: false,
      onFinished: ({ job }) => kinds.push(job.kind),
    })
    await engine.submitAndWait("digest", { to: "ada" })
    await engine.submitAndWait("other", {})
    await expect.poll(() => [kinds, calls.length], { timeout: 10_000 }).toEqual([["other"], 1])
  })

  it("must be a function", async () => {
    expect(() =>
      jobKind({ name: "a", request: z.object({}), run: async () => ({ output: {} }), onFinished: "x" as never }),
    ).toThrow("onFinished must be a function")
    const options = { store: memoryStore(), blobs: memoryBlobs(), kinds: [], onFinished: {} }
    await expect(createEngine(options as never)).rejects.toThrow("onFinished must be a function")
  })
})

describe("onFinished in real time", () => {
  it("is called by another process than the one that submitted, and once by two", async () => {
    const store = memoryStore()
    const first = reporting()
    const second = reporting()
    const parts = { store, blobs: memoryBlobs(), log: false } as const
    await using one = await createEngine({ ...parts, kinds: [first.kind], autoStart: false })
    await using two = await createEngine({ ...parts, kinds: [second.kind], autoStart: false })
    const jobs = await Promise.all(Array.from({ length: 20 }, (_, n) => one.submit("digest", { to: `${n}` })))
    await Promise.all([one.start(), two.start()])
    const all = () => [...idsOf(first.calls), ...idsOf(second.calls)].toSorted()
    await expect.poll(() => all().length, { timeout: 20_000 }).toBe(20)
    expect(all()).toEqual(jobs.map(({ id }) => id).toSorted())
  })

  it("is aborted when the engine stops, and called again by the next one, as the same attempt", async () => {
    const store = memoryStore()
    const called = Promise.withResolvers<Finished>()
    const hanging = reporting((finished) => {
      called.resolve(finished)
      return new Promise(() => undefined)
    })
    const parts = { store, blobs: memoryBlobs(), log: false } as const
    const stopped = await createEngine({ ...parts, kinds: [hanging.kind] })
    const { id } = await stopped.submit("digest", { to: "ada" })
    const { signal } = await called.promise
    await stopped.stop()
    expect(signal.aborted).toBe(true)
    const again = reporting()
    await using engine = await createEngine({ ...parts, kinds: [again.kind] })
    await expect.poll(() => again.calls.map(({ attempt, job }) => [attempt, job.id])).toEqual([[1, id]])
    await engine.stop()
  })

  it("of a kind whose receiver hangs does not hold up another kind", async () => {
    const hanging = reporting(() => new Promise(() => undefined))
    const answered: Array<string> = []
    const other = jobKind({
      name: "other",
      request: z.object({}),
      run: async () => ({ output: {} }),
      onFinished: ({ job }) => void answered.push(job.id),
    })
    const parts = { store: memoryStore(), blobs: memoryBlobs(), log: false } as const
    await using engine = await createEngine({ ...parts, kinds: [hanging.kind, other] })
    for (let n = 0; n < 30; n++) await engine.submitAndWait("digest", { to: `${n}` })
    await expect.poll(() => hanging.calls.length, { timeout: 10_000 }).toBe(8)
    const { id } = await engine.submitAndWait("other", {})
    // The calls that hang are aborted after 45 s.
    await expect.poll(() => answered, { timeout: 15_000 }).toEqual([id])
    expect(hanging.calls).toHaveLength(8)
  })

  it("is called without pauses while more calls are due than may run at once", async () => {
    const parts = { store: memoryStore(), blobs: memoryBlobs(), log: false } as const
    let running = 0
    let most = 0
    const { calls, kind } = reporting(async () => {
      running += 1
      most = Math.max(most, running)
      await new Promise((resolve) => setTimeout(resolve, 5))
      running -= 1
    })
    await using web = await createEngine({ ...parts, kinds: [kind], worker: false })
    const outcomes = await web.submitMany(
      "digest",
      Array.from({ length: 50 }, () => ({ request: { to: "ada" } })),
    )
    for (const { job } of outcomes) if (job !== undefined) await web.operator.cancel(job)
    await using _worker = await createEngine({ ...parts, kinds: [kind] })
    // Eight at a time with a pause of 5 s between would take half a minute.
    await expect.poll(() => calls.length, { timeout: 4_000 }).toBe(50)
    expect(most).toBe(8)
  })

  it("is not called for jobs that were submitted before the kind had it", async () => {
    const store = memoryStore()
    const parts = { store, blobs: memoryBlobs(), log: false } as const
    const { calls, kind } = reporting()
    const silent = jobKind({
      name: "digest",
      request: z.object({ to: z.string() }),
      run: async ({ request }) => ({ output: { sent: request.to } }),
    })
    const before = await createEngine({ ...parts, kinds: [silent], worker: false })
    await before.submit("digest", { to: "ada" })
    await before.stop()
    await using engine = await createEngine({ ...parts, kinds: [kind] })
    const { id } = await engine.submitAndWait("digest", { to: "bob" })
    await expect.poll(() => idsOf(calls)).toEqual([id])
  })
})
