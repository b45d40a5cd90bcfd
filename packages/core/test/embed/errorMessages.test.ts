import { createEngine, jobKind, type LogEntry } from "@kiln/core"
import { memoryBlobs, testEngine } from "@kiln/testing"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { everyStore } from "../support/everyStore.ts"

const settings = {
  attempts: { maxFailures: 2, maxLostWorkers: 3, backoffBaseMs: 1, backoffMaxMs: 2, retryAfterMaxMs: 10 },
  pollIntervalMs: 20,
  claimCheckIntervalMs: 50,
} as const

const convert = jobKind({
  name: "convert",
  request: z.object({ page: z.int(), how: z.enum(["told", "silent", "again", "recovers", "second"]) }),
  errorCodes: ["page_missing"],
  run: async ({ attempt, failure, request: { how, page } }) => {
    const publicMessage = `The document has no page ${page}.`
    if (how === "told") throw failure("page_missing", { message: "404", publicMessage })
    if (how === "silent") throw failure("page_missing", { message: "404" })
    if (how === "again") throw failure("page_missing", { publicMessage: `${publicMessage} (${attempt})`, retry: true })
    if (how === "recovers" && attempt === 1) throw failure("page_missing", { publicMessage, retry: true })
    if (how === "second")
      throw attempt === 1 ? failure("page_missing", { publicMessage, retry: true }) : new Error("a secret")
    return { output: {} }
  },
})

describe("what a kind tells the caller of a failed job", () => {
  it.each(everyStore)("is read with the job, and erased with its data (%s)", async (_, open) => {
    const said: Array<LogEntry> = []
    const finished: Array<unknown> = []
    await using opened = await open()
    await using engine = await createEngine({
      store: opened.store,
      blobs: memoryBlobs(),
      kinds: [convert],
      settings,
      log: (entry) => said.push(entry),
      onFinished: ({ job }) => void finished.push(job.status === "failed" ? job.errorMessage : null),
    })
    const job = await engine.submitAndWait("convert", { page: 12, how: "told" })
    expect(job).toMatchObject({
      status: "failed",
      errorCode: "page_missing",
      errorMessage: "The document has no page 12.",
    })
    expect(await engine.get(job)).toMatchObject({ errorMessage: "The document has no page 12." })
    expect(await engine.operator.listAttempts(job)).toMatchObject([{ message: "404" }])
    expect(said.map((entry) => JSON.stringify(entry)).join("\n")).not.toContain("page 12")
    await expect.poll(() => finished, { timeout: 60_000 }).toEqual(["The document has no page 12."])
    await engine.eraseData(job)
    expect(await engine.get(job)).toMatchObject({ errorCode: "page_missing", errorMessage: null })
  })

  it("is that of the attempt that fails the job, and nothing unless the attempt says so", async () => {
    await using engine = await testEngine({ kinds: [convert], settings })
    const told = async (how: "silent" | "again" | "recovers" | "second") => {
      const job = await engine.submit("convert", { page: 3, how })
      return job.status === "failed" ? [job.errorCode, job.errorMessage] : job.status
    }
    expect(await told("silent")).toEqual(["page_missing", null])
    expect(await told("again")).toEqual(["page_missing", "The document has no page 3. (2)"])
    expect(await told("recovers")).toBe("done")
    expect(await told("second")).toEqual(["internal_error", null])
  })

  it("is nothing for a job that failed without an attempt, or with a code that its kind does not declare", async () => {
    const wrong = jobKind({
      name: "wrong",
      request: z.object({}),
      run: async ({ failure }) => {
        throw failure("undeclared" as never, { publicMessage: "never shown" })
      },
    })
    await using engine = await testEngine({ kinds: [wrong] })
    expect(await engine.submit("wrong", {})).toMatchObject({ errorCode: "internal_error", errorMessage: null })
    await using waiting = await testEngine({ kinds: [wrong], mode: "manual" })
    const job = await waiting.submit("wrong", {})
    await waiting.operator.cancel(job)
    expect(await waiting.get(job)).toMatchObject({ errorCode: "canceled_by_operator", errorMessage: null })
  })
})
