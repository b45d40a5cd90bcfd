import { createEngine, jobKind, type StoreAdapter } from "@kiln/core"
import { JobStore, storeAdapter } from "@kiln/core/ports"
import { memoryBlobs, memoryStore, testEngine } from "@kiln/testing"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { everyStore } from "../support/everyStore.ts"
import { storesWith } from "../support/faults.ts"

const reindex = jobKind({
  name: "reindex",
  request: z.object({ page: z.string(), text: z.string() }),
  run: async ({ request }) => ({ output: { text: request.text } }),
})
const extend = { by: ["page"], while: "queued", onDuplicate: "extend" } as const
const replace = { ...extend, onDuplicate: "replace" } as const
const minute = 60_000

const open = (store: StoreAdapter = memoryStore(), options: object = {}) =>
  createEngine({ store, kinds: [reindex], log: false, autoStart: false, ...options })

it("a burst delays its one job until the burst has ended", async () => {
  await using kiln = await testEngine({ kinds: [reindex], mode: "manual" })
  const save = (text: string) => kiln.submit("reindex", { page: "a", text }, { delayMs: 5_000, unique: extend })
  const first = await save("k")
  for (const text of ["ki", "kil", "kiln"]) {
    await kiln.advance("4 seconds")
    expect(await kiln.drain()).toBe(0)
    expect(await save(text)).toMatchObject({ id: first.id, deduplicated: true })
  }
  await kiln.advance("5 seconds")
  expect(await kiln.drain()).toBe(1)
  expect(await kiln.get(first)).toMatchObject({ status: "done", output: { text: "k" } })
  // A change after the job has begun makes the next job.
  expect((await save("kilns")).id).not.toBe(first.id)
})

describe.each(everyStore)("a later submission that counts as the same (%s)", (_, openStore) => {
  it("extends the delay, for single calls, lists and calls at once", async () => {
    await using opened = await openStore()
    await using engine = await open(opened.store)
    const submit = (delayMs: number) => engine.submit("reindex", { page: "a", text: "" }, { delayMs, unique: extend })
    const job = await submit(1)
    const [outcome] = await engine.submitMany("reindex", [
      { request: { page: "a", text: "" }, delayMs: 600_000, unique: extend },
    ])
    expect(outcome).toMatchObject({ job: { id: job.id }, deduplicated: true })
    const many = await Promise.all(Array.from({ length: 8 }, () => submit(600_000)))
    expect(new Set(many.map(({ id }) => id))).toEqual(new Set([job.id]))
    expect(await engine.drain({ maxMs: minute })).toMatchObject({ attempts: 0, stoppedBy: "empty" })
    // A shorter delay counts too.
    await submit(0)
    expect(await engine.drain({ maxMs: minute })).toMatchObject({ done: 1 })
    expect((await submit(0)).id).not.toBe(job.id)
  })
})

it.each(everyStore)(
  "every change is seen by an attempt that begins after it, beside a running worker (%s)",
  async (_, openStore) => {
    let clock = 0
    const begun = new Map<string, number>()
    const look = jobKind({
      name: "look",
      request: z.object({}),
      run: async ({ jobId }) => {
        begun.set(jobId, ++clock)
        return { output: {} }
      },
    })
    await using opened = await openStore()
    await using engine = await createEngine({
      store: opened.store,
      kinds: [look],
      log: false,
      settings: { pollIntervalMs: 5 },
    })
    const unique = { by: "all", while: "queued", onDuplicate: "extend" } as const
    const changes = Array.from({ length: 40 }, async (__, n) => {
      await new Promise((resolve) => setTimeout(resolve, 3 * n))
      const changedAt = ++clock
      return { changedAt, job: await engine.submit("look", {}, { delayMs: n % 4, unique }) }
    })
    const all = await Promise.all(changes)
    await Promise.all(all.map(({ job }) => engine.wait(job, { timeoutMs: minute })))
    for (const { changedAt, job } of all) expect(begun.get(job.id)).toBeGreaterThan(changedAt)
    expect(begun.size).toBe(new Set(all.map(({ job }) => job.id)).size)
  },
)

it("a job that begins while its delay is to begin again makes room for a new one", async () => {
  const between = { run: async (): Promise<unknown> => undefined }
  const stores = storesWith(JobStore, ({ rescheduleJobs }) => ({
    rescheduleJobs: (items) =>
      Effect.andThen(
        Effect.promise(() => between.run()),
        rescheduleJobs(items),
      ),
  }))
  await using engine = await open(storeAdapter(stores))
  const submit = (text: string) => engine.submit("reindex", { page: "a", text }, { delayMs: 0, unique: extend })
  const first = await submit("before")
  between.run = () => engine.drain({ maxMs: minute })
  const second = await submit("after")
  expect(second.id).not.toBe(first.id)
  expect(second.deduplicated).toBeUndefined()
  expect(await engine.get(first)).toMatchObject({ status: "done", output: { text: "before" } })
  await between.run()
  expect(await engine.get(second)).toMatchObject({ status: "done", output: { text: "after" } })
})

it("a job that is out of time, which never begins, makes room for a new one at once", async () => {
  const calls = { count: 0 }
  const stores = storesWith(JobStore, ({ createJobs }) => ({
    createJobs: (items) =>
      Effect.andThen(
        Effect.sync(() => calls.count++),
        createJobs(items),
      ),
  }))
  await using engine = await open(storeAdapter(stores), { settings: { queueLimitMs: 100 } })
  const submit = () => engine.submit("reindex", { page: "a", text: "" }, { delayMs: 1, unique: extend })
  const late = await submit()
  await new Promise((resolve) => setTimeout(resolve, 120))
  const next = await submit()
  expect(next.id).not.toBe(late.id)
  expect((await submit()).id).toBe(next.id)
  expect(calls.count).toBe(3)
})

it("with replace, the job of a burst runs with the request of its end", async () => {
  await using kiln = await testEngine({ kinds: [reindex], mode: "manual" })
  const save = (text: string) => kiln.submit("reindex", { page: "a", text }, { delayMs: 5_000, unique: replace })
  const first = await save("k")
  for (const text of ["ki", "kil", "kiln"]) {
    await kiln.advance("4 seconds")
    expect(await kiln.drain()).toBe(0)
    expect(await save(text)).toMatchObject({ id: first.id, deduplicated: true })
  }
  await kiln.advance("5 seconds")
  expect(await kiln.drain()).toBe(1)
  expect(await kiln.get(first)).toMatchObject({ status: "done", output: { text: "kiln" } })
  // A change after the job has begun makes the next job.
  expect((await save("kilns")).id).not.toBe(first.id)
})

describe.each(everyStore)("a later submission that replaces the request (%s)", (_, openStore) => {
  it("gives the job everything of its own, and the keys of both stay bound to it", async () => {
    await using opened = await openStore()
    const seen: Array<object> = []
    const look = jobKind({
      name: "look",
      request: z.object({ page: z.string(), text: z.string().default("none") }),
      run: async ({ metadata, request, tags }) => {
        seen.push({ request, metadata, tags })
        return { output: {} }
      },
    })
    await using engine = await createEngine({ store: opened.store, kinds: [look], log: false, autoStart: false })
    const submit = (text: string, options: object = {}) =>
      engine.submit("look", { page: "a", text }, { unique: replace, tags: [text], ...options })
    const first = await submit("old", { idempotencyKey: "one", delayMs: 600_000, priority: "low" })
    const second = await submit("new", { idempotencyKey: "two", priority: "high", metadata: { order: 7 } })
    expect(second).toMatchObject({ id: first.id, deduplicated: true, tags: ["new"], createdAt: first.createdAt })
    for (const [key, text] of [
      ["one", "old"],
      ["two", "new"],
    ] as const)
      expect((await submit(text, { idempotencyKey: key, delayMs: 600_000 })).id).toBe(first.id)
    await expect(submit("other", { idempotencyKey: "one" })).rejects.toMatchObject({ code: "idempotency_key_reused" })
    const many = await engine.submitMany("look", [
      { request: { page: "a", text: "x" }, unique: replace },
      { request: { page: "b", text: "y" }, unique: replace },
      { request: { page: "a" }, unique: replace, tags: ["last"] },
    ])
    expect(many.map(({ job }) => job?.id === first.id)).toEqual([true, false, true])
    expect(await engine.operator.list({ tags: ["new"] })).toMatchObject({ jobs: [] })
    expect(await engine.drain({ maxMs: minute })).toMatchObject({ done: 2 })
    expect(seen).toHaveLength(2)
    expect(seen).toContainEqual({ request: { page: "a", text: "none" }, metadata: {}, tags: ["last"] })
    // The old request does not come back, and its key has the job of both.
    expect(await submit("old", { idempotencyKey: "one" })).toMatchObject({ id: first.id, status: "done" })
    expect(await engine.drain({ maxMs: minute })).toMatchObject({ attempts: 0 })
  })

  it("gives back the upload before, and charges what the last one reserved", async () => {
    await using opened = await openStore()
    const project = { project: "acme" }
    const listen = jobKind({
      name: "listen",
      request: z.object({ page: z.string(), uploadId: z.string(), words: z.int() }),
      upload: "uploadId",
      price: "svc-words",
      meters: ["words"],
      maxUsage: ({ words }) => ({ words }),
      run: async ({ audio, request: { words } }) => ({ output: { bytes: (await audio()).bytes }, usage: { words } }),
    })
    await using engine = await createEngine({
      store: opened.store,
      blobs: memoryBlobs(),
      kinds: [listen],
      log: false,
      autoStart: false,
      mode: "live",
    })
    await engine.operator.setPrice({ name: "svc-words", currency: "usd", unitAmounts: { words: "0.01" }, active: true })
    await engine.operator.setSpendCap(project, { currency: "usd", day: "1" })
    const uploadOf = async (size: number) => {
      const upload = await engine.createUpload({ format: "wav", declaredSeconds: 1 }, project)
      await engine.receiveUpload(upload, "audio/wav", new TextEncoder().encode("RIFF0000WAVEfmt ".padEnd(size, " ")))
      return upload.id
    }
    const [one, two] = [await uploadOf(20), await uploadOf(30)]
    const submit = (uploadId: string, words: number, page = "a") =>
      engine.submit("listen", { page, uploadId, words }, { unique: replace, ...project })
    const job = await submit(one, 90)
    // Both together would pass the cap.
    expect((await submit(two, 80)).id).toBe(job.id)
    await expect(submit(two, 101)).rejects.toMatchObject({ code: "spend_cap_reached" })
    await expect(submit(two, 1, "b")).rejects.toMatchObject({ code: "upload_already_used" })
    const other = await submit(one, 20, "b")
    expect(await engine.drain({ maxMs: minute })).toMatchObject({ done: 2 })
    expect(await engine.get(job, project)).toMatchObject({
      output: { bytes: 30 },
      billing: { status: "charged", amount: "0.8" },
    })
    expect(await engine.get(other, project)).toMatchObject({ output: { bytes: 20 }, billing: { amount: "0.2" } })
  })
})

it.each(everyStore)(
  "of claims and replacements at once, every job runs one whole request, and none is lost (%s)",
  async (_, openStore) => {
    const ran = new Map<string, Array<number>>()
    const mixed: Array<object> = []
    const look = jobKind({
      name: "look",
      request: z.object({ page: z.string(), n: z.int(), text: z.string() }),
      run: async ({ jobId, metadata, request: { n, text }, tags }) => {
        ran.set(jobId, [...(ran.get(jobId) ?? []), n])
        if (metadata["n"] !== n || tags[0] !== `n${n}` || text !== String(n).repeat(300))
          mixed.push({ n, metadata, tags })
        return { output: {} }
      },
    })
    await using opened = await openStore()
    const settings = { pollIntervalMs: 1 }
    await using engine = await createEngine({ store: opened.store, kinds: [look], log: false, settings })
    const rounds = 100
    const change = async (page: string) => {
      const changes: Array<{ readonly n: number; readonly id: string }> = []
      for (let n = 0; n < rounds; n++) {
        const request = { page, n, text: String(n).repeat(300) }
        const { id } = await engine.submit("look", request, {
          delayMs: n % 3,
          unique: replace,
          tags: [`n${n}`],
          metadata: { n },
          ...(n % 2 === 0 && { idempotencyKey: `${page}-${n}` }),
        })
        changes.push({ n, id })
        if (n % 5 === 0) await new Promise((resolve) => setTimeout(resolve, 1))
      }
      return changes
    }
    const all = (await Promise.all(["a", "b", "c"].map(change))).flat()
    await Promise.all([...new Set(all.map(({ id }) => id))].map((id) => engine.wait(id, { timeoutMs: minute })))
    expect(mixed).toEqual([])
    // The job that took a change runs it, or a later one.
    for (const { id, n } of all) {
      expect(ran.get(id)).toHaveLength(1)
      expect(ran.get(id)?.[0]).toBeGreaterThanOrEqual(n)
    }
    expect(ran.size).toBe(new Set(all.map(({ id }) => id)).size)
  },
)

describe("onDuplicate", () => {
  it("does not work with what it cannot do", async () => {
    await using engine = await open()
    const request = { page: "a", text: "" }
    const given = (unique: object, rest: object = {}) => engine.submit("reindex", request, { unique, ...rest } as never)
    await expect(given({ while: "unfinished", onDuplicate: "extend" })).rejects.toThrow(
      'unique.onDuplicate needs while: "queued"',
    )
    await expect(given({ while: "queued", onDuplicate: "merge" })).rejects.toThrow("unique.onDuplicate")
    // It would wait for itself.
    const waiting = await given(replace)
    await expect(given(replace, { after: [waiting] })).rejects.toThrow("after does not work with")
    expect(await given(extend, { after: [] })).toMatchObject({ id: waiting.id })
    await using kiln = await testEngine({ kinds: [reindex], mode: "manual" })
    const transaction = kiln.beginTransaction()
    await expect(kiln.submit("reindex", request, { unique: extend, transaction })).rejects.toThrow(
      "does not work in a transaction",
    )
  })
})
