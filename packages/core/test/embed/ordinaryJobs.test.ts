import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileBlobs } from "@kiln/adapter-blobs"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { createEngine, type EmbeddedEngine, type JobMode, jobKind } from "@kiln/core"
import { jobBlobPrefix, type JobId } from "@kiln/core/domain"
import { embeddedContext } from "@kiln/core/effect"
import { JobStore } from "@kiln/core/ports"
import { memoryStore, testEngine } from "@kiln/testing"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { everyStore } from "../support/everyStore.ts"

/** An ordinary job: no provider, no price, no switch. */
const resize = jobKind({
  name: "resize",
  request: z.object({ width: z.int() }),
  output: z.object({ width: z.number() }),
  run: async ({ request }) => ({ output: { width: request.width } }),
})

const quick = { pollIntervalMs: 20, claimCheckIntervalMs: 50 } as const

/** The removals of files that are recorded. */
const purgesOf = (engine: EmbeddedEngine<typeof resize>) =>
  Effect.runPromise(Context.get(embeddedContext(engine), JobStore).listPurges(100))

describe("a program whose kinds need no provider, price or switch", () => {
  it.each(everyStore)("names no mode, no switch and no place for files, and sees none (%s)", async (_, open) => {
    await using opened = await open()
    const lines: Array<string> = []
    const settings = { ...quick, pruneIntervalMs: 20, blobWatchIntervalMs: 20 }
    const options = {
      store: opened.store,
      kinds: [resize],
      log: ({ level, message }: { readonly level: string; readonly message: string }) =>
        void (level === "debug" || level === "info" || lines.push(message)),
    }
    const first = await createEngine({ ...options, settings })
    const job = await first.submitAndWait("resize", { width: 3 })
    await first.stop()
    expect(job).toMatchObject({ status: "done", output: { width: 3 } })
    expect(Object.keys(job).sort()).toEqual(
      "attempts createdAt finishedAt id kind kindVersion metadata output priority status tags warningCode".split(" "),
    )
    // Records go without a place for files, and nothing is said about one.
    await using engine = await createEngine({ ...options, settings: { ...settings, jobRetentionMs: 1 } })
    await expect.poll(() => engine.operator.count(), { timeout: 60_000 }).toEqual([])
    await expect.poll(() => purgesOf(engine), { timeout: 60_000 }).toEqual([])
    expect(lines).toEqual([])
  })

  it.each(everyStore)("has many jobs (%s)", async (_, open) => {
    await using opened = await open()
    await using engine = await createEngine({ store: opened.store, kinds: [resize], settings: quick, log: false })
    await engine.submitAndWait("resize", { width: 3 })
    const outcomes = await engine.submitMany("resize", [{ request: { width: 4 } }])
    expect(outcomes.map(({ error }) => error)).toEqual([undefined])
    if (outcomes[0]?.job !== undefined) await engine.wait(outcomes[0].job)
    expect((await engine.operator.list({ kind: "resize" })).jobs).toHaveLength(2)
    expect(await engine.operator.count()).toMatchObject([{ kind: "resize", status: "done", count: 2 }])
  })

  it.each(everyStore)("erases data, whoever recorded that its files are to be removed (%s)", async (_, open) => {
    await using opened = await open()
    const parts = { store: opened.store, kinds: [resize], log: false } as const
    {
      await using engine = await createEngine({ ...parts, settings: quick })
      const { id } = await engine.submitAndWait("resize", { width: 3 })
      await engine.eraseData(id)
      expect(await purgesOf(engine)).toEqual([])
      // A process that ended before it removed anything.
      await engine.submitAndWait("resize", { width: 4 })
      await Effect.runPromise(Context.get(embeddedContext(engine), JobStore).expireData(0, 100))
      expect(await purgesOf(engine)).toHaveLength(1)
    }
    await using engine = await createEngine({ ...parts, settings: { ...quick, pruneIntervalMs: 20 } })
    await expect.poll(() => purgesOf(engine), { timeout: 60_000 }).toEqual([])
  })

  it("continues with a copy of its database", async () => {
    const directory = mkdtempSync(join(tmpdir(), "kiln-ordinary-"))
    const partsIn = (name: string) =>
      ({ store: sqliteStore({ path: join(directory, name) }), kinds: [resize], settings: quick, log: false }) as const
    try {
      {
        await using engine = await createEngine(partsIn("jobs.db"))
        await engine.submitAndWait("resize", { width: 3 })
      }
      copyFileSync(join(directory, "jobs.db"), join(directory, "copy.db"))
      await using engine = await createEngine({ ...partsIn("copy.db"), autoStart: false })
      expect(await engine.operator.adoptCopy({ unfinished: "cancel" })).toMatchObject({ adopted: true })
      await engine.start()
      const { id } = await engine.submitAndWait("resize", { width: 4 })
      await engine.eraseData(id)
      expect(await purgesOf(engine)).toEqual([])
    } finally {
      rmSync(directory, { recursive: true })
    }
  })

  it("leaves the files of other processes to those", async () => {
    const page = jobKind({
      name: "page",
      request: z.object({}),
      files: ["html"],
      run: async ({ writeFile }) => {
        await writeFile("html", async () => ({ data: new Uint8Array(9), mediaType: "text/html" }))
        return { output: {} }
      },
    })
    const directory = mkdtempSync(join(tmpdir(), "kiln-ordinary-"))
    const files = () =>
      readdirSync(join(directory, "files"), { recursive: true, withFileTypes: true }).filter(
        (entry) => entry.isFile() && readFileSync(join(entry.parentPath, entry.name)).includes(Buffer.alloc(9)),
      )
    const parts = { store: sqliteStore({ path: join(directory, "jobs.db") }), settings: quick, log: false } as const
    const withFiles = { ...parts, kinds: [page], blobs: fileBlobs({ directory: join(directory, "files") }) }
    try {
      let id: JobId = "job_"
      {
        await using engine = await createEngine(withFiles)
        const job = await engine.submitAndWait("page", {})
        expect(job.status).toBe("done")
        id = job.id
      }
      expect(files()).toHaveLength(1)
      {
        const settings = { ...quick, pruneIntervalMs: 20, blobWatchIntervalMs: 20, jobRetentionMs: 1 }
        await using engine = await createEngine({ ...parts, settings, kinds: [resize] })
        await expect(engine.eraseData(id)).rejects.toThrow("this engine has no place for files")
        // Its own job has none, but it cannot know that of jobs of others.
        const own = await engine.submit("resize", { width: 3 })
        await expect
          .poll(() => engine.operator.list({ kind: "resize" }), { timeout: 60_000 })
          .toMatchObject({ jobs: [] })
        expect(await purgesOf(engine)).toEqual([id, own.id].map((job) => ({ blobPrefix: jobBlobPrefix(job) })))
      }
      expect(files()).toHaveLength(1)
      await using engine = await createEngine(withFiles)
      await engine.eraseData(id)
      expect(files()).toEqual([])
    } finally {
      rmSync(directory, { recursive: true })
    }
  })

  it("is tested without them", async () => {
    await using engine = await testEngine({ kinds: [resize] })
    expect(await engine.submit("resize", { width: 5 })).toMatchObject({ status: "done", output: { width: 5 } })
    expect(await engine.submitted()).toMatchObject([{ kind: "resize", status: "done" }])
  })

  it.each<[JobMode | undefined, JobMode]>([
    [undefined, "sandbox"],
    ["live", "live"],
    ["sandbox", "sandbox"],
  ])("gives all its jobs the mode of the engine: %s", async (mode, expected) => {
    const parts = { store: memoryStore(), kinds: [resize], settings: quick, log: false } as const
    await using engine = await createEngine({ ...parts, ...(mode && { mode }) })
    const modes = async () => new Set((await engine.operator.list()).jobs.map((job) => job.mode))
    expect(await engine.submitAndWait("resize", { width: 1 })).toMatchObject({ status: "done" })
    await engine.submitMany("resize", [{ request: { width: 1 } }])
    expect(await modes()).toEqual(new Set([expected]))
    await engine.schedules.set("daily", { kind: "resize", request: { width: 1 }, cron: "0 3 * * *" })
    expect(await engine.schedules.list()).toMatchObject([{ mode: expected }])
    await engine.submit("resize", { width: 1 }, { mode: "sandbox" })
    expect(await modes()).toEqual(new Set([expected, "sandbox"]))
  })
})

const exporting = jobKind({
  name: "export",
  request: z.object({}),
  switches: ["exports", "ai"],
  run: async () => ({ output: {} }),
})

describe("a switch of a kind's own", () => {
  it.each(everyStore)("lets live jobs in and stops them (%s)", async (_, open) => {
    await using opened = await open()
    const parts = { store: opened.store, kinds: [exporting, resize], settings: quick } as const
    await using engine = await createEngine({ ...parts, mode: "live", log: false })
    expect((await engine.operator.board()).switches).toMatchObject({ exports: false, ai: false })
    await expect(engine.submit("export", {})).rejects.toMatchObject({
      code: "live_not_active",
      // The built-in switches come first.
      missing: ["switch:ai", "switch:exports"],
    })
    // Other kinds do not need it, and sandbox jobs need none.
    expect(await engine.submitAndWait("resize", { width: 1 })).toMatchObject({ status: "done" })
    expect(await engine.submitAndWait("export", {}, { mode: "sandbox" })).toMatchObject({ status: "done" })
    await engine.operator.setSwitch("ai", true)
    await engine.operator.setSwitch("exports", true)
    expect((await engine.operator.board()).switches).toMatchObject({ exports: true, ai: true })
    expect(await engine.submitAndWait("export", {})).toMatchObject({ status: "done" })
    await engine.operator.setSwitch("exports", false)
    await expect(engine.submit("export", {})).rejects.toMatchObject({ missing: ["switch:exports"] })
  })

  it("is forced off by the settings of a process", async () => {
    await using engine = await createEngine({
      store: memoryStore(),
      kinds: [exporting],
      mode: "live",
      settings: { ...quick, forcedOff: ["exports"] },
      log: false,
    })
    await engine.operator.setSwitch("ai", true)
    await engine.operator.setSwitch("exports", true)
    expect((await engine.operator.board()).switches).toMatchObject({ ai: true, exports: false })
    await expect(engine.submit("export", {})).rejects.toMatchObject({ missing: ["switch:exports"] })
  })

  it("is on in a test engine", async () => {
    await using engine = await testEngine({ kinds: [exporting], jobMode: "live" })
    expect(await engine.submit("export", {})).toMatchObject({ status: "done", mode: "live" })
  })

  it.each(["", "Exports", "a b", "__proto__", "1st", "x".repeat(65)])("may not be called %j", (name) => {
    const define = () =>
      jobKind({ name: "export", request: z.object({}), switches: [name], run: async () => ({ output: {} }) })
    expect(define).toThrow("a switch must be up to 64 lower-case letters")
  })

  it("is off although an object has a property of its name", async () => {
    const odd = jobKind({
      name: "odd",
      request: z.object({}),
      switches: ["constructor"],
      run: async () => ({ output: {} }),
    })
    await using engine = await createEngine({ store: memoryStore(), kinds: [odd], mode: "live" })
    await expect(engine.submit("odd", {})).rejects.toMatchObject({ missing: ["switch:constructor"] })
  })
})
