import { createEngine, jobKind } from "@kiln/core"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { z } from "zod"

const calls = { transcribe: 0, speak: 0, looks: 0 }

const speech = jobKind({
  name: "speech",
  request: z.object({ part: z.number() }),
  output: z.object({ seconds: z.number() }),
  run: async ({ request }) => {
    calls.speak += 1
    return { output: { seconds: request.part } }
  },
})

const podcast = jobKind({
  name: "podcast",
  request: z.object({ parts: z.number() }),
  output: z.object({ approvedBy: z.string().nullable(), seconds: z.number(), attempt: z.number() }),
  run: async ({ attempt, children, request, sleep, step, waitFor }) => {
    calls.looks += 1
    await step("transcribe", async () => {
      calls.transcribe += 1
      return "text"
    })
    try {
      await sleep("cool down", "40 milliseconds")
      const approved = await waitFor("approved", { timeout: "1 hour", schema: z.object({ by: z.string() }) })
      if (approved.timedOut) return { output: { approvedBy: null, seconds: 0, attempt } }
      const parts = await children(
        "parts",
        speech,
        Array.from({ length: request.parts }, (_, part) => ({ part })),
      )
      const seconds = parts.reduce((sum, part) => sum + (part.status === "done" ? (part.output?.seconds ?? 0) : 0), 0)
      return { output: { approvedBy: approved.value.by, seconds, attempt } }
    } catch (error) {
      // A wait is not an error, so nothing gets here.
      throw new Error("a wait was caught", { cause: error })
    }
  },
})

const reviewed = jobKind({
  name: "reviewed",
  request: z.object({}),
  run: async ({ waitFor }) => {
    await waitFor("approved", { timeout: "1 hour", schema: z.object({ by: z.string() }) })
    return { output: {} }
  },
})

const storeIn = (name: string) => {
  if (name === "memory") return memoryStore()
  const directory = mkdtempSync(join(tmpdir(), "kiln-waits-"))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  return sqliteStore({ path: join(directory, "kiln.db") })
}

const open = (name: string) => {
  Object.assign(calls, { transcribe: 0, speak: 0, looks: 0 })
  return createEngine({ store: storeIn(name), blobs: memoryBlobs(), kinds: [podcast, speech, reviewed], log: false })
}

describe.each(["memory", "SQLite"])("a podcast that is approved, on %s", (name) => {
  it("waits without a slot and without an attempt, and goes on at each event", async () => {
    await using engine = await open(name)
    const job = await engine.submit("podcast", { parts: 5 })
    await expect
      .poll(() => engine.operator.waitingFor(job), { timeout: 10_000 })
      .toMatchObject([{ reason: "signal", subject: "approved" }])
    expect(await engine.get(job)).toMatchObject({ status: "processing", attempts: 0 })
    expect(await engine.signal(job, "approved", { by: "Ada" })).toEqual({ isFirst: true })
    expect(await engine.signal(job, "approved", { by: "Ada" })).toEqual({ isFirst: true })
    expect(await engine.signal(job, "approved", { by: "Eve" })).toEqual({ isFirst: false })
    expect(await engine.wait(job, { timeoutMs: 10_000 })).toMatchObject({
      status: "done",
      attempts: 1,
      output: { approvedBy: "Ada", seconds: 10, attempt: 1 },
    })
    // The start, and one look for each of three events; a last child may end while its parent is being parked.
    expect(calls.looks).toBeLessThanOrEqual(6)
    expect(calls).toMatchObject({ transcribe: 1, speak: 5 })
    await expect(engine.signal(job, "other", 1)).rejects.toMatchObject({ code: "job_finished" })
    expect(await engine.signal(job, "approved", { by: "Ada" })).toEqual({ isFirst: true })
  })

  it("keeps a signal that comes first", async () => {
    await using engine = await open(name)
    const job = await engine.submit("podcast", { parts: 1 }, { delayMs: 50 })
    expect(await engine.signal(job, "approved", { by: "Ada" })).toEqual({ isFirst: true })
    expect(await engine.wait(job, { timeoutMs: 10_000 })).toMatchObject({ output: { approvedBy: "Ada" }, attempts: 1 })
  })

  it("refuses a signal that is too long, or whose name stores cannot keep", async () => {
    await using engine = await open(name)
    const job = await engine.submit("podcast", { parts: 1 }, { delayMs: 60_000 })
    // With its quotation marks.
    const longest = "x".repeat(65_534)
    expect(await engine.signal(job, "longest", longest)).toEqual({ isFirst: true })
    const refused = (signal: string, value: string) =>
      engine.signal(job, signal, value).catch((error: unknown) => error)
    const errors = [{ field: "value", reason: "max_length" }]
    expect(await refused("longer", `${longest}x`)).toMatchObject({ code: "invalid_request", errors })
    for (const wrong of ["", "x".repeat(65), "a\u0000"])
      expect(await refused(wrong, "")).toMatchObject({ code: "invalid_request", errors: [{ field: "name" }] })
    for (let n = 1; n < 100; n++) await engine.signal(job, `s${n}`, n)
    expect(await refused("one more", "")).toMatchObject({ errors: [{ field: "name", reason: "max" }] })
    expect(await engine.signal(job, "s99", 99)).toEqual({ isFirst: true })
  })

  it("fails when a signal does not match its schema", async () => {
    await using engine = await open(name)
    const job = await engine.submit("reviewed", {})
    await engine.signal(job, "approved", { by: 7 })
    expect(await engine.wait(job, { timeoutMs: 10_000 })).toMatchObject({ status: "failed", attempts: 1 })
  })
})

it("a parent that reports no progress shows how many of its children have finished", async () => {
  const gate = Promise.withResolvers<void>()
  const part = jobKind({
    name: "part",
    request: z.object({ n: z.number() }),
    run: async ({ request: { n } }) => {
      if (n >= 3) await gate.promise
      return { output: {} }
    },
  })
  const whole = jobKind({
    name: "whole",
    request: z.object({}),
    run: async ({ children }) => {
      await children(
        "parts",
        part,
        Array.from({ length: 5 }, (_, n) => ({ n })),
      )
      return { output: {} }
    },
  })
  await using engine = await createEngine({
    store: memoryStore(),
    blobs: memoryBlobs(),
    kinds: [whole, part],
    log: false,
  })
  const job = await engine.submit("whole", {})
  await expect
    .poll(async () => (await engine.get(job)) as object, { timeout: 10_000 })
    .toMatchObject({ progress: { value: 0.6, message: "3 of 5" } })
  gate.resolve()
  expect(await engine.wait(job, { timeoutMs: 10_000 })).toMatchObject({ status: "done" })
})
