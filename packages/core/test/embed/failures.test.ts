import { type AttemptFailure, failure, jobKind, type LogEntry } from "@kiln/core"
import { testEngine } from "@kiln/testing"
import { describe, expect, expectTypeOf, it } from "vitest"
import { z } from "zod"
import { openWith } from "./support.ts"

const request = z.object({ how: z.string().default("throw") })

describe("error codes of a kind", () => {
  const pages = (limits = { maxFailures: 2 }) =>
    jobKind({
      name: "pages",
      request,
      limits,
      errorCodes: { quota_used_up: "The account has no pages left.", printer_busy: "Try again later." },
      run: async ({ failure: failing, request: { how } }) => {
        if (how === "quota") throw failing("quota_used_up", { message: "402 from the account service" })
        if (how === "busy") throw failing("printer_busy", { retry: true })
        if (how === "imported") throw failure("printer_busy")
        if (how === "undeclared") throw failure("printer_bsy")
        throw failing("content_rejected")
      },
    })

  it("are what its jobs fail with, beside the built-in ones, and decide about a retry", async () => {
    await using engine = await openWith([pages()])
    const endOf = async (how: string) => {
      const job = await engine.submitAndWait("pages", { how })
      return job.status === "failed" ? [job.errorCode, job.attempts] : job.status
    }
    expect(await endOf("quota")).toEqual(["quota_used_up", 1])
    expect(await endOf("busy")).toEqual(["printer_busy", 2])
    expect(await endOf("imported")).toEqual(["printer_busy", 1])
    expect(await endOf("else")).toEqual(["content_rejected", 1])
  })

  it("are known to the compiler", async () => {
    await using engine = await openWith([pages()])
    const job = await engine.submitAndWait("pages", { how: "quota" })
    if (job.status !== "failed") throw new Error("the job did not fail")
    expectTypeOf(job.errorCode)
      .extract<"quota_used_up" | "printer_busy" | "quota">()
      .toEqualTypeOf<"quota_used_up" | "printer_busy">()
    jobKind({
      name: "typed",
      request,
      errorCodes: ["quota_used_up"],
      run: async ({ failure: failing }) => {
        // @ts-expect-error the kind does not declare this code
        throw failing("quota_usd_up")
      },
    })
  })

  it("that the kind does not declare fail the job as a bug, and the log names the nearest", async () => {
    const log: Array<LogEntry> = []
    await using engine = await openWith([pages()], { log: (entry) => log.push(entry) })
    const job = await engine.submitAndWait("pages", { how: "undeclared" })
    expect(job).toMatchObject({ status: "failed", errorCode: "internal_error", attempts: 1 })
    expect(log.map(({ message }) => message).join("\n")).toContain(
      'unknown error code "printer_bsy" of pages: declare it in errorCodes; did you mean "printer_busy"?',
    )
  })

  it.each([
    ["Quota", "up to 64 lower-case letters"],
    ["job_timeout", "is a built-in error code"],
    ["", "up to 64"],
  ])("cannot be %j", (code, message) => {
    expect(() => jobKind({ name: "k", request, errorCodes: [code], run: async () => ({ output: {} }) })).toThrow(
      message,
    )
    expect(() => failure("Not A Code")).toThrow("passed to failure()")
  })
})

describe("operator.listAttempts", () => {
  it("tells what each failed attempt threw, and forgets it with the job's data", async () => {
    const cause = new RangeError("429 for the account of Ada")
    const flaky = jobKind({
      name: "flaky",
      request,
      errorCodes: ["quota_used_up"],
      retry: { backoff: () => 0 },
      run: async ({ attempt, failure: failing }) => {
        if (attempt === 1) throw new TypeError("no connection")
        throw failing("quota_used_up", { message: "402 from the account service", cause })
      },
    })
    await using engine = await openWith([flaky])
    const began = Date.now()
    const job = await engine.submitAndWait("flaky", {})
    expect(job).toMatchObject({ status: "failed", errorCode: "quota_used_up", attempts: 2 })
    expect(JSON.stringify(job)).not.toMatch(/no connection|402/)
    const attempts = await engine.operator.listAttempts(job)
    expect(attempts).toMatchObject([
      {
        number: 1,
        errorCode: "internal_error",
        message: "no connection",
        worker: expect.stringContaining(`:${process.pid}`),
      },
      { number: 2, errorCode: "quota_used_up", message: "402 from the account service" },
    ])
    expect(attempts[0]?.stack).toContain("failures.test.ts")
    expect(attempts[1]?.stack).toContain("caused by: RangeError: 429 for the account of Ada")
    for (const { durationMs, startedAt } of attempts) {
      expect(startedAt.getTime()).toBeGreaterThanOrEqual(began - 1_000)
      expect(Number.isInteger(durationMs)).toBe(true)
      expect(durationMs).toBeLessThanOrEqual(Date.now() - began + 1)
    }
    await engine.eraseData(job)
    expect(await engine.operator.listAttempts(job.id)).toEqual([])
    await expect(engine.operator.listAttempts("job_00000000000000000000000000")).rejects.toMatchObject({
      code: "job_not_found",
    })
  })

  it("lists nothing for a job that succeeded", async () => {
    const fine = jobKind({ name: "fine", request, run: async () => ({ output: {} }) })
    await using engine = await openWith([fine])
    const job = await engine.submitAndWait("fine", {})
    expect(await engine.operator.listAttempts(job)).toEqual([])
  })
})

describe("onAttemptFailed", () => {
  it("gets what each attempt threw, and whether it is retried", async () => {
    const seen: Array<[unknown, AttemptFailure]> = []
    const broken = new Error("no connection")
    const kind = jobKind({
      name: "broken",
      request,
      limits: { maxFailures: 2 },
      run: async () => {
        throw broken
      },
    })
    await using engine = await openWith([kind], {
      onAttemptFailed: (error, failure) => void seen.push([error, failure]),
    })
    const job = await engine.submitAndWait("broken", {}, { project: "one" })
    const about = { jobId: job.id, projectId: "prj_one", kind: "broken", mode: "sandbox", errorCode: "internal_error" }
    expect(seen).toEqual([
      [broken, { ...about, attempt: 1, retryInMs: expect.any(Number), durationMs: expect.any(Number) }],
      [broken, { ...about, attempt: 2, retryInMs: undefined, durationMs: expect.any(Number) }],
    ])
  })

  it("that throws or rejects is logged, and hurts nobody", async () => {
    const log: Array<LogEntry> = []
    let calls = 0
    const kind = jobKind({ name: "broken", request, run: async () => Promise.reject(failure("content_rejected")) })
    await using engine = await openWith([kind], {
      log: (entry) => log.push(entry),
      onAttemptFailed: () => {
        calls += 1
        if (calls === 1) throw new Error("a bug of the hook")
        return Promise.reject(new Error("another")) as never
      },
    })
    for (let n = 0; n < 2; n++) expect(await engine.submitAndWait("broken", {})).toMatchObject({ status: "failed" })
    await expect
      .poll(() => log.filter(({ message }) => message.includes("a listener to job events failed")).length)
      .toBe(2)
  })
})

describe("the retry policy of a kind", () => {
  const flaky = (retry: Parameters<typeof jobKind>[0]["retry"]) =>
    jobKind({
      name: "flaky",
      request,
      limits: { maxFailures: 3 },
      ...(retry !== undefined && { retry }),
      run: async ({ failures }) => {
        throw Object.assign(new Error("busy"), { status: failures === 0 ? 503 : 401 })
      },
    })

  it("decides which errors are retried", async () => {
    const kind = flaky({ retryIf: (error) => (error as { readonly status: number }).status >= 500 })
    await using engine = await openWith([kind])
    const failed = { status: "failed", attempts: 2, errorCode: "internal_error" }
    expect(await engine.submitAndWait("flaky", {})).toMatchObject(failed)
  })

  it("decides when they are retried", async () => {
    const kind = flaky({
      backoff: (failures, error) => 1_000 * failures + (error as { readonly status: number }).status,
    })
    await using kiln = await testEngine({ kinds: [kind], mode: "manual" })
    const delays: Array<number> = []
    kiln.on("attempt_failed", ({ retryInMs }) => delays.push(retryInMs))
    await kiln.submit("flaky", {})
    await kiln.drain({ throughRetries: true })
    expect(delays).toEqual([1_503, 2_401])
  })

  it.each([
    [{ baseMs: 0, maxMs: 0 }, [0, 0]],
    // Half of the bound, which doubles: the test engine leaves nothing to chance.
    [{ baseMs: 1_000, maxMs: 9_000 }, [500, 1_000]],
  ])("replaces the bounds of the exponential backoff: %o", async (backoff, expected) => {
    await using kiln = await testEngine({ kinds: [flaky({ backoff })], mode: "manual" })
    const delays: Array<number> = []
    kiln.on("attempt_failed", ({ retryInMs }) => delays.push(retryInMs))
    await kiln.submit("flaky", {})
    await kiln.drain({ throughRetries: true })
    expect(delays).toEqual(expected)
  })

  it.each([
    {
      retryIf: () => {
        throw new Error("a bug")
      },
    },
    { backoff: () => Number.NaN },
    // A rejection that nothing awaits would end the process.
    { backoff: async () => Promise.reject(new Error("a rejection of the policy")) },
    { retryIf: async () => Promise.reject(new Error("a rejection of the policy")) },
    { retryIf: async () => false },
  ])("that fails is logged, and the job is retried without it: %#", async (retry) => {
    const log: Array<LogEntry> = []
    await using engine = await openWith([flaky(retry as never)], { log: (entry) => log.push(entry) })
    expect(await engine.submitAndWait("flaky", {})).toMatchObject({ status: "failed", attempts: 3 })
    expect(log.some(({ message }) => message.includes("the retry policy of a kind failed"))).toBe(true)
  })
})

describe("the timeout of an attempt", () => {
  it("aborts it and counts it as a failure", async () => {
    const aborted: Array<boolean> = []
    const kind = jobKind({
      name: "slow",
      request,
      limits: { attemptTimeoutMs: 20, maxFailures: 2 },
      run: async ({ attempt, signal }) => {
        if (attempt === 1) await new Promise((resolve) => signal.addEventListener("abort", resolve))
        aborted.push(signal.aborted)
        return { output: {} }
      },
    })
    await using engine = await openWith([kind])
    expect(await engine.submitAndWait("slow", {})).toMatchObject({ status: "done", attempts: 2 })
    expect(aborted).toEqual([true, false])
  })

  it("fails the job with job_timeout in the end", async () => {
    const kind = jobKind({
      name: "stuck",
      request,
      limits: { attemptTimeoutMs: 10, maxFailures: 2 },
      run: () => new Promise<never>(() => undefined),
    })
    await using engine = await openWith([kind])
    expect(await engine.submitAndWait("stuck", {})).toMatchObject({ errorCode: "job_timeout", attempts: 2 })
  })
})

describe("runAt", () => {
  const kind = jobKind({ name: "later", request, run: async () => ({ output: {} }) })

  it("delays the job until a time; one that has passed means now", async () => {
    await using kiln = await testEngine({ kinds: [kind], mode: "manual" })
    const at = new Date(kiln.now().getTime() + 60_000)
    const later = await kiln.submit("later", {}, { runAt: at })
    const now = await kiln.submit("later", {}, { runAt: new Date(0) })
    expect(await kiln.drain()).toBe(1)
    expect(await kiln.get(now)).toMatchObject({ status: "done" })
    await kiln.advance(59_999)
    expect(await kiln.drain()).toBe(0)
    await kiln.advance(1)
    expect(await kiln.drain()).toBe(1)
    expect(await kiln.get(later)).toMatchObject({ status: "done" })
  })

  it.each([
    [{ runAt: new Date(Number.NaN) }, "runAt must be a valid Date"],
    [{ runAt: "tomorrow" }, "runAt must be a valid Date"],
    [{ runAt: new Date(), delayMs: 1 }, "either delayMs or runAt"],
    [{ runAt: new Date(8e15) }, "at most 366 days"],
  ])("is checked: %o", async (options, message) => {
    await using engine = await openWith([kind])
    await expect(engine.submit("later", {}, options as never)).rejects.toThrow(message)
  })
})

describe("a value that code cannot read", () => {
  const refuse = (): never => {
    throw new RangeError("not readable")
  }
  const withGetter = (name: string) => Object.defineProperty(new Error("m"), name, { get: refuse })
  const revoked = () => {
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    return proxy
  }
  it.each<[string, () => unknown]>([
    ["a stack of frames", () => Object.assign(new Error("m"), { stack: ["frame"], name: null })],
    ["getters that throw", () => withGetter("stack")],
    ["a tag that throws", () => withGetter("_tag")],
    ["a revoked proxy", revoked],
    ["a proxy that refuses", () => new Proxy(new Error("m"), { getPrototypeOf: refuse, get: refuse, has: refuse })],
    ["no text", () => ({ toString: refuse, toJSON: refuse })],
    ["a symbol", () => Symbol("s")],
  ])("ends the attempt that throws it: %s", async (_, make) => {
    const hostile = jobKind({
      name: "hostile",
      request,
      limits: { maxFailures: 2 },
      retry: { retryIf: () => refuse() },
      run: async () => {
        throw make()
      },
    })
    const log: Array<LogEntry> = []
    await using engine = await openWith([hostile], {
      log: (entry) => log.push(entry),
      // The bus of events logs it.
      onAttemptFailed: (error) => {
        throw error
      },
    })
    const job = await engine.submitAndWait("hostile", {}, { timeoutMs: 10_000 })
    expect(job).toMatchObject({ status: "failed", errorCode: "internal_error", attempts: 2 })
    expect(await engine.operator.listAttempts(job.id)).toHaveLength(2)
    expect(log.map(({ message }) => message).join("\n")).toContain("attempt ended without a result")
  })
})
