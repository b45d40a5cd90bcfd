import { createEngine, jobKind } from "@kiln/core"
import { memoryBlobs, memoryStore, testEngine } from "@kiln/testing"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { z } from "zod"
import { openWith } from "./support.ts"

/** As JavaScript gives it, or a spread that hides it from the compiler. */
const given = (value: unknown): never => value as never

const bare = { name: "echo", request: z.object({}), run: async () => ({ output: {} }) } as const
const echo = jobKind({ ...bare, switches: ["audio", "exports"] })
let engine: Awaited<ReturnType<typeof openWith<typeof echo>>>
beforeAll(async () => {
  engine = await openWith([echo])
})
afterAll(() => engine.stop())

const parts = { store: memoryStore(), blobs: memoryBlobs(), kinds: [echo], worker: false, log: false } as const
const opening = (more: object) => createEngine(given({ ...parts, ...more }))

describe("createEngine refuses", () => {
  it.each([
    [{ workers: false }, 'unknown option "workers" in createEngine(); did you mean "worker"?'],
    [{ wroker: false }, 'did you mean "worker"?'],
    [{ AutoStart: false }, 'did you mean "autoStart"?'],
    [{ worker: "no" }, "worker must be true or false"],
    [{ mode: "lvie" }, 'unknown mode "lvie"; did you mean "live"?'],
    [{ autoStart: 1 }, "autoStart must be true or false"],
    [{ log: true }, "log must be a function, an object with messages and to, or false"],
    [{ kinds: { echo } }, "kinds must be an array"],
    [{ providers: { sandbx: {} } }, 'unknown option "sandbx" in providers; did you mean "sandbox"?'],
    [{ providers: { sandbox: { transcribe: () => 1 } } }, 'did you mean "transcription"?'],
    [{ providers: { live: { speech: () => 1, images: () => 1 } } }, 'did you mean "image"?'],
    [{ providers: { live: { close: () => 1 } } }, 'unknown provider "close" in providers.live; known: transcription'],
    [{ providers: { live: new Map() } }, "providers.live must have at least one of transcription, reply"],
    [{ providers: { live: null } }, "providers.live must be an object, not null"],
  ])("%j", async (more, message) => {
    await expect(opening(more)).rejects.toThrow(message)
  })

  it.each([
    [{ leaseDuration: 1 }, 'unknown setting "leaseDuration" in settings; did you mean "leaseDurationMs"?'],
    [{ attempts: { maxFailure: 5 } }, 'unknown setting "maxFailure" in settings.attempts; did you mean "maxFailures"?'],
    [{ upload: { maxByte: 1 } }, 'did you mean "maxBytes"?'],
    [{ providers: { speach: {} } }, 'did you mean "speech"?'],
    [{ providers: { speech: { concurency: 1 } } }, 'did you mean "concurrency"?'],
    [{ circuit: { maxFailures: 0 } }, "settings.circuit.maxFailures must be a positive integer, not 0"],
    [{ attempts: 3 }, "settings.attempts must be an object"],
    [{ attempts: { maxFailures: 1.5 } }, "settings.attempts.maxFailures must be a positive integer"],
    [{ concurrency: "8" }, "settings.concurrency must be a positive integer"],
    [{ runLimitMs: Number.POSITIVE_INFINITY }, "settings.runLimitMs must be a number between 1 and 3153600000000"],
    [{ leaseDurationMs: Number.NaN }, "not NaN"],
    [{ dataRetentionMs: -1 }, "settings.dataRetentionMs must be a number between 0"],
    [{ limits: { perKind: { ecko: 1 } } }, 'unknown kind "ecko" in settings.limits.perKind; did you mean "echo"?'],
    [{ limits: { perKind: { echo: 0 } } }, "settings.limits.perKind.echo must be a positive integer"],
    [{ limits: { perProjects: 1 } }, 'did you mean "perProject"?'],
    [{ defaultCurrency: "USD" }, "settings.defaultCurrency must be a currency"],
    [{ forcedOff: ["audoi"] }, 'did you mean "audio"?'],
    [{ forcedOff: "ai" }, "settings.forcedOff must be an array of audio, exports"],
    ["fast", "settings must be an object"],
  ])("settings like %j", async (settings, message) => {
    await expect(opening({ settings })).rejects.toThrow(message)
  })

  it("nothing else: omitted settings of a group have their defaults", async () => {
    let runs = 0
    const failing = jobKind({
      ...bare,
      name: "failing",
      run: () => {
        runs += 1
        return Promise.reject(new Error("no"))
      },
    })
    await using kiln = await testEngine({ kinds: [failing], settings: { attempts: { maxFailures: 2 } } })
    expect(await kiln.submit("failing", {})).toMatchObject({ status: "failed", attempts: 2 })
    expect(runs).toBe(2)
  })
})

it.each<[name: string, call: () => unknown, message: string]>([
  ["submit", () => engine.submit("echo", {}, given({ when: 1 })), 'unknown option "when" in submit(); known: project'],
  ["submit", () => engine.submit("echo", {}, given({ delayMS: 1 })), 'did you mean "delayMs"?'],
  ["submit", () => engine.submit("echo", {}, given({ mode: "lvie" })), 'unknown mode "lvie"; did you mean "live"?'],
  [
    "submit",
    () => engine.submit("echo", {}, given({ priority: "hihg" })),
    'priority must be urgent, high, normal, low or an integer from -5 to 5, not "hihg"',
  ],
  ["submit", () => engine.submit("echo", {}, given("high")), "submit() expects its options as an object"],
  ["submit", () => engine.submit(given("ecko"), given({})), 'unknown job kind "ecko"; did you mean "echo"?'],
  ["submitSync", () => engine.submitSync("echo", {}, given({ when: 1 })), "in submitSync()"],
  ["get", () => engine.get("job_1", given({ projects: "a" })), 'did you mean "project"?'],
  ["wait", () => engine.wait("job_1", given({ timeoutMillis: 1 })), 'did you mean "timeoutMs"?'],
  ["wait", () => engine.wait("job_1", { timeoutMs: Number.NaN }), "timeoutMs must be a non-negative number, not NaN"],
  ["wait", () => engine.wait("job_1", given({ timeoutMs: "5s" })), "timeoutMs must be a non-negative number"],
  [
    "submitAndWait",
    () => engine.submitAndWait("echo", {}, given({ timeout: 1 })),
    'unknown option "timeout" in submitAndWait()',
  ],
  ["eraseData", () => engine.eraseData("job_1", given({ force: true })), "in eraseData()"],
  [
    "createUpload",
    () => engine.createUpload(given({ format: "wav", declared_seconds: 1 })),
    'did you mean "declaredSeconds"?',
  ],
  [
    "createUpload",
    () => engine.createUpload({ format: "wav", declaredSeconds: 1 }, given({ modes: "live" })),
    'did you mean "mode"?',
  ],
  ["receiveUpload", () => engine.receiveUpload("upl_1", "audio/wav", new Uint8Array(1), given({ abort: 1 })), "abort"],
  ["readFile", () => engine.readFile({ id: "fil_1" }, given({ range: 1 })), 'unknown option "range" in readFile()'],
  ["on", () => engine.on(given("finished"), () => undefined), 'unknown event "finished"'],
  ["on", () => engine.on(given("typo"), () => undefined), 'unknown event "typo"'],
  ["on", () => engine.on("completed", given(undefined)), "on() expects a function as its listener"],
  ["events", () => engine.events(given({ types: ["done"] })), "in events()"],
  ["stop", () => engine.stop(given({ drain: 1 })), 'did you mean "drainMs"?'],
  ["stop", () => engine.stop({ drainMs: Number.NaN }), "drainMs must be a non-negative number"],
  ["list", () => engine.operator.list(given({ status: "nope" })), 'unknown status "nope"'],
  ["list", () => engine.operator.list(given({ status: "quued" })), 'did you mean "queued"?'],
  ["list", () => engine.operator.list(given({ state: "done" })), 'did you mean "status"?'],
  ["list", () => engine.operator.list(given({ mode: "test" })), 'unknown mode "test"'],
  ["list", () => engine.operator.list(given({ createdFrom: "2030-01-01" })), "createdFrom must be a valid Date"],
  ["list", () => engine.operator.list(given({ createdTo: null })), "valid Date; leave it out for no bound"],
  ["get", () => engine.get("job_1", given(null)), "get() expects its options as an object, not null"],
  [
    "wait",
    () => engine.wait("job_1", given(5_000)),
    "wait() expects its options as an object, not a value of type number",
  ],
  ["list", () => engine.operator.list({ createdTo: new Date(Number.NaN) }), "createdTo must be a valid Date"],
  ["listAll", () => engine.operator.listAll(given({ stauts: "done" })).next(), 'did you mean "status"?'],
  ["count", () => engine.operator.count(given({ projectId: "a" })), 'did you mean "project"?'],
  ["count", () => engine.operator.count({ finishedWithinMs: -1 }), "finishedWithinMs must be a non-negative number"],
  ["pause", () => engine.operator.pause("ecko"), 'unknown job kind "ecko"; did you mean "echo"?'],
  ["resume", () => engine.operator.resume("ecko"), 'unknown job kind "ecko"; did you mean "echo"?'],
  [
    "setSwitch",
    () => engine.operator.setSwitch(given("export"), true),
    'unknown switch "export"; did you mean "exports"?',
  ],
  ["setSwitch", () => engine.operator.setSwitch(given("ai"), true), 'unknown switch "ai"; known: audio, exports'],
  ["setSwitch", () => engine.operator.setSwitch("audio", given("on")), "setSwitch() expects true or false"],
  ["setPrice", () => engine.operator.setPrice(given({ name: "p", unitAmount: {} })), 'did you mean "unitAmounts"?'],
  ["listCharges", () => engine.operator.listCharges(given({ from: new Date(0), until: new Date(1) })).next(), "until"],
  [
    "charges",
    () => engine.operator.listCharges(given({ from: "2030", to: new Date(1) })).next(),
    "from must be a valid Date",
  ],
])("%s refuses unknown options: %#", async (_, call, message) => {
  await expect((async () => call())()).rejects.toThrow(message)
})

it("a kind that this program no longer knows can be resumed", async () => {
  const store = memoryStore()
  const other = jobKind({ ...bare, name: "other" })
  await using before = await createEngine({ ...parts, store, kinds: [other] })
  await before.operator.pause("other")
  await using after = await createEngine({ ...parts, store })
  await after.operator.resume("other")
  expect((await after.operator.board()).pausedKinds).toEqual([])
  await expect(after.operator.resume("other")).rejects.toMatchObject({ code: "kind_unknown" })
})

describe("a kind refuses", () => {
  it.each([
    [{ request: "text" }, 'job kind "echo": request must be a Standard Schema'],
    [{ request: undefined }, 'job kind "echo": request must be a Standard Schema'],
    [{ request: {} }, 'job kind "echo": request must be a Standard Schema'],
    [{ output: "text" }, 'job kind "echo": output must be a Standard Schema'],
    [{ metdata: ["a"] }, 'unknown option "metdata" in a job kind; did you mean "metadata"?'],
    [{ limits: { maxAttempts: 1 } }, 'unknown option "maxAttempts" in limits of job kind "echo"; known: queueLimitMs'],
    [{ limits: { maxFailures: Number.NaN } }, 'maxFailures of job kind "echo" must be'],
    [{ switches: ["Image"] }, 'and begin with a letter, not "Image"'],
    [{ providers: ["speach"] }, 'unknown job kind "echo": provider "speach"; did you mean "speech"?'],
    [{ files: "page" }, 'job kind "echo": files must be an array'],
    [{ meters: [1] }, 'job kind "echo": meters must be an array of strings'],
    [{ run: undefined }, 'job kind "echo": run must be a function'],
    [{ sandbox: {} }, 'job kind "echo": sandbox must be a function'],
    [{ name: undefined }, "job kind: name is required"],
  ])("%j", (more, message) => {
    expect(() => jobKind(given({ ...bare, ...more }))).toThrow(message)
  })
})

describe("a test engine refuses", () => {
  it.each([
    [{ mod: "manual" }, 'unknown option "mod" in testEngine(); did you mean "mode"?'],
    [{ mode: "manuel" }, 'unknown mode "manuel"; did you mean "manual"?'],
    [{ jobMode: "test" }, 'unknown jobMode "test"'],
    [{ providers: { speech: "fale" } }, 'did you mean "fake"?'],
    [{ providers: { speach: "fake" } }, 'did you mean "speech"?'],
    [{ prices: { "svc-audio": { units: {} } } }, "in prices.svc-audio"],
    [{ startAt: "2030-01-01" }, "startAt must be a valid Date"],
    [{ settings: { attempt: {} } }, 'did you mean "attempts"?'],
  ])("%j", async (options, message) => {
    await expect(testEngine(given(options))).rejects.toThrow(message)
  })

  it("stores without options refuse any", () => {
    expect(() => memoryStore(given({ durable: true }))).toThrow("memoryStore() takes no options")
    expect(() => memoryBlobs(given({ directory: "x" }))).toThrow("memoryBlobs() takes no options")
  })
})
