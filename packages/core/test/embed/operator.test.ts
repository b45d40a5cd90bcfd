import { createEngine, jobKind } from "@kiln/core"
import { memoryBlobs } from "@kiln/testing"
import { describe, expect, it, vi } from "vitest"
import { z } from "zod"
import { everyStore } from "../support/everyStore.ts"
import { openWith } from "./support.ts"

/** A kind whose jobs do what their request says. */
const makeKind = () => {
  const log: Array<string> = []
  const kind = jobKind({
    name: "work",
    request: z.object({ n: z.number(), how: z.enum(["end", "hang", "fail"]).default("end") }),
    limits: { maxFailures: 1 },
    run: async ({ request: { how, n }, signal }) => {
      log.push(`${n} begins`)
      if (how === "fail") throw new Error("as it was told")
      if (how === "hang")
        await new Promise((_, reject) => {
          signal.addEventListener("abort", () => {
            log.push(`${n} aborted`)
            reject(new Error("aborted"))
          })
        })
      return { output: { n } }
    },
  })
  return { kind, log }
}

const isTrue = (check: () => boolean | Promise<boolean>) => vi.waitUntil(check, { timeout: 60_000, interval: 5 })

describe("operator methods", () => {
  it("list by project, kind, status and page, newest first", async () => {
    const { kind } = makeKind()
    await using engine = await openWith([kind], { autoStart: false })
    const ids: Array<string> = []
    for (const n of [1, 2, 3, 4, 5])
      ids.unshift((await engine.submit("work", { n }, { project: n < 4 ? "a" : "b" })).id)
    const idsOf = async (query: Parameters<typeof engine.operator.list>[0]) =>
      (await engine.operator.list(query)).jobs.map(({ id }) => id)
    expect(await idsOf({})).toEqual(ids)
    expect(await idsOf({ project: "b" })).toEqual(ids.slice(0, 2))
    expect(await idsOf({ status: "done" })).toEqual([])
    const first = await engine.operator.list({ limit: 2 })
    expect(first.jobs.map(({ id }) => id)).toEqual(ids.slice(0, 2))
    expect(first.jobs[0]).toMatchObject({ kind: "work", status: "queued", projectId: "prj_b", attempts: 0 })
    const all: Array<string> = []
    for await (const { id } of engine.operator.listAll({ limit: 2 })) all.push(id)
    expect(all).toEqual(ids)
    await expect(engine.operator.list({ after: "nonsense" })).rejects.toThrow(TypeError)
  })

  const shared = everyStore.filter(([name]) => name !== "memory")
  it.each(shared)("list jobs of a kind that only another program has (%s)", async (_, open) => {
    const { kind } = makeKind()
    const other = jobKind({ name: "works", request: z.object({}), run: async () => ({ output: {} }) })
    await using opened = await open()
    const parts = { store: opened.store, blobs: memoryBlobs(), autoStart: false } as const
    await using engine = await createEngine({ ...parts, kinds: [kind] })
    await engine.submit("work", { n: 1 })
    await using second = await createEngine({ ...parts, kinds: [other] })
    expect((await second.operator.list({ kind: "work" })).jobs).toHaveLength(1)
    expect((await second.operator.list({ kind: "work", status: "done" })).jobs).toEqual([])
    expect((await second.operator.list({ kind: "works" })).jobs).toEqual([])
    const unknown = second.operator.list({ kind: "worksheet" })
    await expect(unknown).rejects.toMatchObject({ code: "kind_unknown", kind: "worksheet", known: ["works", "work"] })
  })

  it("count waiting, running and finished jobs", async () => {
    const { kind } = makeKind()
    await using engine = await openWith([kind], { autoStart: false })
    for (const n of [1, 2]) await engine.submit("work", { n })
    await engine.submit("work", { n: 3 }, { delayMs: 60_000 })
    expect(await engine.operator.count()).toEqual([
      { kind: "work", mode: "sandbox", status: "delayed", count: 1 },
      { kind: "work", mode: "sandbox", status: "queued", count: 2 },
    ])
    await engine.start()
    await isTrue(async () =>
      (await engine.operator.count()).some(({ count, status }) => status === "done" && count === 2),
    )
    expect(await engine.operator.count({ project: "nobody" })).toEqual([])
  })

  it("cancel a waiting job, and a running one, whose attempt is interrupted", async () => {
    const { kind, log } = makeKind()
    await using engine = await openWith([kind])
    const waiting = await engine.submit("work", { n: 1 }, { delayMs: 60_000 })
    await engine.operator.cancel(waiting)
    expect(await engine.get(waiting)).toMatchObject({ status: "failed", errorCode: "canceled_by_operator" })
    const running = await engine.submit("work", { n: 2, how: "hang" })
    await isTrue(() => log.includes("2 begins"))
    const ended = engine.wait(running)
    await engine.operator.cancel(running.id)
    expect(await ended).toMatchObject({ status: "failed", errorCode: "canceled_by_operator" })
    await isTrue(() => log.includes("2 aborted"))
    expect(log).toEqual(["2 begins", "2 aborted"])
    await expect(engine.operator.cancel(running)).rejects.toMatchObject({ code: "job_finished" })
    await expect(engine.operator.cancel("job_none")).rejects.toMatchObject({ code: "job_not_found" })
  })

  it("interrupt a canceled job's attempt in this process immediately, and emit its end", async () => {
    const { kind, log } = makeKind()
    // No heartbeat checks whether the claim still holds.
    const settings = { claimCheckIntervalMs: 3_600_000, leaseDurationMs: 3_600_000 }
    await using engine = await openWith([kind], { settings })
    const heard: Array<string> = []
    engine.on("failed", ({ errorCode, jobId }) => heard.push(`${jobId} ${errorCode}`))
    const job = await engine.submit("work", { n: 1, how: "hang" })
    await isTrue(() => log.includes("1 begins"))
    await engine.operator.cancel(job)
    await isTrue(() => log.includes("1 aborted"))
    expect(heard).toEqual([`${job.id} canceled_by_operator`])
  })

  it("cap what the live jobs of a project may cost", async () => {
    const kind = jobKind({
      name: "paid",
      request: z.object({ units: z.number(), used: z.number().optional() }),
      price: "paid",
      meters: ["units"],
      maxUsage: ({ units }) => ({ units }),
      run: async ({ request: { units, used = units } }) => ({ output: {}, usage: { units: used } }),
    })
    const unbounded = jobKind({
      name: "unbounded",
      request: z.object({}),
      price: "paid",
      meters: ["units"],
      run: async () => ({ output: {}, usage: { units: 1 } }),
    })
    const logged: Array<string> = []
    await using engine = await openWith([kind, unbounded], { log: ({ message }) => void logged.push(message) })
    const { operator } = engine
    await operator.setPrice({ name: "paid", currency: "eur", unitAmounts: { units: "0.5" } })
    await operator.setSpendCap({ project: "acme" }, { currency: "eur", day: "2", month: "2.5" })
    const live = { project: "acme", mode: "live" } as const
    const refused = engine.submit("paid", { units: 5 }, live)
    await expect(refused).rejects.toMatchObject({
      code: "spend_cap_reached",
      owner: "project",
      reason: "cap",
      period: "day",
      currency: "eur",
      maximumCost: "2.5",
      resetsAt: null,
      retryable: false,
      message: "the job could cost up to 2.5 EUR, which passes the project's spend cap for this day",
    })
    await expect(engine.submit("unbounded", {}, live)).rejects.toMatchObject({ reason: "unbounded" })
    expect(await engine.submitAndWait("paid", { units: 3, used: 2 }, live)).toMatchObject({ status: "done" })
    expect(await operator.listSpending()).toEqual([
      {
        owner: "prj_acme",
        cap: { currency: "eur", day: "2", month: "2.5" },
        reserved: "0",
        day: "1",
        month: "1",
      },
    ])
    // A sandbox job is not charged, so nobody is told.
    expect(await engine.submitAndWait("paid", { units: 1, used: 2 }, { project: "acme" })).toMatchObject({
      status: "done",
    })
    expect(logged.some((line) => line.includes("maxUsage"))).toBe(false)
    // A kind that uses more than it said is charged for what it said.
    expect(await engine.submitAndWait("paid", { units: 2, used: 9 }, live)).toMatchObject({ status: "done" })
    expect(await operator.listSpending()).toMatchObject([{ day: "2" }])
    expect(logged.some((line) => line.includes("used more units than maxUsage of its kind paid states"))).toBe(true)
    await expect(engine.submit("paid", { units: 1 }, live)).rejects.toMatchObject({ resetsAt: expect.any(Date) })
    await engine.submit("paid", { units: 0 }, live)
    await engine.submit("paid", { units: 9 }, { project: "acme" })
    await engine.submit("paid", { units: 9 }, { ...live, project: "other" })
    await operator.setSpendCap({ project: "acme" }, null)
    await engine.submit("unbounded", {}, live)
    await operator.setSpendCap({ keyId: "key_acme_live" }, { currency: "usd", day: "9" })
    await expect(engine.submit("paid", { units: 1 }, live)).rejects.toMatchObject({ owner: "key", reason: "currency" })
  })

  it("limit how many jobs of a project run at the same time, and say so on the board", async () => {
    await using engine = await openWith([makeKind().kind], { autoStart: false })
    const { board, limitProject } = engine.operator
    await limitProject("acme", { concurrency: 3 })
    await limitProject("other", { concurrency: 0 })
    expect((await board()).projectConcurrency).toEqual({ prj_acme: 3, prj_other: 0 })
    await limitProject("acme", null)
    expect((await board()).projectConcurrency).toEqual({ prj_other: 0 })
    await expect(limitProject("acme", { concurrency: -1 })).rejects.toThrow(TypeError)
    await expect(limitProject("acme", { concurrency: 1.5 })).rejects.toThrow(TypeError)
    await expect(limitProject("acme", { concurrent: 1 } as never)).rejects.toThrow("concurrency")
  })

  it("refuse a spend cap without an owner, an amount or a currency", async () => {
    await using engine = await openWith([makeKind().kind], { autoStart: false })
    const { setSpendCap } = engine.operator
    const cap = { currency: "usd", day: "1" }
    await expect(setSpendCap({} as never, cap)).rejects.toThrow(TypeError)
    await expect(setSpendCap({ keyId: "acme" }, cap)).rejects.toThrow("key_")
    await expect(setSpendCap({ project: "a", keyId: "key_a" }, cap)).rejects.toThrow(TypeError)
    await expect(setSpendCap({ project: "a" }, { currency: "usd" })).rejects.toThrow("an amount")
    await expect(setSpendCap({ project: "a" }, { currency: "usd", day: "-1" })).rejects.toThrow("plain decimals")
    await expect(setSpendCap({ project: "a" }, { ...cap, week: "1" } as never)).rejects.toThrow("week")
  })

  it("wake a worker when a job is retried", async () => {
    const { kind } = makeKind()
    await using engine = await openWith([kind], { settings: { pollIntervalMs: 3_600_000 } })
    const failed = await engine.submitAndWait("work", { n: 1, how: "fail" })
    expect(await engine.wait(await engine.operator.retry(failed))).toMatchObject({ status: "failed" })
  })

  it("list by age", async () => {
    const { kind } = makeKind()
    await using engine = await openWith([kind], { autoStart: false })
    const { createdAt } = await engine.submit("work", { n: 1 })
    const later = new Date(createdAt.getTime() + 1)
    const found = async (query: { createdFrom?: Date; createdTo?: Date }) =>
      (await engine.operator.list(query)).jobs.length
    expect(await found({ createdFrom: createdAt, createdTo: later })).toBe(1)
    expect(await found({ createdFrom: later })).toBe(0)
    expect(await found({ createdTo: createdAt })).toBe(0)
  })

  it.each([[0], [1.5], [Number.NaN]])("refuse pages of %d jobs", async (limit) => {
    await using engine = await openWith([makeKind().kind], { autoStart: false })
    await expect(engine.operator.list({ limit })).rejects.toThrow(TypeError)
  })

  it("retry a failed job as a new one, once", async () => {
    const { kind } = makeKind()
    await using engine = await openWith([kind])
    const failed = await engine.submitAndWait("work", { n: 1, how: "fail" }, { priority: "high" })
    const [again, twice] = await Promise.all([engine.operator.retry(failed), engine.operator.retry(failed)])
    expect(again.id).not.toBe(failed.id)
    expect(twice.id).toBe(again.id)
    expect(again.priority).toBe("high")
    expect(await engine.wait(again)).toMatchObject({ status: "failed" })
    await expect(engine.operator.retry(await engine.submitAndWait("work", { n: 2 }))).rejects.toMatchObject({
      code: "job_not_retryable",
    })
    await engine.eraseData(again)
    await expect(engine.operator.retry(again)).rejects.toMatchObject({ code: "job_not_retryable" })
  })

  it("retry a job with its upload, which moves to the new job", async () => {
    let attempts = 0
    const kind = jobKind({
      name: "listen",
      request: z.object({ uploadId: z.string() }),
      upload: "uploadId",
      limits: { maxFailures: 1 },
      run: async ({ audio }) => {
        const { bytes, format } = await audio()
        if (++attempts < 3) throw new Error("not yet")
        return { output: { bytes, format } }
      },
    })
    await using engine = await openWith([kind])
    const upload = await engine.createUpload({ format: "wav", declaredSeconds: 1 })
    await engine.receiveUpload(upload, "audio/wav", new TextEncoder().encode("RIFF0000WAVEfmt "))
    const first = await engine.submitAndWait("listen", { uploadId: upload.id })
    const second = await engine.wait(await engine.operator.retry(first))
    expect(second).toMatchObject({ status: "failed", errorCode: "internal_error" })
    // The first job no longer has an upload, and reports that instead of running without one. Erasing it does not touch the
    // file.
    expect((await engine.operator.retry(first)).id).toBe(second.id)
    await engine.eraseData(first)
    expect(await engine.wait(await engine.operator.retry(second))).toMatchObject({
      status: "done",
      output: { bytes: 16, format: "wav" },
    })
  })

  it("pause a kind, whose jobs wait until it is resumed", async () => {
    const { kind, log } = makeKind()
    const other = jobKind({ name: "other", request: z.object({}), run: async () => ({ output: {} }) })
    await using engine = await openWith([kind, other], { autoStart: false })
    await engine.operator.pause("work")
    const job = await engine.submit("work", { n: 1 })
    await engine.start()
    const live = await engine.submit("work", { n: 2 }, { mode: "live" })
    expect(await engine.operator.board()).toMatchObject({ pausedKinds: ["work"], liveKinds: ["other", "work"] })
    // Whatever could have been claimed has been claimed by the time a later job of another kind is done.
    await engine.submitAndWait("other", {})
    expect(await engine.get(job)).toMatchObject({ status: "queued" })
    expect(await engine.get(live)).toMatchObject({ status: "queued" })
    expect(log).toEqual([])
    await engine.operator.resume("work")
    expect((await engine.operator.board()).pausedKinds).toEqual([])
    expect(await engine.wait(job)).toMatchObject({ status: "done" })
    expect(await engine.wait(live)).toMatchObject({ status: "done" })
  })

  it("set prices and switches, and read the ledger", async () => {
    const priced = jobKind({
      name: "priced",
      request: z.object({}),
      price: "p",
      meters: ["things"],
      switches: ["ai"],
      run: async () => ({ output: {}, usage: { things: 2 } }),
    })
    await using engine = await openWith([priced])
    const live = { mode: "live" } as const
    await engine.operator.setPrice({ name: "p", currency: "usd", unitAmounts: { things: "0.5" }, active: false })
    await expect(engine.submit("priced", {}, live)).rejects.toMatchObject({ missing: ["price:p", "switch:ai"] })
    await engine.operator.setPrice({ name: "p", currency: "usd", unitAmounts: { things: "0.25" } })
    await engine.operator.setSwitch("ai", true)
    expect(await engine.operator.board()).toMatchObject({
      switches: { ai: true, audio: false, images: false },
      prices: { p: { version: 2, currency: "usd", unitAmounts: { things: "0.25" } } },
    })
    const ids = []
    for (let n = 0; n < 3; n++) ids.push((await engine.submitAndWait("priced", {}, live)).id)
    const charges = []
    for await (const charge of engine.operator.listCharges({ from: new Date(0), to: new Date(8e15) }))
      charges.push(charge)
    expect(charges.map(({ jobId }) => jobId)).toEqual(ids)
    expect(charges[0]).toMatchObject({ amount: "0.5", currency: "usd", kind: "priced", chargedAt: expect.any(Date) })
  })

  it("read a ledger of several pages, each charge once", async () => {
    const priced = jobKind({
      name: "priced",
      request: z.object({}),
      price: "p",
      meters: [],
      run: async () => ({ output: {} }),
    })
    await using engine = await openWith([priced], { settings: { queueCap: 0 } })
    await engine.operator.setPrice({ name: "p", currency: "usd", unitAmounts: {} })
    const jobs = await Promise.all(Array.from({ length: 1_001 }, () => engine.submit("priced", {}, { mode: "live" })))
    await Promise.all(jobs.map((job) => engine.wait(job)))
    const charged = []
    for await (const { jobId } of engine.operator.listCharges({ from: new Date(0), to: new Date(8e15) }))
      charged.push(jobId)
    expect(charged.toSorted()).toEqual(jobs.map(({ id }) => id).toSorted())
  })

  it.each([
    ["a currency", { name: "p", currency: "Euro", unitAmounts: {} }],
    ["an amount", { name: "p", currency: "eur", unitAmounts: { things: "-1" } }],
    ["a name", { name: "", currency: "eur", unitAmounts: {} }],
  ])("refuse a price with an invalid %s", async (_, price) => {
    await using engine = await openWith([makeKind().kind])
    await expect(engine.operator.setPrice(price)).rejects.toThrow(TypeError)
  })
})
