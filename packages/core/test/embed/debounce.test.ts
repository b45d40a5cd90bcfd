import { createEngine, jobKind, type StoreAdapter } from "@kiln/core"
import { JobStore, storeAdapter } from "@kiln/core/ports"
import { memoryStore, testEngine } from "@kiln/testing"
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

describe("onDuplicate", () => {
  it("does not work with what it cannot do", async () => {
    await using engine = await open()
    const request = { page: "a", text: "" }
    const given = (unique: object, rest: object = {}) => engine.submit("reindex", request, { unique, ...rest } as never)
    await expect(given({ while: "unfinished", onDuplicate: "extend" })).rejects.toThrow(
      'unique.onDuplicate needs while: "queued"',
    )
    await expect(given({ while: "queued", onDuplicate: "merge" })).rejects.toThrow("unique.onDuplicate")
    await using kiln = await testEngine({ kinds: [reindex], mode: "manual" })
    const transaction = kiln.beginTransaction()
    await expect(kiln.submit("reindex", request, { unique: extend, transaction })).rejects.toThrow(
      "does not work in a transaction",
    )
  })
})
