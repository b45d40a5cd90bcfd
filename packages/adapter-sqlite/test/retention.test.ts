import { createEngine, jobKind } from "@kiln/core"
import { memoryBlobs } from "@kiln/testing"
import Sqlite from "better-sqlite3"
import * as Effect from "effect/Effect"
import { expect, it, vi } from "vitest"
import { z } from "zod"
import { sqliteStore } from "../src/index.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const kindOf = (name: string, limits: { dataRetentionMs?: number; jobRetentionMs?: number } = {}) =>
  jobKind({ name, limits, request: z.object({}), run: async () => ({ output: {} }) })

const indefinitely = { dataRetentionMs: 0, jobRetentionMs: 0 }
const shortly = { dataRetentionMs: 1, jobRetentionMs: 1 }

const openOn = (path: string, blobs: ReturnType<typeof memoryBlobs>) => {
  return (kinds: ReadonlyArray<ReturnType<typeof kindOf>>, settings: typeof indefinitely) =>
    createEngine({
      store: sqliteStore({ path }),
      blobs,
      kinds,
      settings: { ...settings, pruneIntervalMs: 20, idlePruneIntervalMs: 20 },
      log: false,
    })
}

type Open = ReturnType<typeof openOn>
type Engine = Awaited<ReturnType<Open>>

/** Programs that share a file of records and prune it continuously. */
const programs = (run: (open: Open) => Promise<void>) =>
  Effect.runPromise(
    Effect.scoped(Effect.flatMap(temporaryFile, (path) => Effect.promise(() => run(openOn(path, memoryBlobs()))))),
  )

const kept = async (engine: Engine) =>
  (await engine.operator.list()).jobs.map(({ kind, retained }) => `${kind} ${retained}`)

const finished = async (engine: Engine, kind: string) => engine.wait(await engine.submit(kind, {}))

/** Waits until a new job that this engine keeps shortly is gone: then it has pruned since. Returns what is left. */
const pruned = async (engine: Engine, kind: string) => {
  await engine.submit(kind, {})
  await vi.waitUntil(async () => (await kept(engine)).every((job) => !job.startsWith(`${kind} `)), { timeout: 30_000 })
  return kept(engine)
}

it("a process that knows other kinds only removes no job of this one, while its process runs and after it has stopped", () =>
  programs(async (open) => {
    const report = kindOf("report", indefinitely)
    const first = await open([report], shortly)
    await finished(first, "report")
    const cpu = await open([kindOf("cpu")], shortly)
    expect(await pruned(cpu, "cpu")).toEqual(["report kept"])
    await first[Symbol.asyncDispose]()
    expect(await pruned(cpu, "cpu")).toEqual(["report kept"])
    await cpu[Symbol.asyncDispose]()
  }))

it("a retired kind keeps its rule: its jobs go when it says, and those of others stay", () =>
  programs(async (open) => {
    const brief = { dataRetentionMs: 1_500, jobRetentionMs: 1_500 }
    const first = await open([kindOf("report"), kindOf("retired", brief)], indefinitely)
    await finished(first, "report")
    await finished(first, "retired")
    await first[Symbol.asyncDispose]()
    const second = await open([kindOf("cpu")], indefinitely)
    await expect.poll(() => kept(second), { timeout: 30_000 }).toEqual(["report kept"])
    await second[Symbol.asyncDispose]()
  }))

it("of two processes that know a kind, the one that keeps it longer decides", () =>
  programs(async (open) => {
    const web = await open([kindOf("report"), kindOf("cpu")], indefinitely)
    await finished(web, "cpu")
    const cpu = await open([kindOf("cpu"), kindOf("brief")], shortly)
    expect(await pruned(cpu, "brief")).toEqual(["cpu kept"])
    // A restart takes it a moment, in which the other one is on its own.
    await web[Symbol.asyncDispose]()
    expect(await pruned(cpu, "brief")).toEqual(["cpu kept"])
    await cpu[Symbol.asyncDispose]()
  }))

it("a shorter retention applies to jobs that have finished, as soon as the process is restarted with it", () =>
  programs(async (open) => {
    const before = await open([kindOf("report")], indefinitely)
    await finished(before, "report")
    await before[Symbol.asyncDispose]()
    const after = await open([kindOf("report")], shortly)
    await expect.poll(() => kept(after), { timeout: 30_000 }).toEqual([])
    await after[Symbol.asyncDispose]()
  }))

it("children that are gone although their parent is unfinished are not made and charged again: the parent fails", async () => {
  const runs = { parts: 0, wholes: 0 }
  const part = jobKind({
    name: "part",
    request: z.object({}),
    run: async () => {
      runs.parts += 1
      return { output: {} }
    },
  })
  const wholeOf = (path: string) =>
    jobKind({
      name: "whole",
      request: z.object({}),
      run: async ({ children, failure }) => {
        await children("parts", part, [{}, {}, {}])
        runs.wholes += 1
        // As a process of an earlier version does, which deletes by age alone.
        const database = new Sqlite(path)
        database.exec("DELETE FROM kiln_jobs WHERE kind = 'part' AND finished_at IS NOT NULL")
        database.close()
        throw failure("internal_error", { retry: true, retryAfterMs: 1 })
      },
    })
  await Effect.runPromise(
    Effect.scoped(
      Effect.flatMap(temporaryFile, (path) =>
        Effect.promise(async () => {
          await using engine = await createEngine({
            store: sqliteStore({ path }),
            blobs: memoryBlobs(),
            kinds: [part, wholeOf(path)],
            log: false,
          })
          expect(await engine.submitAndWait("whole", {}, { timeoutMs: 60_000 })).toMatchObject({
            status: "failed",
            errorCode: "internal_error",
            attempts: 2,
          })
        }),
      ),
    ),
  )
  expect(runs).toEqual({ parts: 3, wholes: 1 })
})
