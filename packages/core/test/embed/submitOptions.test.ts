import { AsyncLocalStorage } from "node:async_hooks"
import { type CallerContext, createEngine, jobKind } from "@kiln/core"
import { memoryBlobs, memoryStore, testEngine } from "@kiln/testing"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { openWith } from "./support.ts"

const report = jobKind({
  name: "report",
  request: z.object({ team: z.string(), month: z.number().optional() }),
  metadata: ["team"],
  run: async ({ metadata, tags }) => ({ output: { metadata, tags } }),
})
const other = jobKind({ name: "other", request: z.object({ team: z.string() }), run: async () => ({ output: {} }) })

const open = () => openWith([report, other], { autoStart: false })
const given = (options: object) => options as never

describe("unique", () => {
  it("returns the job of the first submission, marked, whatever the second one says", async () => {
    await using engine = await open()
    const unique = { by: "nightly", while: "unfinished" } as const
    const first = await engine.submit("report", { team: "a" }, { unique })
    expect(first).not.toHaveProperty("deduplicated")
    expect(await engine.submit("report", { team: "b" }, { unique })).toEqual({ ...first, deduplicated: true })
    const outcomes = await engine.submitMany("report", [{ request: { team: "c" }, unique }, { request: { team: "d" } }])
    expect(outcomes).toMatchObject([
      { job: { id: first.id }, replayed: false, deduplicated: true },
      { job: { status: "queued" }, replayed: false },
    ])
    expect(outcomes[1]).not.toHaveProperty("deduplicated")
  })

  it("compares the whole request, fields of it, or a text", async () => {
    await using engine = await open()
    const idOf = async (request: { team: string; month?: number }, by?: string | ReadonlyArray<string>) =>
      (await engine.submit("report", request, { unique: { ...(by !== undefined && { by }), while: "unfinished" } })).id
    const whole = await idOf({ team: "a", month: 1 })
    expect(await idOf({ month: 1, team: "a" })).toBe(whole)
    expect(await idOf({ team: "a", month: 2 })).not.toBe(whole)
    const byTeam = await idOf({ team: "a" }, ["team"])
    expect(byTeam).not.toBe(whole)
    expect(await idOf({ team: "a", month: 9 }, ["team"])).toBe(byTeam)
    expect(await idOf({ team: "b" }, ["team"])).not.toBe(byTeam)
    const byMonth = await idOf({ team: "a" }, ["month"])
    expect(await idOf({ team: "b" }, ["month"])).toBe(byMonth)
    expect(await idOf({ team: "a" }, "team")).not.toBe(byTeam)
  })

  it("compares what the schema makes of a request, with defaults and transforms", async () => {
    const schema = z.object({
      email: z.string().trim().toLowerCase(),
      language: z.string().default("en"),
      on: z.iso
        .date()
        .or(z.iso.datetime())
        .transform((text) => new Date(text))
        .optional(),
      tags: z
        .array(z.string())
        .transform((tags) => new Set(tags))
        .optional(),
    })
    const greeting = jobKind({ name: "greeting", request: schema, run: async () => ({ output: {} }) })
    await using engine = await openWith([greeting], { autoStart: false })
    const idOf = async (request: z.input<typeof schema>, by?: ReadonlyArray<string>) =>
      (await engine.submit("greeting", request, { unique: { ...(by && { by }), while: "unfinished" } })).id
    const whole = await idOf({ email: "a@b.example" })
    expect(await idOf({ email: " A@B.example", language: "en" })).toBe(whole)
    expect(await idOf({ email: "a@b.example", language: "de" })).not.toBe(whole)
    const byLanguage = await idOf({ email: "x" }, ["language"])
    expect(await idOf({ email: "y", language: "en" }, ["language"])).toBe(byLanguage)
    const byDate = await idOf({ email: "x", on: "2026-01-01" }, ["on"])
    expect(await idOf({ email: "y", on: "2026-01-01T00:00:00Z" }, ["on"])).toBe(byDate)
    expect(await idOf({ email: "y", on: "2026-01-02" }, ["on"])).not.toBe(byDate)
    // JSON cannot tell sets apart, so the request itself is compared.
    const byTags = await idOf({ email: "x", tags: ["a"] }, ["tags"])
    expect(await idOf({ email: "y", tags: ["a"] }, ["tags"])).toBe(byTags)
    expect(await idOf({ email: "y", tags: ["b"] }, ["tags"])).not.toBe(byTags)
  })

  it("holds for retries: a job is not retried while a newer one has its place", async () => {
    await using engine = await open()
    const unique = { by: "nightly", while: "unfinished" } as const
    const failed = await engine.submit("report", { team: "a" }, { unique })
    await engine.operator.cancel(failed)
    const newer = await engine.submit("report", { team: "b" }, { unique })
    const refusal: unknown = await engine.operator.retry(failed).catch((error: unknown) => error)
    expect(refusal).toMatchObject({ code: "job_not_retryable", duplicateOf: newer.id })
    expect(String(refusal)).toContain(`${newer.id} has taken its place`)
    await engine.operator.cancel(newer)
    const retried = await engine.operator.retry(failed)
    expect(await engine.submit("report", { team: "c" }, { unique })).toMatchObject({
      id: retried.id,
      deduplicated: true,
    })
    expect((await engine.operator.retry(failed)).id).toBe(retried.id)
    // A retry that fails can be retried again, by the same rule.
    await engine.operator.cancel(retried)
    const last = await engine.submit("report", { team: "d" }, { unique })
    await expect(engine.operator.retry(retried)).rejects.toMatchObject({ duplicateOf: last.id })
    expect((await engine.operator.list()).jobs.filter(({ status }) => status === "queued")).toHaveLength(1)
  })

  it("is a matter of one project, mode and kind", async () => {
    await using engine = await open()
    const unique = { by: "x", while: "unfinished" } as const
    const jobs = [
      await engine.submit("report", { team: "a" }, { unique }),
      await engine.submit("other", { team: "a" }, { unique }),
      await engine.submit("report", { team: "a" }, { unique, mode: "live" }),
      await engine.submit("report", { team: "a" }, { unique, project: "second" }),
    ]
    expect(new Set(jobs.map(({ id }) => id)).size).toBe(4)
  })

  it("in a test, `submit` returns the finished job, and a duplicate of it is marked", async () => {
    await using kiln = await testEngine({ kinds: [report] })
    const unique = { by: "x", while: 60_000 } as const
    const job = await kiln.submit("report", { team: "a" }, { unique })
    expect(await kiln.submit("report", { team: "b" }, { unique })).toMatchObject({ id: job.id, deduplicated: true })
    await kiln.advance(60_000)
    expect((await kiln.submit("report", { team: "b" }, { unique })).id).not.toBe(job.id)
  })

  it.each<[unknown, string]>([
    [{}, 'unique.while must be "queued", "unfinished" or a number of milliseconds'],
    [{ while: "unfinishd" }, 'unknown unique.while "unfinishd"; did you mean "unfinished"?'],
    [{ while: 0 }, "unique.while must be a number between 1"],
    [{ while: "queued", bye: "x" }, 'unknown option "bye" in unique; did you mean "by"?'],
    [{ while: "queued", by: 3 }, "unique.by must be a text or a list of names of request fields"],
    [{ while: "queued", by: [] }, "unique.by must be a text or a list of names of request fields"],
    [{ while: "queued", by: ["taem"] }, 'unknown field "taem" of report in unique.by; did you mean "team"?'],
  ])("refuses %j", async (unique, message) => {
    await using engine = await open()
    await expect(engine.submit("report", { team: "a" }, given({ unique }))).rejects.toThrow(message)
  })
})

describe("tags and metadata", () => {
  it("are shown in the job, reach its attempts and its retries, and stay when its data is erased", async () => {
    await using kiln = await testEngine({ kinds: [report] })
    const attached = { tags: ["eu", "nightly", "eu"], metadata: { order: 7, rush: true } }
    const job = await kiln.submit("report", { team: "a" }, attached)
    expect(job).toMatchObject({
      tags: ["eu", "nightly"],
      metadata: { team: "a", order: 7, rush: true },
      output: { tags: ["eu", "nightly"], metadata: { order: 7, rush: true } },
    })
    await kiln.eraseData(job)
    const { metadata, tags } = await kiln.get(job)
    expect([metadata, tags]).toEqual([job.metadata, job.tags])
  })

  it("filter lists and counts", async () => {
    await using engine = await open()
    const one = await engine.submit("report", { team: "a" }, { tags: ["eu"], metadata: { order: 7 } })
    const two = await engine.submit("other", { team: "a" }, { tags: ["eu", "rush"] })
    await engine.submit("report", { team: "a" })
    const idsOf = async (query: object) => (await engine.operator.list(query)).jobs.map(({ id }) => id)
    expect(await idsOf({ tags: ["eu"] })).toEqual([two.id, one.id])
    expect(await idsOf({ tags: ["eu", "rush"] })).toEqual([two.id])
    expect(await idsOf({ metadata: { order: 7 } })).toEqual([one.id])
    expect(await idsOf({ tags: ["eu"], kind: "other", status: "queued" })).toEqual([two.id])
    expect(await idsOf({ tags: [] })).toHaveLength(3)
    expect(await engine.operator.count({ tags: ["eu"] })).toEqual([
      { kind: "other", mode: "sandbox", status: "queued", count: 1 },
      { kind: "report", mode: "sandbox", status: "queued", count: 1 },
    ])
    await engine.operator.cancel(one)
    const retried = await engine.operator.retry(one)
    expect(retried).toMatchObject({ tags: ["eu"], metadata: { order: 7, team: "a" } })
    expect(await idsOf({ metadata: { order: 7 } })).toEqual([retried.id, one.id])
  })

  it.each<[object, string]>([
    [{ tags: "eu" }, "tags must be a list of up to 16 texts of 1 to 64 characters"],
    [{ tags: [""] }, "tags must be a list of up to 16 texts"],
    [{ tags: Array.from({ length: 17 }, String) }, "tags must be a list of up to 16 texts"],
    [{ metadata: { team: "b" } }, "metadata.team: the kind report keeps the request field of this name"],
    [{ metadata: { "kiln:x": 1 } }, 'not begin with "kiln:"'],
    [{ metadata: { a: { b: 1 } } }, "metadata.a must be a boolean, a number or a text of up to 256 characters"],
    [{ metadata: { a: Number.NaN } }, "metadata.a must be a boolean, a number"],
    [{ metadata: [] }, "metadata must be an object"],
  ])("refuses %j", async (options, message) => {
    await using engine = await open()
    await expect(engine.submit("report", { team: "a" }, given(options))).rejects.toThrow(message)
  })

  it("a list refuses tags and metadata that no job can have", async () => {
    await using engine = await open()
    await expect(engine.operator.list(given({ tags: "eu" }))).rejects.toThrow("tags must be a list")
    await expect(engine.operator.count(given({ metadata: { a: {} } }))).rejects.toThrow("metadata.a must be")
  })
})

describe("context", () => {
  const storage = new AsyncLocalStorage<{ readonly user: string }>()
  const context: CallerContext = {
    capture: () => storage.getStore(),
    restore: (value, run) => storage.run(value, run),
  }
  const whoami = jobKind({
    name: "whoami",
    request: z.object({}),
    run: async ({ step }) => {
      const inStep = await step("ask", async () => storage.getStore()?.user ?? "nobody")
      return { output: { inStep, inRun: storage.getStore()?.user ?? "nobody" } }
    },
  })
  const openWithContext = (given_: CallerContext = context) =>
    createEngine({ store: memoryStore(), blobs: memoryBlobs(), kinds: [whoami], log: false, context: given_ })

  it("carries values of the submitting program to the attempts of its job", async () => {
    await using engine = await openWithContext()
    const submitted = await storage.run({ user: "ada" }, () => engine.submit("whoami", {}))
    const many = await storage.run({ user: "eve" }, () => engine.submitMany("whoami", [{ request: {} }]))
    const none = await engine.submit("whoami", {})
    expect(await engine.wait(submitted)).toMatchObject({ output: { inStep: "ada", inRun: "ada" }, metadata: {} })
    expect(await engine.wait(many[0]?.job ?? "")).toMatchObject({ output: { inRun: "eve" } })
    expect(await engine.wait(none)).toMatchObject({ output: { inStep: "nobody", inRun: "nobody" } })
  })

  it("is that of no other caller: functions for a job see nothing of the call that happens to run it", async () => {
    const seen: Record<string, string> = {}
    const see = <A>(where: string, result: A): A => {
      seen[where] = storage.getStore()?.user ?? "nobody"
      return result
    }
    const watched = jobKind({
      name: "watched",
      request: z.object({}),
      retry: {
        retryIf: () => see("retryIf", true),
        backoff: () => see("backoff", 0),
      },
      run: async ({ attempt, step }) => {
        see("run", undefined)
        if (attempt === 1) throw new Error("once more")
        await step("step", async () => see("step", 1))
        return { output: {} }
      },
      onFinished: () => see("onFinished", undefined),
    })
    const batched = jobKind({
      name: "batched",
      request: z.object({}),
      batch: { size: 2, waitMs: 1 },
      run: async ({ jobs }) =>
        see(
          "batch",
          jobs.map(() => ({ output: {} })),
        ),
    })
    await storage.run({ user: "ada" }, async () => {
      await using engine = await createEngine({
        store: memoryStore(),
        kinds: [watched, batched],
        autoStart: false,
        log: false,
        context: { ...context, capture: () => undefined },
        onAttemptFailed: () => see("onAttemptFailed", undefined),
      })
      engine.on("completed", () => see("completed", undefined))
      await engine.submit("watched", {})
      await engine.submit("batched", {})
      while ((await engine.drain({ maxMs: 5_000 })).attempts > 0);
      expect(storage.getStore()).toEqual({ user: "ada" })
    })
    const functions = ["run", "step", "retryIf", "backoff", "onAttemptFailed", "onFinished", "completed", "batch"]
    expect(seen).toEqual(Object.fromEntries(functions.map((name) => [name, "nobody"])))
  })

  it.each<[string, unknown]>([
    ["not JSON", () => 1],
    ["longer than 4,096 characters", "x".repeat(4_096)],
  ])("refuses a context that is %s", async (_, value) => {
    await using engine = await openWithContext({ ...context, capture: () => value as never })
    await expect(engine.submit("whoami", {})).rejects.toThrow("context.capture must return JSON of at most 4096")
  })

  it("refuses a context without both functions", async () => {
    await expect(openWithContext({ capture: () => undefined } as never)).rejects.toThrow(
      "context must have the functions capture and restore",
    )
  })
})
