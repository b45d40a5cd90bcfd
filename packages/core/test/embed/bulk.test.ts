import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { createEngine, jobKind } from "@kiln/core"
import { effectProvider, ProviderPostponed } from "@kiln/core/providers"
import { memoryBlobs, memoryStore, testEngine } from "@kiln/testing"
import * as Effect from "effect/Effect"
import { describe, expect, it, vi } from "vitest"
import { z } from "zod"
import { everyStore } from "../support/everyStore.ts"
import { mp3, plainProviders } from "../support/harness.ts"

const kindOf = <const Name extends string>(name: Name) =>
  jobKind({
    name,
    request: z.object({ n: z.number() }),
    run: async ({ failure }) => {
      throw failure("internal_error")
    },
  })

const nothing = { changed: 0, skipped: 0, refused: [], complete: true, next: undefined }

describe.each(everyStore)("bulk operations on %s", (_, open) => {
  it("cancel and retry what a filter selects, in batches, and nothing else", async () => {
    await using opened = await open()
    await using engine = await createEngine({
      store: opened.store,
      blobs: memoryBlobs(),
      kinds: [kindOf("mail"), kindOf("page")],
      autoStart: false,
      log: false,
    })
    const { operator } = engine
    for (let n = 0; n < 5; n++) await engine.submit("mail", { n }, { tags: n < 3 ? ["nightly"] : [] })
    const page = await engine.submit("page", { n: 9 })
    const statuses = async () =>
      (await operator.list({})).jobs.map(({ kind, status }) => `${kind} ${status}`).toSorted()

    expect(await operator.cancelMany({ tags: ["nightly"] }, { dryRun: true })).toEqual({ ...nothing, matched: 3 })
    expect(await statuses()).toEqual([...Array(5).fill("mail queued"), "page queued"])

    const first = await operator.cancelMany({ kind: "mail" }, { limit: 2 })
    expect(first).toMatchObject({ matched: 2, changed: 2, skipped: 0, complete: false, next: expect.any(String) })
    const rest = await operator.cancelMany({ kind: "mail" }, { after: first.next ?? "" })
    expect(rest).toEqual({ ...nothing, matched: 3, changed: 3 })
    expect(await statuses()).toEqual([...Array(5).fill("mail failed"), "page queued"])
    expect(await operator.cancelMany({ kind: "mail" })).toEqual({ ...nothing, matched: 0 })

    const failed = { kind: "mail", errorCode: "canceled_by_operator" }
    const [one] = (await operator.list({ ...failed, limit: 1 })).jobs
    await operator.retry(one?.id ?? "")
    const gone = (await operator.list({ ...failed })).jobs[2]
    await engine.eraseData(gone?.id ?? "")
    expect(await operator.retryMany(failed, { dryRun: true })).toEqual({ ...nothing, matched: 5 })
    expect(await operator.retryMany(failed)).toEqual({
      ...nothing,
      matched: 5,
      changed: 3,
      skipped: 1,
      refused: [{ message: expect.stringContaining("still has its data"), count: 1 }],
    })
    expect((await statuses()).filter((status) => status === "mail queued")).toHaveLength(4)
    // Repeated, it creates no other jobs.
    expect(await operator.retryMany(failed)).toMatchObject({ changed: 0, skipped: 4 })
    expect(await engine.get(page)).toMatchObject({ status: "queued" })
  })
})

describe.each(everyStore)("promote and reschedule on %s", (_, open) => {
  it("let waiting jobs start at another time, one or all that match, and wake an idle worker", async () => {
    await using opened = await open()
    const started: Array<number> = []
    const kind = jobKind({
      name: "mail",
      request: z.object({ n: z.number() }),
      run: async ({ request }) => {
        started.push(request.n)
        return { output: {} }
      },
    })
    await using engine = await createEngine({
      store: opened.store,
      blobs: memoryBlobs(),
      kinds: [kind],
      log: false,
      // It would look again in a minute: only the promotion can wake it in time.
      settings: {
        pollIntervalMs: 60_000,
        idlePollIntervalMs: 60_000,
        sweepIntervalMs: 60_000,
        idleSweepIntervalMs: 60_000,
      },
    })
    const { operator } = engine
    const day = 86_400_000
    const one = await engine.submit("mail", { n: 1 }, { delayMs: day })
    const late = { delayMs: day, tags: ["late"] }
    const others = [await engine.submit("mail", { n: 2 }, late), await engine.submit("mail", { n: 3 }, late)]
    await operator.promote(one)
    expect(await engine.wait(one, { timeoutMs: 50_000 })).toMatchObject({ status: "done" })
    expect(started).toEqual([1])

    const before = Date.now()
    await operator.reschedule(others[0]?.id ?? "", { runAt: new Date(before + 2 * day) })
    const { jobs } = await operator.list({ status: "queued", limit: 10 })
    const listed = jobs.find(({ id }) => id === others[0]?.id)
    expect(Math.abs((listed?.claimableAt?.getTime() ?? 0) - before - 2 * day)).toBeLessThan(60_000)
    expect(await operator.rescheduleMany({ tags: ["late"] }, { delayMs: 3 * day })).toMatchObject({ changed: 2 })
    expect(await operator.promoteMany({ tags: ["late"] }, { dryRun: true })).toEqual({ ...nothing, matched: 2 })
    expect(started).toEqual([1])
    expect(await operator.promoteMany({ tags: ["late"] })).toEqual({ ...nothing, matched: 2, changed: 2 })
    for (const job of others) await engine.wait(job, { timeoutMs: 50_000 })
    expect(new Set(started)).toEqual(new Set([1, 2, 3]))
    expect(await operator.promoteMany({ tags: ["late"] })).toEqual({ ...nothing, matched: 0 })
    await expect(operator.promote(one)).rejects.toMatchObject({ code: "job_finished" })
    await expect(operator.promote("job_none")).rejects.toMatchObject({ code: "job_not_found" })
  })
})

describe.each(everyStore)("promoteMany and rescheduleMany on %s", (_, open) => {
  it("change no more jobs than asked for, in batches that leave none out", async () => {
    await using opened = await open()
    const parts = { store: opened.store, blobs: memoryBlobs(), kinds: [kindOf("mail")], autoStart: false } as const
    await using engine = await createEngine({ ...parts, log: false })
    const { operator } = engine
    // Ready jobs are between those that wait.
    for (let n = 0; n < 7; n++) await engine.submit("mail", { n }, n % 2 === 0 ? { delayMs: 3_600_000 } : {})
    const waiting = async () => (await operator.promoteMany({ kind: "mail" }, { dryRun: true })).matched
    expect(await waiting()).toBe(4)
    let next: string | undefined
    for (const left of [3, 2, 1]) {
      const batch = await operator.promoteMany(
        { kind: "mail" },
        { limit: 1, ...(next !== undefined && { after: next }) },
      )
      expect(batch).toMatchObject({ matched: 1, changed: 1, complete: false })
      expect(await waiting()).toBe(left)
      next = batch.next
    }
    expect(await operator.promoteMany({ kind: "mail" }, { after: next ?? "" })).toMatchObject({
      changed: 1,
      complete: true,
    })
    expect(await operator.rescheduleMany({ kind: "mail" }, { delayMs: 60_000 }, { limit: 5 })).toMatchObject({
      changed: 5,
    })
    expect(await waiting()).toBe(5)
  })
})

describe.each(everyStore)("a change of priority on %s", (_, open) => {
  it("decides which job a worker takes next, also for jobs of a filter", async () => {
    await using opened = await open()
    const started: Array<number> = []
    const kind = jobKind({
      name: "mail",
      request: z.object({ n: z.number() }),
      run: async ({ request }) => {
        started.push(request.n)
        return { output: {} }
      },
    })
    const parts = { store: opened.store, blobs: memoryBlobs(), kinds: [kind], log: false } as const
    await using engine = await createEngine({ ...parts, autoStart: false, settings: { concurrency: 1 } })
    const { operator } = engine
    const jobs = []
    for (let n = 0; n < 5; n++) jobs.push(await engine.submit("mail", { n }, n < 2 ? { tags: ["bulk"] } : {}))
    const last = jobs[4]?.id ?? ""
    await operator.reschedule(last, { priority: "urgent" })
    expect(await engine.get(last)).toMatchObject({ priority: "urgent" })
    expect(await operator.rescheduleMany({ tags: ["bulk"] }, { priority: -2 })).toMatchObject({
      matched: 2,
      changed: 2,
    })
    expect(await operator.rescheduleMany({ tags: ["bulk"] }, { priority: -2 })).toMatchObject({
      changed: 0,
      skipped: 2,
    })
    await engine.start()
    for (const job of jobs) await engine.wait(job, { timeoutMs: 50_000 })
    expect(started).toEqual([4, 2, 3, 0, 1])
    await expect(operator.reschedule(last, { priority: "high" })).rejects.toMatchObject({ code: "job_finished" })
    for (const wrong of [{}, { priority: 6 }, { priority: "soon" }, { priority: 1, delayMs: 1, runAt: new Date() }])
      await expect(operator.reschedule(last, wrong as never)).rejects.toThrow(TypeError)
  })
})

describe("promoteMany", () => {
  it("promotes what promote does: also a job whose provider put off its call", async () => {
    let calls = 0
    const speech = effectProvider("speech", () =>
      Effect.suspend(() =>
        ++calls === 1 ? Effect.fail(new ProviderPostponed({ delayMs: 3_600_000 })) : Effect.succeed(mp3),
      ),
    )
    const providers = { ...plainProviders, speech } as never
    const kind = jobKind({
      name: "spoken",
      request: z.object({}),
      providers: ["speech"],
      run: async ({ ask }) => {
        await ask.speech({ text: "hello", voice: "alloy" })
        return { output: {} }
      },
    })
    await using engine = await createEngine({
      store: memoryStore(),
      blobs: memoryBlobs(),
      kinds: [kind],
      providers: { sandbox: providers, live: providers },
      log: false,
    })
    const job = await engine.submit("spoken", {})
    await vi.waitUntil(async () => (await engine.operator.waitingFor(job))[0]?.reason === "provider_paused", {
      timeout: 60_000,
      interval: 5,
    })
    expect(await engine.operator.promoteMany({ kind: "spoken" }, { dryRun: true })).toMatchObject({ matched: 1 })
    expect(await engine.operator.promoteMany({ kind: "spoken" })).toMatchObject({ matched: 1, changed: 1 })
    expect(await engine.wait(job, { timeoutMs: 60_000 })).toMatchObject({ status: "done" })
  })
})

describe("promote", () => {
  it("skips the pause before the next attempt, and refuses a job that runs or waits for an event", async () => {
    const signals: Array<AbortSignal> = []
    const kind = jobKind({
      name: "flow",
      request: z.object({ how: z.enum(["fail", "hang", "wait"]) }),
      limits: { maxFailures: 3 },
      retry: { backoff: { baseMs: 3_600_000, maxMs: 3_600_000 } },
      run: async ({ failure, request: { how }, signal, waitFor }) => {
        if (how === "fail") throw failure("internal_error", { retry: true })
        if (how === "wait") await waitFor("approved", { timeout: "1 hour" })
        if (how === "hang") {
          signals.push(signal)
          await new Promise((resolve) => {
            signal.addEventListener("abort", resolve)
          })
        }
        return { output: {} }
      },
    })
    await using kiln = await createEngine({
      store: memoryStore(),
      blobs: memoryBlobs(),
      kinds: [kind],
      log: false,
      settings: { drainMs: 0 },
    })
    const until = (check: () => boolean | Promise<boolean>) => vi.waitUntil(check, { timeout: 60_000, interval: 5 })
    const attempts = async (id: string) => (await kiln.operator.listAttempts(id)).length
    const failing = await kiln.submit("flow", { how: "fail" })
    await until(async () => (await attempts(failing.id)) === 1)
    await kiln.operator.promote(failing)
    await until(async () => (await attempts(failing.id)) === 2)
    const hanging = await kiln.submit("flow", { how: "hang" })
    await until(() => signals.length === 1)
    await expect(kiln.operator.promote(hanging)).rejects.toMatchObject({ code: "job_not_waiting", reason: "running" })
    const waiting = await kiln.submit("flow", { how: "wait" })
    await until(async () => (await kiln.operator.waitingFor(waiting)).some(({ reason }) => reason === "signal"))
    const message: unknown = expect.stringContaining("prerequisites, children, a signal or a sleep")
    const refused = { code: "job_not_waiting", reason: "parked", message }
    await expect(kiln.operator.promote(waiting)).rejects.toMatchObject(refused)
    await expect(kiln.operator.reschedule(waiting, { delayMs: 5 })).rejects.toMatchObject(refused)
    expect(await kiln.operator.promoteMany({ kind: "flow" }, { dryRun: true })).toMatchObject({ matched: 1 })
    const all = { kind: "flow" }
    expect(await kiln.operator.rescheduleMany(all, { delayMs: 5_000_000 }, { dryRun: true })).toMatchObject({
      matched: 1,
    })
    expect(await kiln.operator.rescheduleMany(all, { delayMs: 5_000_000 })).toMatchObject({ matched: 1, changed: 1 })
    for (const start of [
      {},
      { delayMs: -1 },
      { delayMs: 1, runAt: new Date() },
      { runAt: new Date(Number.NaN) },
      { at: 5 },
    ])
      await expect(kiln.operator.reschedule(failing, start as never)).rejects.toThrow(TypeError)
  })
})

describe.each(everyStore)("a listed job on %s", (_, open) => {
  it("carries its tags, metadata, version, failures and the start of its attempt", async () => {
    await using opened = await open()
    const hang = jobKind({
      name: "hang",
      version: 2,
      request: z.object({ team: z.string(), secret: z.string() }),
      metadata: ["team"],
      run: ({ signal }) =>
        new Promise<never>((_resolve, reject) => {
          signal.addEventListener("abort", () => reject(new Error("aborted")))
        }),
    })
    const settings = { drainMs: 0 }
    const parts = { store: opened.store, blobs: memoryBlobs(), kinds: [hang], log: false, settings } as const
    await using engine = await createEngine(parts)
    const before = Date.now()
    await engine.submit("hang", { team: "ops", secret: "s" }, { tags: ["nightly"], metadata: { order: 7 } })
    await engine.submit("hang", { team: "ops", secret: "s" }, { delayMs: 3_600_000 })
    const listed = async () => (await engine.operator.list()).jobs.toReversed()
    await vi.waitUntil(async () => (await listed())[0]?.startedAt !== null, { timeout: 60_000, interval: 5 })
    const [running, delayed] = await listed()
    expect(running).toMatchObject({
      kindVersion: 2,
      tags: ["nightly"],
      metadata: { team: "ops", order: 7 },
      failures: 0,
      startedAt: expect.any(Date),
    })
    expect(Math.abs((running?.startedAt?.getTime() ?? 0) - before)).toBeLessThan(60_000)
    expect(delayed).toMatchObject({ tags: [], metadata: { team: "ops" }, startedAt: null })
    expect(JSON.stringify([running, delayed])).not.toMatch(/secret|kiln:/)
  })
})

describe.each(everyStore)("a filter on %s", (_, open) => {
  it("refuses a condition without a value, which would select all jobs", async () => {
    await using opened = await open()
    const parts = { store: opened.store, blobs: memoryBlobs(), kinds: [kindOf("mail")], autoStart: false } as const
    await using engine = await createEngine({ ...parts, log: false })
    await engine.submit("mail", { n: 1 })
    for (const name of ["project", "kind", "keyId", "errorCode", "tags", "metadata", "status", "mode", "olderThanMs"]) {
      const filter = { [name]: null } as object
      await expect(engine.operator.cancelMany(filter), name).rejects.toThrow(new RegExp(`${name} must be`))
      await expect(engine.operator.list(filter), name).rejects.toThrow(new RegExp(`${name} must be`))
    }
    await expect(engine.operator.cancelMany({ errorCode: "" })).rejects.toThrow(/errorCode must be/)
    expect(await engine.operator.cancelMany({ kind: "mail" }, { dryRun: true })).toMatchObject({ matched: 1 })
  })
})

describe("retryMany", () => {
  it("retries the jobs around one whose record is damaged, and counts that one as refused", async () => {
    const directory = await mkdtemp(join(tmpdir(), "kiln-bulk-"))
    const path = join(directory, "kiln.db")
    const parts = { blobs: memoryBlobs(), kinds: [kindOf("mail")], autoStart: false, log: false } as const
    await using engine = await createEngine({ ...parts, store: sqliteStore({ path }) })
    for (let n = 0; n < 3; n++) await engine.submit("mail", { n })
    const [, middle] = (await engine.operator.list()).jobs
    await engine.operator.cancelMany({ kind: "mail" })
    const database = new DatabaseSync(path)
    const triggers = database.prepare(
      "SELECT name FROM sqlite_master WHERE type = 'trigger' AND sql LIKE '%created with%'",
    )
    for (const { name } of triggers.all()) database.exec(`DROP TRIGGER ${String(name)}`)
    database.prepare("UPDATE kiln_jobs SET kept = 'damaged' WHERE id = ?").run(middle?.id ?? "")
    database.close()
    const refused = [{ message: expect.stringContaining("could not be read or retried"), count: 1 }]
    expect(await engine.operator.retryMany({ kind: "mail" })).toMatchObject({ changed: 2, refused, complete: true })
    await rm(directory, { recursive: true })
  })
})

describe("a filter", () => {
  it("must have a condition, of a kind that exists", async () => {
    await using kiln = await testEngine({ kinds: [kindOf("mail")], mode: "manual" })
    const { cancelMany, retryMany } = kiln.operator
    const job = await kiln.submit("mail", { n: 1 })
    for (const empty of [
      {},
      { kind: undefined },
      { status: "queued" },
      { tags: [] },
      { metadata: {} },
      { olderThanMs: 0 },
    ] as ReadonlyArray<object>)
      for (const change of [cancelMany, retryMany])
        await expect(change(empty)).rejects.toThrow(/needs a condition besides status/)
    await expect(cancelMany({ kind: "male" })).rejects.toMatchObject({ code: "kind_unknown", known: ["mail"] })
    await expect(cancelMany({ kinds: "mail" } as never)).rejects.toThrow(/kinds/)
    await expect(cancelMany({ kind: "mail" }, { limit: 0 })).rejects.toThrow(/limit/)
    await expect(cancelMany({ kind: "mail" }, { after: "nonsense" })).rejects.toThrow(/invalid cursor/)
    expect((await kiln.get(job)).status).toBe("queued")
  })

  it("selects by age", async () => {
    await using kiln = await testEngine({ kinds: [kindOf("mail")], mode: "manual" })
    const old = await kiln.submit("mail", { n: 1 }, { delayMs: 3_600_000 })
    await kiln.advance(600_000)
    const young = await kiln.submit("mail", { n: 2 }, { delayMs: 3_600_000 })
    const olderThan = async (olderThanMs: number) =>
      (await kiln.operator.list({ olderThanMs })).jobs.map(({ id }) => id)
    expect(await olderThan(600_000)).toEqual([old.id])
    expect(await olderThan(600_001)).toEqual([])
    expect(await olderThan(0)).toEqual([young.id, old.id])
    expect(await kiln.operator.cancelMany({ olderThanMs: 300_000 })).toMatchObject({ matched: 1, changed: 1 })
    expect([(await kiln.get(old)).status, (await kiln.get(young)).status]).toEqual(["failed", "queued"])
  })
})
