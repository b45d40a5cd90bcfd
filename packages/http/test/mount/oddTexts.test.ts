import { join } from "node:path"
import { createEngine, failure, jobKind, type LogEntry, type StoreAdapter } from "@kiln/core"
import { postgresStore } from "@kiln/adapter-postgres"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { freshDatabase } from "@kiln/postgres-lab"
import { fakeMp3, memoryBlobs, memoryStore } from "@kiln/testing"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { createApiKey } from "../../src/mount/index.ts"
import { temporaryDirectory } from "@kiln/service-lab"

/** Texts that Postgres refuses and that SQLite changes, given by programs: no store sees one, and all answer the same. */

const odd = ["\u0000", "a\u0000b", "\ud800", "a\udc00"]

type Step = "step" | "file" | "mediaType" | "value" | "code" | "warning"

/** A kind whose attempts put a text wherever an attempt may put one. */
const odds = jobKind({
  name: "odds",
  request: z.object({ where: z.string(), text: z.string(), tag: z.string().optional() }),
  metadata: ["tag"],
  limits: { maxFailures: 1 },
  run: async ({ writeFile, request: { text, where }, step }) => {
    const at = where as Step
    if (at === "step") await step(text, async () => 1)
    if (at === "file")
      await writeFile(text as never, async () => ({ data: new Uint8Array(1), mediaType: "text/plain" }))
    if (at === "mediaType")
      await writeFile("odd" as never, async () => ({ data: new Uint8Array(1), mediaType: `text/${text}` }))
    const kept = at === "value" ? await step("kept", async () => text) : text
    if (at === "code") throw failure(text, { message: "as it was told" })
    return { output: { kept, [text]: text }, ...(at === "warning" && { warningCode: text as never }) }
  },
})
const speech = async () => ({ data: fakeMp3("hello"), mediaType: "audio/mpeg" })

const transcribing = jobKind({
  name: "listening",
  request: z.object({ uploadId: z.string() }),
  upload: "uploadId",
  run: async () => ({ output: {} }),
})

const opened = (store: StoreAdapter, told: Array<LogEntry>) =>
  createEngine({
    store,
    blobs: memoryBlobs(),
    kinds: [odds, transcribing],
    providers: { sandbox: { speech } },
    settings: { pollIntervalMs: 20 },
    log: (entry: LogEntry) => told.push(entry),
  })

const stores = {
  memory: async () => ({ store: memoryStore(), dispose: async () => undefined }),
  SQLite: async () => {
    const directory = temporaryDirectory()
    const store = sqliteStore({ path: join(directory.path, "kiln.db") })
    return { store, dispose: async () => void directory[Symbol.dispose]() }
  },
  Postgres: async () => {
    const database = await freshDatabase()
    return { store: postgresStore({ url: database.url }), dispose: () => database.dispose() }
  },
}

describe("texts that stores treat differently, from a program", () => {
  for (const [name, open] of Object.entries(stores))
    it(`reach no store, on ${name}`, async () => {
      const { dispose, store } = await open()
      await using cleanUp = new AsyncDisposableStack()
      cleanUp.defer(dispose)
      const told: Array<LogEntry> = []
      const engine = cleanUp.use(await opened(store, told))
      const { operator } = engine
      for (const text of odd) {
        // A name of anything is refused before the store, and what cannot exist is not found.
        await expect(engine.submit("listening", { uploadId: text })).rejects.toMatchObject({ code: "upload_not_found" })
        await expect(engine.submit("listening", { uploadId: `upl_${text}` })).rejects.toMatchObject({
          code: "upload_not_found",
        })
        await expect(engine.receiveUpload(text, "audio/mpeg", fakeMp3("x"))).rejects.toMatchObject({
          code: "upload_not_found",
        })
        for (const unknown of [text, `job_${text}`])
          for (const ask of [engine.get, engine.wait, engine.eraseData, operator.cancel, operator.retry])
            await expect((ask as (job: string) => Promise<unknown>)(unknown)).rejects.toMatchObject({
              code: "job_not_found",
            })
        await expect(engine.readFile({ id: `fil_${text}` })).rejects.toMatchObject({ code: "file_gone" })
        const request = { where: "request", text }
        await expect(engine.submit(text as "odds", request)).rejects.toMatchObject({ code: "kind_unknown" })
        await expect(engine.submit("odds", request, { project: text })).rejects.toThrow(TypeError)
        await expect(engine.submit("odds", request, { idempotencyKey: text })).rejects.toThrow(TypeError)
        await expect(operator.list({ kind: text })).rejects.toMatchObject({ code: "kind_unknown" })
        await expect(operator.list({ project: text })).rejects.toThrow(TypeError)
        await expect(operator.list({ after: text })).rejects.toThrow(TypeError)
        await expect(operator.count({ project: text })).rejects.toThrow(TypeError)
        await expect(operator.pause(text)).rejects.toMatchObject({ code: "kind_unknown" })
        await expect(operator.resume(text)).rejects.toMatchObject({ code: "kind_unknown" })
        const price = { name: text, currency: "usd", unitAmounts: {} }
        await expect(operator.setPrice(price)).rejects.toThrow(TypeError)
        await expect(createApiKey(engine, { scopes: ["odds.create"], name: text })).rejects.toThrow(TypeError)
        expect(() => jobKind({ name: text, request: z.object({}), run: async () => ({ output: {} }) })).toThrow(
          TypeError,
        )

        // What a request and a result hold is kept as it is, to the last character.
        const job = await engine.submitAndWait("odds", { where: "value", text, tag: text })
        expect(job).toMatchObject({ status: "done", output: { kept: text, [text]: text }, metadata: { tag: text } })
        expect(await engine.get(job)).toMatchObject({ output: { kept: text, [text]: text } })
        for (const where of ["step", "file", "mediaType", "code", "warning"] satisfies ReadonlyArray<Step>)
          expect([where, await engine.submitAndWait("odds", { where, text })]).toMatchObject([
            where,
            { status: "failed", errorCode: "internal_error" },
          ])
      }
      // None of it looked like a store that is away.
      expect(told.filter(({ message }) => /StoreUnavailable|out of reach/.test(message))).toEqual([])
    })
})
