import { createEngine, jobKind } from "@kiln/core"
import { memoryStore } from "@kiln/testing"
import { Effect, Schema } from "effect"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { openWith } from "./support.ts"

/** Values are JSON on every path. A step or a run may return nothing, and an absent field may be `undefined`. */

const born = new Date(0)
const date = "Date is not JSON; use text (toISOString()), in schemas too"
const request = z.object({ user: z.unknown().optional() })
const plain = jobKind({ name: "plain", request, run: async () => undefined })

describe("a value that is not JSON is refused with its path and the remedy", () => {
  const structured = jobKind({
    name: "structured",
    // The compiler refuses this schema.
    request: Schema.Struct({ born: Schema.Date }) as never,
    run: async () => undefined,
  })
  type Open = Awaited<ReturnType<typeof openWith<typeof plain>>>
  it.each<[place: string, call: (engine: Open) => unknown, message: string]>([
    ["in a request", (engine) => engine.submit("plain", { user: { born } }), `request.user.born: ${date}`],
    [
      "in a request of a struct of Effect Schema",
      (engine) => engine.submit("structured" as never, { born } as never),
      `request.born: ${date}`,
    ],
    [
      "in the request of a schedule",
      (engine) => engine.schedules.set("daily", { kind: "plain", request: { user: { born } }, everyMs: 60_000 }),
      `request.user.born: ${date}`,
    ],
    [
      "in a signal",
      async (engine) => engine.signal(await engine.submit("plain", {}, { delayMs: 60_000 }), "s", { born } as never),
      `value.born: ${date}`,
    ],
    [
      "in metadata",
      (engine) => engine.submit("plain", {}, { metadata: { born: born as never } }),
      `metadata.born: ${date}`,
    ],
    [
      "without a request",
      (engine) => engine.submit("plain", undefined as never),
      "request: undefined is not an object",
    ],
  ])("%s", async (_, call, message) => {
    await using engine = await openWith([plain, structured as never], { autoStart: false })
    await expect((async () => call(engine))()).rejects.toThrow(message)
  })

  it.each<[place: string, run: Parameters<typeof jobKind>[0]["run"], message: string]>([
    [
      "in a step",
      ({ step }) => step("look", async () => ({ user: { born } }) as never),
      `step("look") returned a value that is not JSON. value.user.born: ${date}`,
    ],
    ["in an output", async () => ({ output: { born } }), `has an output that is not JSON. output.born: ${date}`],
    [
      "in the request of a child",
      ({ children }) => children("all", "plain", [{ user: { born } }]) as never,
      `child 0 of children("all") was refused: InvalidRequest: request.user.born: ${date}`,
    ],
    [
      "in the request of a job that an attempt submits",
      ({ engine }) => engine.submit("next", "plain", { user: { born } }) as never,
      `the job of engine.submit("next") was refused: InvalidRequest: request.user.born: ${date}`,
    ],
  ])("%s", async (_, run, message) => {
    const kind = jobKind({ name: "wrong", request, run: run as never })
    await using engine = await openWith([plain, kind])
    const job = await engine.submitAndWait("wrong", {})
    expect(job).toMatchObject({ status: "failed", attempts: 1 })
    expect((await engine.operator.listAttempts(job)).at(-1)?.message).toContain(message)
  })
})

describe("nothing", () => {
  it("is the result of a run without an output, and the value of a step, in later attempts too", async () => {
    const seen: Array<unknown> = []
    const mail = jobKind({
      name: "mail",
      request,
      run: async ({ attempt, failure, step }) => {
        const value = await step("find", async (): Promise<string | undefined> => {
          seen.push("found")
          return undefined
        })
        seen.push(value, await step("log", async () => {}), await step("null", async () => null))
        if (attempt === 1) throw failure("internal_error", { retry: true })
      },
    })
    await using engine = await openWith([mail])
    expect(await engine.submitAndWait("mail", {})).toMatchObject({ status: "done", output: {}, attempts: 2 })
    expect(seen).toEqual(["found", undefined, undefined, null, undefined, undefined, null])
  })

  it("is the value of a step for a retry of its job too", async () => {
    let isBroken = true
    const seen: Array<unknown> = []
    const mail = jobKind({
      name: "mail",
      request,
      run: async ({ failure, step }) => {
        seen.push(await step("send", async () => void seen.push("sent")))
        if (isBroken) throw failure("internal_error")
      },
    })
    await using engine = await openWith([mail])
    const failed = await engine.submitAndWait("mail", {})
    isBroken = false
    const retry = await engine.operator.retry(failed)
    expect(retry.id).not.toBe(failed.id)
    expect(await engine.wait(retry)).toMatchObject({ status: "done" })
    expect(await engine.get(failed)).toMatchObject({ status: "failed", retriedAs: retry.id })
    expect(seen).toEqual(["sent", undefined, undefined])
  })

  it.each([
    [undefined, "has no output, and the kind declares one: return { output: { … } } from run"],
    [{ n: 1 }, 'run returned an object with "n" and without "output": return { output: { n, … } }'],
    [5, "run returned a number: return { output: { … } }, or nothing"],
    [null, "run returned null: return { output: { … } }, or nothing"],
    [[1], "run returned a list: return { output: { … } }, or nothing"],
    [new RangeError("too long"), "run returned RangeError: throw it, or return { output: { … } }"],
    [Effect.succeed({ output: { n: 1 } }), "run returned an Effect: define the kind with JobKind of @kiln/core/kinds"],
  ])("is not the result of a run with one: %j", async (returned, message) => {
    const counting = jobKind({
      name: "counting",
      request,
      output: z.object({ n: z.number() }),
      run: async () => returned as never,
    })
    await using engine = await openWith([counting])
    const job = await engine.submitAndWait("counting", {})
    expect(job).toMatchObject({ status: "failed", errorCode: "internal_error", attempts: 1 })
    expect((await engine.operator.listAttempts(job)).at(-1)?.message).toContain(message)
  })

  it("in a field of metadata is no field", async () => {
    await using engine = await openWith([plain], { autoStart: false })
    const { metadata } = await engine.submit("plain", {}, { metadata: { orderId: "o", note: undefined } })
    expect(metadata).toEqual({ orderId: "o" })
    // A filter with a forgotten value must not become one for all jobs.
    await expect(engine.operator.list({ metadata: { note: undefined as never } })).rejects.toThrow(
      "metadata.note must be",
    )
  })
})

it("ids that went through JSON are jobs, files and uploads", async () => {
  const page = jobKind({
    name: "page",
    request,
    files: ["html"],
    run: async ({ writeFile }) => {
      await writeFile("html", async () => ({ data: Uint8Array.of(1), mediaType: "text/html" }))
    },
  })
  await using engine = await openWith([page])
  const job = await engine.submitAndWait("page", {})
  const stored = JSON.parse(JSON.stringify(job)) as { id: string; kind: string; output: { html: { id: string } } }
  expect((await engine.get(stored)).id).toBe(job.id)
  expect((await engine.get({ id: stored.id })).id).toBe(job.id)
  expect(await engine.readFile(stored.output.html)).toEqual(Uint8Array.of(1))
  expect(await engine.readFile(stored.output.html.id)).toEqual(Uint8Array.of(1))
  await expect(engine.readFile(5 as never)).rejects.toThrow("expected a file, such as job.output.audio, or the id of a")
  const pending = engine.submit("page", {})
  await expect(engine.get(pending as never)).rejects.toThrow("or the id of a job, not a promise: await it")
  await pending
})

it("a job says which version of its kind accepted it", async () => {
  const store = memoryStore()
  const versioned = (version: number) => jobKind({ name: "versioned", version, request, run: async () => undefined })
  await using before = await createEngine({ store, kinds: [versioned(1)], log: false })
  const old = await before.submitAndWait("versioned", {})
  await using after = await createEngine({ store, kinds: [versioned(2)], log: false })
  expect((await after.get(old)).kindVersion).toBe(1)
  expect((await after.submitAndWait("versioned", {})).kindVersion).toBe(2)
})
