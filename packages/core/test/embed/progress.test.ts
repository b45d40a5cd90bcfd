import { jobKind, type JobEvent } from "@kiln/core"
import { JobKind } from "@kiln/core/kinds"
import { testEngine } from "@kiln/testing"
import { Effect, Schema } from "effect"
import { describe, expect, it, vi } from "vitest"
import { z } from "zod"
import { progressFrom, progressProblem } from "../../src/domain/Progress.ts"
import { openWith } from "./support.ts"

const request = z.object({})

/** A kind whose attempts end when the test says so. */
const held = (report: (progress: (value: number, message?: string) => void, attempt: number) => void) => {
  const ends: Array<(how: "done" | "failed") => void> = []
  const kind = jobKind({
    name: "encode",
    request,
    retry: { backoff: () => 0 },
    run: async ({ attempt, progress }) => {
      report(progress, attempt)
      const how = await new Promise<"done" | "failed">((resolve) => ends.push(resolve))
      progress(1, "about to end")
      if (how === "failed") throw new Error("failed")
      return { output: {} }
    },
  })
  return { kind, end: (how: "done" | "failed") => ends.shift()?.(how) }
}

describe("progress", () => {
  it("is what `get` shows of the latest attempt while it runs, and an event", async () => {
    const { end, kind } = held((progress, attempt) => {
      if (attempt === 1) progress(0.4, "encoding")
    })
    await using engine = await openWith([kind])
    const events: Array<JobEvent> = []
    engine.on("progress", (event) => events.push(event))
    const job = await engine.submit("encode", {})
    expect(job).toMatchObject({ status: "queued", progress: null })
    await vi.waitFor(async () =>
      expect(await engine.get(job)).toMatchObject({
        status: "processing",
        progress: { value: 0.4, message: "encoding" },
      }),
    )
    expect(events).toEqual([
      {
        type: "progress",
        jobId: job.id,
        kind: "encode",
        mode: "sandbox",
        projectId: expect.any(String),
        attempt: 1,
        value: 0.4,
        message: "encoding",
      },
    ])
    end("failed")
    await vi.waitFor(async () => expect(await engine.get(job)).toMatchObject({ attempts: 2, progress: null }))
    end("done")
    const done = await engine.wait(job)
    expect(done.status).toBe("done")
    expect(done).not.toHaveProperty("progress")
    expect(events).toHaveLength(1)
  })

  it("is stored at most once a second, the newest report last", async () => {
    const values: Array<number> = []
    const { end, kind } = held((progress) => {
      for (let n = 0; n <= 500; n++) progress(n / 1_000)
    })
    await using engine = await openWith([kind])
    engine.on("progress", ({ value }) => values.push(value))
    const job = await engine.submit("encode", {})
    const began = Date.now()
    await vi.waitFor(() => expect(values).toHaveLength(2), { timeout: 5_000 })
    expect(Date.now() - began).toBeGreaterThanOrEqual(900)
    expect(values).toEqual([0, 0.5])
    expect(await engine.get(job)).toMatchObject({ progress: { value: 0.5, message: null } })
    end("done")
    await engine.wait(job)
  })

  it("can be reported by kinds with Effect", async () => {
    const latch = Promise.withResolvers<void>()
    const kind = JobKind({
      name: "measure",
      request: Schema.Struct({}),
      output: Schema.Struct({}),
      run: ({ progress }) =>
        Effect.gen(function* () {
          yield* progress(0.7)
          yield* Effect.promise(() => latch.promise)
          return { output: {}, files: [], usage: {} }
        }),
    })
    await using engine = await openWith([kind])
    const job = await engine.submit("measure", {})
    await vi.waitFor(async () =>
      expect(await engine.get(job)).toMatchObject({ progress: { value: 0.7, message: null } }),
    )
    latch.resolve()
    await engine.wait(job)
  })

  it("is the newest report while the job waits for its children", async () => {
    const gate = Promise.withResolvers<void>()
    const clip = jobKind({
      name: "clip",
      request: z.object({ n: z.number() }),
      run: async ({ request: { n } }) => {
        if (n === 2) await gate.promise
        return { output: {} }
      },
    })
    const film = jobKind({
      name: "film",
      request,
      run: async ({ children, progress }) => {
        progress(0.1, "cutting")
        await children("first", clip, [{ n: 1 }])
        progress(0.4, "half")
        progress(0.5, "gluing")
        await children("second", clip, [{ n: 2 }])
        progress(0.9, "polishing")
        return { output: {} }
      },
    })
    await using kiln = await testEngine({ kinds: [film, clip], mode: "manual" })
    const told: Array<number> = []
    kiln.on("progress", ({ value }) => told.push(value))
    await kiln.operator.pause("clip")
    const job = await kiln.submit("film", {})
    await kiln.drain()
    expect(await kiln.get(job)).toMatchObject({ attempts: 0, progress: { value: 0.1, message: "cutting" } })
    await kiln.operator.resume("clip")
    const drained = kiln.drain()
    await vi.waitFor(async () =>
      expect(await kiln.get(job)).toMatchObject({ progress: { value: 0.5, message: "gluing" } }),
    )
    gate.resolve()
    await drained
    expect(await kiln.get(job)).toMatchObject({ status: "done" })
    expect(told.filter((value) => value === 0.5)).toHaveLength(1)
  })

  it("is moved into its range if it is inexact, and cut; anything else is refused", () => {
    expect([-1e-9, 1 + 1e-9, Number.NaN, 0.5].map((value) => progressFrom(value, undefined).value)).toEqual([
      0, 1, 0, 0.5,
    ])
    expect(progressFrom(0, "x".repeat(300)).message).toHaveLength(200)
    expect(progressFrom(0, "a\u0000\ud800").message).toBe("a\ufffd\ufffd")
    for (const value of [50, -1, 1.1, Infinity, "0.5", undefined, 1n])
      expect(progressProblem(value, undefined)).toContain("must be a share from 0 to 1, not")
    expect(progressProblem(0.5, 7)).toBe("the message of progress() must be a string")
    expect(progressProblem(Number.NaN, "none of none")).toBeUndefined()
  })

  it("keeps its checkpoint to itself: a step cannot have its name", async () => {
    const kind = jobKind({
      name: "sly",
      request,
      run: async ({ step }) => ({ output: { value: await step("kiln:progress", async () => 1) } }),
    })
    await using engine = await openWith([kind])
    expect(await engine.submitAndWait("sly", {})).toMatchObject({
      status: "failed",
      errorCode: "internal_error",
      attempts: 1,
    })
  })
})
