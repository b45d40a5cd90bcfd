import { builtInKinds, createEngine, jobKind } from "@kiln/core"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { openWith } from "./support.ts"

/** What JavaScript code passes wrongly is refused with a message that says how to pass it. */

const request = z.looseObject({ n: z.number().optional() })
const page = jobKind({ name: "page", request, files: ["html"], run: async () => ({ output: {} }) })
const plain = jobKind({ name: "plain", request, run: async () => ({ output: {} }) })

describe("submit()", () => {
  it.each<[string, object, string]>([
    ["a key that is a number", { idempotencyKey: 17 }, "idempotencyKey must be a text of 1 to 255"],
    ["a key in a list", { idempotencyKey: ["a"] }, "idempotencyKey must be a text"],
    ["no key", { idempotencyKey: null }, "idempotencyKey must be a text"],
    ["a delay that is a text", { delayMs: "5" }, "delayMs must be a number between 0 and"],
    ["a delay that is a list", { delayMs: [] }, "delayMs must be a number between 0 and"],
    ["a delay that is null", { delayMs: null }, "delayMs must be a number between 0 and"],
    ["a priority that is null", { priority: null }, "priority must be urgent, high, normal, low or an integer"],
    ["a signal of another type", { signal: 5 }, "signal must be an AbortSignal"],
  ])("refuses %s", async (_, options, message) => {
    await using engine = await openWith([plain], { autoStart: false })
    await expect(engine.submit("plain", {}, options as never)).rejects.toThrow(message)
    await expect(engine.submit("plain", {}, options as never)).rejects.toBeInstanceOf(TypeError)
    expect(await engine.operator.count()).toEqual([])
  })

  it("refuses a kind that is not given by its name, and a job without an id", async () => {
    await using engine = await openWith([plain], { autoStart: false })
    await expect(engine.submit(plain as never, {} as never)).rejects.toThrow("must be given by its name")
    await expect(engine.operator.pause(5 as never)).rejects.toThrow('unknown job kind "5"')
    await expect(engine.get(undefined as never)).rejects.toThrow("expected a job or the id of a job")
  })

  it("refuses a request of more than 4 MiB, and says so", async () => {
    await using engine = await openWith([plain], { autoStart: false })
    const large = { text: "x".repeat(4_194_304) }
    await expect(engine.submit("plain", large as never)).rejects.toThrow(
      "must have at most 4194304 characters of JSON, and has 4194315: submit a reference to larger data",
    )
    const [outcome] = await engine.submitMany("plain", [{ request: large as never }])
    expect(outcome?.error).toMatchObject({ code: "invalid_request" })
    expect(await engine.operator.count()).toEqual([])
  })

  it("names what in a request is not JSON", async () => {
    await using engine = await openWith([plain], { autoStart: false })
    const wrong = { n: 1, items: [1, { when: new Date(0) }] }
    await expect(engine.submit("plain", wrong as never)).rejects.toThrow(
      "must be a JSON object. request.items[1].when: Date is not JSON; use text (toISOString())",
    )
  })

  it("names the limit of a queue that is full, its setting and the project", async () => {
    await using engine = await openWith([plain], { autoStart: false, settings: { queueCap: 2 } })
    for (let n = 0; n < 2; n++) await engine.submit("plain", {}, { project: "acme" })
    await expect(engine.submit("plain", {}, { project: "acme" })).rejects.toMatchObject({
      code: "queue_full",
      limit: 2,
      projectId: "prj_acme",
      message: expect.stringContaining("the project prj_acme has 2 unfinished jobs, its limit (settings.queueCap"),
    })
  })
})

describe("jobKind()", () => {
  it.each<[string, object, string]>([
    ["a name with a space", { name: "send mail" }, 'job kind "send mail": a name must be 1 to 100 letters'],
    ["a name with a line break", { name: "a\nb" }, "a name must be 1 to 100 letters"],
    ["a name with an @", { name: "a@1" }, "a name must be 1 to 100 letters"],
    ["a long name", { name: "x".repeat(101) }, "a name must be 1 to 100 letters"],
    ["a price that is a number", { price: 5 }, "price must be 1 to 64 letters"],
    ["a scope with a space", { keyScope: "a b" }, "keyScope must be 1 to 128 visible ASCII characters"],
    ["an example that is a text", { example: "x" }, "example must be an object"],
    ["no field for an upload", { upload: "" }, "upload must be the name of a field"],
    ["a meter without a name", { meters: [""] }, "the name of a meter must not be empty"],
  ])("refuses %s", (_, options, message) => {
    expect(() => jobKind({ name: "x", request, run: async () => ({ output: {} }), ...options })).toThrow(message)
  })

  it.each(["resize", "send-mail", "mail.send", "billing:invoice", "media/resize"])("accepts the name %s", (name) => {
    expect(() => jobKind({ name, request, run: async () => ({ output: {} }) })).not.toThrow()
  })
})

describe("a value that is not JSON", () => {
  class Point {
    readonly x = 1
  }
  const circular: Record<string, unknown> = {}
  circular["again"] = [circular]

  it.each<[string, unknown, string]>([
    [
      "a date",
      { items: [1, 2, 3, { when: new Date(0) }] },
      ".items[3].when: Date is not JSON; use text (toISOString()), in schemas too",
    ],
    ["NaN", { share: Number.NaN }, ".share: NaN is not JSON; use null or text"],
    ["a bigint", [1n], "[0]: bigint is not JSON; use text (String()), in schemas too"],
    [
      "an instance",
      { "a b": new Point() },
      '["a b"]: Point is a class, and its instance is not JSON; use an object of plain fields, such as { ...value }',
    ],
    ["a map", { of: new Map() }, ".of: Map is not JSON; use an object (Object.fromEntries()), in schemas too"],
    ["a set", { of: new Set() }, ".of: Set is not JSON; use a list (Array.from()), in schemas too"],
    ["a promise", { of: Promise.resolve(1) }, ".of: Promise is not JSON; await it"],
    [
      "bytes",
      { of: Uint8Array.of(1) },
      ".of: bytes are not JSON; use text (base64), or a file written after the steps",
    ],
    ["a URL", { of: new URL("http://a") }, ".of: URL is a class, and its instance is not JSON; use its toJSON()"],
    ["a function", { run: () => 1 }, ".run: function is not JSON; use an object of plain fields"],
    ["a hole", [1, undefined], "[1]: undefined is not JSON in a list; use null"],
    ["itself", circular, ".again[0]: the value contains itself, which JSON cannot represent; use ids"],
  ])("is named with its path, in steps and results: %s", async (_, value, problem) => {
    const errors: Array<string> = []
    const inStep = jobKind({
      name: "step",
      request,
      run: async ({ step }) => ({ output: { v: await step("look", async () => value as never) } }),
    })
    const inResult = jobKind({ name: "result", request, run: async () => ({ output: { v: value } as never }) })
    await using engine = await openWith([inStep, inResult], {
      onAttemptFailed: (error) => void errors.push((error as Error).message),
    })
    for (const kind of ["step", "result"] as const)
      expect(await engine.submitAndWait(kind, {})).toMatchObject({ status: "failed", attempts: 1 })
    expect(errors).toEqual([
      `step("look") returned a value that is not JSON. value${problem}`,
      `the result of result has an output that is not JSON. output.v${problem}`,
    ])
  })
})

describe("createEngine()", () => {
  it.each([
    [{}, "createEngine() lacks store (such as sqliteStore({ path })) and kinds (the job kinds it runs: your own,"],
    [
      { store: memoryStore() },
      "createEngine() lacks kinds (the job kinds it runs: your own, made with jobKind(), or builtInKinds())",
    ],
    [
      { store: memoryStore(), kinds: builtInKinds(), worker: false },
      "the kind transcription has an upload, and createEngine() lacks blobs (such as fileBlobs({ directory }))",
    ],
    [{ store: memoryStore(), kinds: [page] }, "the kind page has files (html), and createEngine() lacks blobs"],
    [{ store: memoryStore(), blobs: memoryBlobs(), kinds: builtInKinds() }, "must include the providers of the kind"],
  ])("says what it lacks: %#", async (options, message) => {
    await expect(createEngine(options as never)).rejects.toThrow(message)
    await expect(createEngine(options as never)).rejects.toBeInstanceOf(TypeError)
  })
})

it("after stop() each call rejects with a code", async () => {
  const engine = await openWith([plain])
  await engine.stop()
  const calls: ReadonlyArray<() => unknown> = [
    () => engine.submit("plain", {}),
    () => engine.submitMany("plain", [{ request: {} }]),
    () => engine.get("job_x"),
    () => engine.wait("job_x"),
    () => engine.operator.list(),
    () => engine.operator.listAll()[Symbol.asyncIterator]().next(),
    () => engine.schedules.list(),
    () => engine.createUpload({ format: "wav", declaredSeconds: 1 }),
    () => engine.readFile("fil_x"),
    () => engine.start(),
    () => engine.events(),
  ]
  for (const call of calls)
    await expect((async () => call())()).rejects.toMatchObject({ name: "AbortError", code: "engine_closed" })
})
