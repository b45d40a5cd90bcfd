import { runInNewContext } from "node:vm"
import { failure, jobKind, type LogEntry, type StandardSchema } from "@kiln/core"
import { embeddedContext } from "@kiln/core/effect"
import { JobDirectory } from "@kiln/core/ports"
import { Context, Effect } from "effect"
import { describe, expect, it } from "vitest"
import * as v from "valibot"
import { z } from "zod"
import { mp3 } from "../support/harness.ts"
import { openWith } from "./support.ts"

const summaryFields = {
  name: "summary",
  request: z.object({ text: z.string().min(1), orderId: z.string() }),
  output: z.object({ summary: z.string() }),
} as const

const summed = { output: { summary: "s" } }

describe("a custom job kind", () => {
  it("runs with the request as its schema decoded it, and returns its declared output", async () => {
    const seen: Array<unknown> = []
    const kind = jobKind({
      name: "shout",
      request: z.object({ text: z.string().trim(), times: z.number().default(2) }),
      output: z.object({ text: z.string() }),
      run: async ({ attempt, failures, kindVersion, mode, request, signal }) => {
        seen.push({ attempt, failures, kindVersion, mode, request, aborted: signal.aborted })
        return { output: { text: request.text.toUpperCase().repeat(request.times) } }
      },
    })
    await using engine = await openWith([kind])
    const job = await engine.submitAndWait("shout", { text: "  ho " })
    expect(job).toMatchObject({ kind: "shout", status: "done", output: { text: "HOHO" }, attempts: 1 })
    expect(seen).toEqual([
      { attempt: 1, failures: 0, kindVersion: 1, mode: "sandbox", request: { text: "ho", times: 2 }, aborted: false },
    ])
  })

  it("takes schemas of any vendor, and lists the invalid fields", async () => {
    const kind = jobKind({
      name: "valid",
      request: v.object({ a: v.number(), b: v.string() }),
      run: async () => ({ output: {} }),
    })
    await using engine = await openWith([kind])
    await expect(engine.submit("valid", { a: "secret" } as never)).rejects.toMatchObject({
      code: "invalid_request",
      name: "InvalidRequest",
      errors: [
        { field: "a", reason: "type" },
        { field: "b", reason: "required" },
      ],
    })
    for (const none of [null, "text", [], { a: 1n, b: "x" }, { a: Number.NaN, b: "" }])
      await expect(engine.submit("valid", none as never)).rejects.toMatchObject({ code: "invalid_request" })
  })

  it("refuses an asynchronous schema", async () => {
    const kind = jobKind({
      name: "slow",
      request: v.pipeAsync(
        v.object({ a: v.number() }),
        v.checkAsync(() => Promise.resolve(true)),
      ) as never,
      run: async () => ({ output: {} }),
    })
    await using engine = await openWith([kind])
    await expect(engine.submit("slow", { a: 1 } as never)).rejects.toThrow(/synchronously/)
  })

  it.each<[string, (value: unknown) => unknown]>([
    ["a promise", () => Promise.resolve({ value: {} })],
    ["a promise of another realm", () => runInNewContext("Promise.resolve({ value: {} })")],
    ["a promise that fails", () => Promise.reject(new Error("no"))],
    // oxlint-disable-next-line unicorn/no-thenable -- the test needs a thenable that is not a promise
    ["something like a promise", () => ({ then: (told: (value: unknown) => void) => told({ value: {} }) })],
    ["nothing", () => undefined],
    ["text from the request", (value) => JSON.stringify(value)],
    ["neither a value nor issues", () => ({})],
    ["issues of null", () => ({ issues: null })],
  ])("rejects the result of a schema that returns %s", async (_, validate) => {
    const schema = { "~standard": { version: 1, vendor: "own", validate } } as StandardSchema<unknown, object>
    const kind = jobKind({
      name: "slow",
      request: z.object({}),
      output: schema,
      limits: { maxFailures: 1 },
      run: async () => ({ output: { not: "looked at" } }),
    })
    const told: Array<LogEntry> = []
    await using engine = await openWith([kind], { log: (entry) => told.push(entry) })
    expect(await engine.submitAndWait("slow", {})).toMatchObject({ status: "failed", errorCode: "internal_error" })
    const said = "a schema must return its result synchronously"
    expect(told.map(({ message }) => message).join("\n")).toContain(said)
    const asked = jobKind({ name: "asked", request: schema, run: async () => ({ output: {} }) })
    await using other = await openWith([asked])
    const refused = await other.submit("asked", { text: "a secret" }).catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(TypeError)
    expect(String(refused)).toContain(said)
    expect(String(refused)).not.toContain("secret")
  })

  it("keeps the results of steps, and repeats only the step that failed", async () => {
    const made: Array<string> = []
    const kind = jobKind({
      ...summaryFields,
      files: ["audio"],
      providers: ["reply", "speech"],
      run: async ({ ask, attempt, writeFile, request, step }) => {
        const reply = await step("reply", async () => {
          made.push("reply")
          return (await ask.reply({ text: request.text, instructions: undefined, maxOutputTokens: 10 })).text
        })
        await writeFile("audio", async () => {
          made.push(`audio ${attempt}`)
          if (attempt < 3) throw new Error("the speaker is busy")
          return ask.speech({ text: reply, voice: "v" })
        })
        return { output: { summary: reply } }
      },
    })
    await using engine = await openWith([kind])
    const job = await engine.submitAndWait("summary", { text: "long", orderId: "o1" })
    if (job.status !== "done" || job.output === null) throw new Error(`unexpected ${job.status}`)
    expect(job.output.summary).toBe("hi there")
    expect([...(await engine.readFile(job.output.audio))]).toEqual([...mp3.data])
    expect(made).toEqual(["reply", "audio 1", "audio 2", "audio 3"])
    expect(job.attempts).toBe(3)
  })

  it.each([
    { settles: false, runs: 2 },
    { settles: true, runs: 1 },
  ])(
    "runs a step again if another one fails beside it, unless both are settled: $settles",
    async ({ runs, settles }) => {
      let paid = 0
      const kind = jobKind({
        name: "parallel",
        request: z.object({}),
        retry: { backoff: () => 0 },
        run: async ({ attempt, step }) => {
          const steps = [
            step("paid", async () => {
              paid += 1
              await new Promise((resolve) => setTimeout(resolve, 50))
            }),
            step("busy", async () => {
              if (attempt === 1) throw new Error("busy")
            }),
          ]
          if (settles) await Promise.allSettled(steps)
          await Promise.all(steps)
          return { output: {} }
        },
      })
      await using engine = await openWith([kind])
      expect(await engine.submitAndWait("parallel", {})).toMatchObject({ status: "done", attempts: 2 })
      expect(paid).toBe(runs)
    },
  )

  it("fails after its maximum number of failures, or immediately if the error says so", async () => {
    let attempts = 0
    const failing = jobKind({
      name: "failing",
      request: z.object({ how: z.enum(["throw", "refuse", "again"]) }),
      limits: { maxFailures: 2 },
      run: async ({ request }) => {
        attempts += 1
        if (request.how === "throw") throw new Error("secret")
        throw failure("content_rejected", { message: "not nice", retry: request.how === "again" })
      },
    })
    await using engine = await openWith([failing])
    const endOf = async (how: "throw" | "refuse" | "again") => {
      attempts = 0
      const job = await engine.submitAndWait("failing", { how })
      return [job.status === "failed" ? job.errorCode : job.status, attempts]
    }
    expect(await endOf("throw")).toEqual(["internal_error", 2])
    expect(await endOf("refuse")).toEqual(["content_rejected", 1])
    expect(await endOf("again")).toEqual(["content_rejected", 2])
  })

  it("keeps the fields in `metadata` when the rest is erased", async () => {
    const kind = jobKind({ ...summaryFields, metadata: ["orderId"], run: async () => ({ output: { summary: "s" } }) })
    await using engine = await openWith([kind])
    const job = await engine.submitAndWait("summary", { text: "private", orderId: "o1" })
    expect(job.metadata).toEqual({ orderId: "o1" })
    await engine.eraseData(job)
    const erased = await engine.get(job)
    expect(erased).toMatchObject({ status: "done", output: null, metadata: { orderId: "o1" } })
    expect(JSON.stringify(erased)).not.toContain("private")
  })

  it("is charged by its own meters, or nothing without a price", async () => {
    const priced = jobKind({
      ...summaryFields,
      price: "summaries",
      meters: ["pages"],
      run: async () => ({ output: { summary: "s" }, usage: { pages: 3 } }),
    })
    const free = jobKind({ name: "free", request: z.object({}), run: async () => ({ output: {} }) })
    await using engine = await openWith([priced, free])
    const live = { mode: "live" } as const
    await expect(engine.submit("summary", { text: "t", orderId: "o" }, live)).rejects.toMatchObject({
      code: "live_not_active",
      missing: ["price:summaries"],
    })
    await engine.operator.setPrice({ name: "summaries", currency: "eur", unitAmounts: { pages: "0.015" } })
    expect((await engine.submitAndWait("summary", { text: "t", orderId: "o" }, live)).billing).toEqual({
      status: "charged",
      currency: "eur",
      amount: "0.045",
      lineItems: [{ meter: "pages", quantity: 3, unitAmount: "0.015", amount: "0.045" }],
    })
    for (const mode of ["live", "sandbox"] as const) {
      const free = await engine.submitAndWait("free", {}, { mode })
      expect(free.status).toBe("done")
      expect(Object.keys(free)).not.toEqual(expect.arrayContaining(["billing"]))
      expect(Object.keys(free)).not.toEqual(expect.arrayContaining(["mode"]))
    }
  })

  it("fixes its limits when a job is accepted, or the engine's if it has none", async () => {
    const limits = { queueLimitMs: 1_111, runLimitMs: 2_222 }
    const kind = jobKind({ name: "bounded", request: z.object({}), limits, run: async () => ({ output: {} }) })
    const other = jobKind({ name: "other", request: z.object({}), run: async () => ({ output: {} }) })
    const settings = { queueLimitMs: 3_333, runLimitMs: 4_444 }
    await using engine = await openWith([kind, other], { autoStart: false, settings })
    const ids = [(await engine.submit("bounded", {})).id, (await engine.submit("other", {})).id]
    const jobs = await Effect.runPromise(Context.get(embeddedContext(engine), JobDirectory).readJobs(ids))
    expect(jobs).toEqual([expect.objectContaining(limits), expect.objectContaining(settings)])
  })

  it("may return a warning", async () => {
    const kind = jobKind({
      name: "warns",
      request: z.object({}),
      run: async () => ({ output: {}, warningCode: "output_truncated" }),
    })
    await using engine = await openWith([kind])
    expect(await engine.submitAndWait("warns", {})).toMatchObject({ status: "done", warningCode: "output_truncated" })
  })

  it("runs `sandbox` for sandbox jobs if it is given", async () => {
    const kind = jobKind({
      name: "outside",
      request: z.object({}),
      run: async () => ({ output: { from: "outside" } }),
      sandbox: async () => ({ output: { from: "sandbox" } }),
    })
    await using engine = await openWith([kind])
    expect(await engine.submitAndWait("outside", {})).toMatchObject({ output: { from: "sandbox" } })
    expect(await engine.submitAndWait("outside", {}, { mode: "live" })).toMatchObject({ output: { from: "outside" } })
  })

  it.each([
    [
      "an output that is another",
      { output: { summary: 1 } as never },
      "result_invalid",
      "the output does not match its schema: output.summary",
    ],
    [
      "an output that is not JSON",
      { output: { summary: 1n } as never },
      "internal_error",
      "output.summary: bigint is not JSON",
    ],
    [
      "a meter that it does not declare",
      { ...summed, usage: { pages: 1 } },
      "internal_error",
      "a meter that the kind does not declare",
    ],
    [
      "half a unit",
      { ...summed, usage: { images: 0.5 } },
      "internal_error",
      "usage.images must be a non-negative integer",
    ],
    [
      "less than nothing",
      { ...summed, usage: { images: -1 } },
      "internal_error",
      "usage.images must be a non-negative integer",
    ],
  ])("fails with %s and logs it", async (_, outcome, errorCode, said) => {
    const kind = jobKind({ ...summaryFields, limits: { maxFailures: 1 }, run: async () => outcome as typeof summed })
    const told: Array<LogEntry> = []
    await using engine = await openWith([kind], { log: (entry) => told.push(entry) })
    expect(await engine.submitAndWait("summary", { text: "t", orderId: "o" })).toMatchObject({
      status: "failed",
      errorCode,
    })
    expect(told.map(({ message }) => message).join("\n")).toContain(said)
  })

  it.each([
    ["what JSON does not carry", 1n, "a value that is not JSON. value: bigint is not JSON"],
    ["too much", "x".repeat(4_194_304), "a value of 4194306 characters of JSON; the limit is 4194304"],
  ])("logs a step that returns %s", async (_, value, said) => {
    const kind = jobKind({
      name: "steps",
      request: z.object({}),
      limits: { maxFailures: 1 },
      run: async ({ step }) => ({ output: { value: await step("first", async () => value as never) } }),
    })
    const told: Array<LogEntry> = []
    await using engine = await openWith([kind], { log: (entry) => told.push(entry) })
    expect(await engine.submitAndWait("steps", {})).toMatchObject({ status: "failed", errorCode: "internal_error" })
    expect(told.map(({ message }) => message).join("\n")).toContain(`KindBug: step("first") returned ${said}`)
  })

  it("fails with its original error, even if code on the way changed the message", async () => {
    const kind = jobKind({
      name: "refuses",
      request: z.object({}),
      run: async () => {
        const refused = failure("content_rejected", { message: "no" })
        expect(refused.message).toBe("no")
        refused.message = `while at work: ${refused.message}`
        expect(String(refused)).toContain("while at work: no")
        throw refused
      },
    })
    await using engine = await openWith([kind])
    expect(await engine.submitAndWait("refuses", {})).toMatchObject({ errorCode: "content_rejected", attempts: 1 })
  })

  it("fails without its declared files", async () => {
    const kind = jobKind({
      ...summaryFields,
      files: ["audio"],
      limits: { maxFailures: 1 },
      run: async () => ({ output: { summary: "s" } }),
    })
    await using engine = await openWith([kind])
    const job = await engine.submitAndWait("summary", { text: "t", orderId: "o" })
    expect(job).toMatchObject({ status: "failed", errorCode: "internal_error" })
  })

  it("runs at most as many jobs at once as its limit", async () => {
    let running = 0
    let most = 0
    const kind = jobKind({
      name: "narrow",
      request: z.object({ n: z.number() }),
      limits: { concurrency: 2 },
      run: async () => {
        most = Math.max(most, ++running)
        await new Promise((resolve) => {
          setTimeout(resolve, 5)
        })
        running -= 1
        return { output: {} }
      },
    })
    await using engine = await openWith([kind])
    await Promise.all(Array.from({ length: 9 }, (_, n) => engine.submitAndWait("narrow", { n })))
    expect(most).toBe(2)
  })

  it.each([
    ["a limit of nothing", { limits: { runLimitMs: 0 } }],
    ["half a failure", { limits: { maxFailures: 0.5 } }],
    ["a name with a version", { name: "a@2" }],
    ["no name", { name: "" }],
    ["a file that blob stores would confuse", { files: ["asPage"] }],
  ])("cannot have %s", (_, wrong) => {
    const define = () => jobKind({ name: "k", request: z.object({}), run: async () => ({ output: {} }), ...wrong })
    expect(define).toThrow(TypeError)
  })
})
