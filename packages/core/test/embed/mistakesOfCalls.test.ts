import { createEngine, type EmbeddedEngine, jobKind } from "@kiln/core"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { z } from "zod"
import { messageOf } from "./support.ts"

/** Mistakes in calls of an engine, and the whole message that each gets. */

const request = z.object({ n: z.number().optional(), to: z.string().optional() })
const run = async () => ({ output: {} })
const mail = jobKind({ name: "mail", request, switches: ["mailing"], run })
const other = jobKind({ name: "other", request, run })
const page = jobKind({ name: "page", request, files: ["html"], run })

type Mistake = readonly [mistake: string, code: (engine: Loose) => unknown, message: string]
/** The engine as JavaScript code sees it. */
type Loose = Record<Exclude<keyof EmbeddedEngine, "schedules" | "operator">, Call> & {
  readonly schedules: Record<string, Call>
  readonly operator: Record<string, Call>
}
type Call = (...given: ReadonlyArray<unknown>) => Promise<{ readonly id: string }>

const unknownJob = "job_00000000000000000000000000"

const jobs: ReadonlyArray<Mistake> = [
  ["a misspelled kind", ({ submit }) => submit("mial", {}), 'unknown job kind "mial"; did you mean "mail"?'],
  ["a forgotten kind", ({ submit }) => submit(other.name, {}), 'unknown job kind "other"; known: mail, page'],
  [
    "a kind instead of its name",
    ({ submit }) => submit(mail, {}),
    'the kind of a job must be given by its name: "mail"',
  ],
  [
    "no request",
    ({ submit }) => submit("mail"),
    "the request: must be a JSON object. request: undefined is not an object, such as {}",
  ],
  ["a wrong field", ({ submit }) => submit("mail", { n: "1" }), "n: Invalid input: expected number, received string"],
  [
    "a date",
    ({ submit }) => submit("mail", { to: new Date(0) }),
    "the request: must be a JSON object. request.to: Date is not JSON; use text (toISOString()), in schemas too",
  ],
  [
    "a cycle",
    ({ submit }) => {
      const to: Record<string, unknown> = {}
      to["self"] = to
      return submit("mail", { to })
    },
    "the request: must be a JSON object. request.to.self: the value contains itself, which JSON cannot represent; use ids",
  ],
  [
    "a misspelled option",
    ({ submit }) => submit("mail", {}, { delay: 5 }),
    'unknown option "delay" in submit(); did you mean "delayMs"?',
  ],
  [
    "a delay as text",
    ({ submit }) => submit("mail", {}, { delayMs: "5 minutes" }),
    "delayMs must be a number between 0 and 31622400000",
  ],
  ["a time as text", ({ submit }) => submit("mail", {}, { runAt: "2030-01-01" }), "runAt must be a valid Date"],
  [
    "a time and a delay",
    ({ submit }) => submit("mail", {}, { delayMs: 1, runAt: new Date(0) }),
    "give either delayMs or runAt, not both",
  ],
  [
    "a number as key",
    ({ submit }) => submit("mail", {}, { idempotencyKey: 1 }),
    "idempotencyKey must be a text of 1 to 255 visible ASCII characters without spaces",
  ],
  [
    "a key of another request",
    async ({ submit }) => {
      await submit("mail", { n: 1 }, { idempotencyKey: "k" })
      return submit("mail", { n: 2 }, { idempotencyKey: "k" })
    },
    "the idempotency key belongs to a job with a different request; use a new key",
  ],
  [
    "a priority out of range",
    ({ submit }) => submit("mail", {}, { priority: 10 }),
    "priority must be urgent, high, normal, low or an integer from -5 to 5, not 10",
  ],
  [
    "one tag",
    ({ submit }) => submit("mail", {}, { tags: "a" }),
    "tags must be a list of up to 16 texts of 1 to 64 characters",
  ],
  [
    "a date in metadata",
    ({ submit }) => submit("mail", {}, { metadata: { at: new Date(0) } }),
    "metadata.at must be a boolean, a number or a text of up to 256 characters. metadata.at: Date is not JSON; use text (toISOString()), in schemas too",
  ],
  [
    "a forgotten transaction",
    ({ submit }) => submit("mail", {}, { transaction: undefined }),
    "transaction is undefined; leave the option out to submit without one",
  ],
  [
    "a transaction of another store",
    ({ submit }) => submit("mail", {}, { transaction: {} }),
    "this store does not accept callers' transactions: use sqliteStore() or postgresStore(), or leave out transaction",
  ],
  [
    "an unknown mode",
    ({ submit }) => submit("mail", {}, { mode: "test" }),
    'unknown mode "test"; known: sandbox, live',
  ],
  [
    "a live job without its switch",
    ({ submit }) => submit("mail", {}, { mode: "live" }),
    "live jobs of this kind are not active; missing: switch:mailing",
  ],
  [
    "a field that no request has",
    ({ submit }) => submit("mail", {}, { unique: { by: ["too"], while: "unfinished" } }),
    'unknown field "too" of mail in unique.by; did you mean "to"?',
  ],
  [
    "requests instead of submissions",
    ({ submitMany }) => submitMany("mail", [{ n: 1 }]),
    "submitMany(), job 0, has no request: pass { request: { … } } for each job",
  ],
  [
    "one submission",
    ({ submitMany }) => submitMany("mail", { request: {} }),
    "submitMany() expects an array of { request, … }",
  ],
  ["an unknown job", ({ get }) => get(unknownJob), "no job with this id, or it belongs to another project"],
  ["no job", ({ get }) => get(undefined), "expected a job or the id of a job, not undefined"],
  [
    "a job without await",
    ({ get, submit }) => get(submit("mail", {})),
    "expected a job or the id of a job, not a promise: await it",
  ],
  [
    "a timeout without a name",
    ({ wait }) => wait(unknownJob, 5_000),
    "wait() expects its options as an object, not a value of type number",
  ],
  [
    "a wait without a worker",
    async ({ submit, wait }) => wait(await submit("mail", {}), { timeoutMs: 1 }),
    "the job did not finish within 1 ms and goes on; operator.waitingFor(job) says what it waits for",
  ],
  [
    "an unknown file",
    ({ readFile }) => readFile("fil_00000000000000000000000000"),
    "no file with this id, or its job's data was erased or has expired",
  ],
  [
    "a job instead of its file",
    async ({ readFile, submit }) => readFile(await submit("mail", {})),
    "expected a file, such as job.output.audio, not the job itself",
  ],
  [
    "data of an unfinished job",
    async ({ eraseData, submit }) => eraseData(await submit("mail", {})),
    "the job is not finished; wait for it or cancel it, then erase its data",
  ],
  [
    "a signal after the end",
    async ({ operator, signal, submit }) => {
      const job = await submit("mail", {})
      await operator["cancel"]?.(job)
      return signal(job, "go")
    },
    "the job is finished already",
  ],
  [
    "an unknown event",
    ({ on }) => on("done", run),
    'unknown event "done"; known: queued, active, progress, attempt_failed, completed, failed, erased',
  ],
]

const operating: ReadonlyArray<Mistake> = [
  [
    "retry of an unknown job",
    ({ operator }) => operator["retry"]?.(unknownJob),
    "no job with this id, or it belongs to another project",
  ],
  [
    "retry of a waiting job",
    async ({ operator, submit }) => operator["retry"]?.(await submit("mail", {})),
    "only a failed job that still has its data can be retried",
  ],
  [
    "an unknown status",
    ({ operator }) => operator["list"]?.({ status: "finished" }),
    'unknown status "finished"; did you mean "failed"?',
  ],
  ["an unknown kind", ({ operator }) => operator["pause"]?.("mial"), 'unknown job kind "mial"; did you mean "mail"?'],
  [
    "an unknown switch",
    ({ operator }) => operator["setSwitch"]?.("mailings", true),
    'unknown switch "mailings"; did you mean "mailing"?',
  ],
]

const daily = { kind: "mail", request: {} }
const schedules: ReadonlyArray<Mistake> = [
  [
    "one object",
    ({ schedules: { set } }) => set?.({ name: "daily", ...daily, everyMs: 60_000 }),
    'schedules.set() expects the name first: set("nightly", { kind, … })',
  ],
  [
    "words",
    ({ schedules: { set } }) => set?.("daily", { ...daily, cron: "every day" }),
    'cron must have five fields (minute, hour, day, month, weekday), not "every day"',
  ],
  [
    "seconds",
    ({ schedules: { set } }) => set?.("daily", { ...daily, cron: "0 0 9 * * *" }),
    'cron must have five fields (minute, hour, day, month, weekday), not "0 0 9 * * *"',
  ],
  [
    "a wrong hour",
    ({ schedules: { set } }) => set?.("daily", { ...daily, cron: "0 25 * * *" }),
    'invalid cron "0 25 * * *": the hour must be 0 to 23, a list, a range or a step, not "25"',
  ],
  [
    "a day that never comes",
    ({ schedules: { set } }) => set?.("daily", { ...daily, cron: "0 0 30 2 *" }),
    'cron "0 0 30 2 *" never occurs',
  ],
  [
    "a city as a time zone",
    ({ schedules: { set } }) => set?.("daily", { ...daily, cron: "0 9 * * *", timeZone: "Berlin" }),
    'unknown timeZone "Berlin"; use an IANA name, such as "Europe/Berlin"',
  ],
  ["no time", ({ schedules: { set } }) => set?.("daily", daily), "a schedule needs one of cron and everyMs"],
  [
    "seconds as milliseconds",
    ({ schedules: { set } }) => set?.("daily", { ...daily, everyMs: 60 }),
    "everyMs must be an integer from 1,000 (a second) to 31,622,400,000 (366 days)",
  ],
  [
    "a misspelled kind",
    ({ schedules: { set } }) => set?.("daily", { ...daily, kind: "mial", everyMs: 60_000 }),
    'unknown job kind "mial"; did you mean "mail"?',
  ],
  ["an unknown schedule", ({ schedules: { runNow } }) => runNow?.("nightly"), 'there is no schedule "nightly"'],
]

describe("a mistake", () => {
  let engine: Loose
  beforeAll(async () => {
    engine = (await createEngine({
      store: memoryStore(),
      blobs: memoryBlobs(),
      kinds: [mail, page],
      autoStart: false,
      log: false,
    })) as object as Loose
  })
  afterAll(() => engine.stop())

  it.each([
    ...jobs.map((row) => ["a job", ...row] as const),
    ...operating.map((row) => ["operator", ...row] as const),
    ...schedules.map((row) => ["a schedule", ...row] as const),
  ])("%s: %s", async (_, __, code, message) => expect(await messageOf(() => code(engine))).toBe(message))

  it("a worker without the kind: its jobs wait, and the operator reads why", async () => {
    const shared = memoryStore()
    await using web = await createEngine({ store: shared, kinds: [mail, other], worker: false, log: false })
    await using _worker = await createEngine({ store: shared, kinds: [mail], log: false })
    const reasons = await web.operator.waitingFor(await web.submit("other", {}))
    expect(reasons).toMatchObject([{ reason: "no_worker" }])
  })

  it("a call after stop(), a second stop(), and start() without a worker", async () => {
    const stopped = await createEngine({ store: memoryStore(), kinds: [mail], log: false })
    expect(await messageOf(() => stopped.stop(5_000 as never))).toBe(
      "stop() expects its options as an object, not a value of type number",
    )
    await stopped.stop()
    await stopped.stop()
    expect(await messageOf(() => stopped.submit("mail", {}))).toBe("the engine is closed")
    expect(await messageOf(() => stopped.start())).toBe("the engine is closed")
    await using web = await createEngine({ store: memoryStore(), kinds: [mail], worker: false, log: false })
    expect(await messageOf(() => web.start())).toBe(
      "start() needs a worker, but this engine was created with worker: false",
    )
  })
})
