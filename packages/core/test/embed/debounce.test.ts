import { createEngine, jobKind, type StoreAdapter } from "@kiln/core"
import { memoryStore, testEngine } from "@kiln/testing"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { everyStore } from "../support/everyStore.ts"

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
