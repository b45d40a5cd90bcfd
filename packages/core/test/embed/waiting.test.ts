import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as pause } from "node:timers/promises"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { createEngine, jobKind } from "@kiln/core"
import { JobKind } from "@kiln/core/kinds"
import { effectProvider, ProviderPostponed } from "@kiln/core/providers"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import { Cause, Effect, Schema } from "effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { z } from "zod"
import { mp3, plainProviders } from "../support/harness.ts"
import { openWith } from "./support.ts"

/** An attempt that waits, stops or has lost its job runs no code of the kind that was written for errors. */

const request = z.object({})
const clip = jobKind({
  name: "clip",
  request: z.object({ n: z.number() }),
  run: async ({ failure, request: { n } }) => {
    await pause(30)
    if (n < 0) throw failure("content_rejected")
    return { output: { n } }
  },
})

let directory = ""
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "kiln-waiting-"))
})
afterAll(() => rm(directory, { recursive: true, force: true }))

describe("a saga", () => {
  /** Reserves a seat, lets children work, and releases the seat if they fail. */
  const saga = (log: Array<string>) =>
    jobKind({
      name: "saga",
      request: z.object({ clips: z.array(z.number()) }),
      run: async ({ children, failure, request: { clips }, step }) => {
        const seat = await step("reserve", async () => {
          log.push("reserved")
          return "12A"
        })
        try {
          const made = await children(
            "clips",
            clip,
            clips.map((n) => ({ n })),
          )
          if (made.some(({ status }) => status === "failed")) throw failure("content_rejected")
          return { output: { seat } }
        } catch (error) {
          await step("release", async () => log.push("released"))
          log.push("compensated")
          throw error
        } finally {
          log.push("finally")
        }
      },
    })

  it("keeps its seat while its children work, and releases it once when one of them fails", async () => {
    const log: Array<string> = []
    await using engine = await createEngine({
      store: sqliteStore({ path: join(directory, "saga.db") }),
      blobs: memoryBlobs(),
      kinds: [saga(log), clip],
      log: false,
    })
    const done = await engine.submitAndWait("saga", { clips: [1, 2] }, { timeoutMs: 60_000 })
    expect(done).toMatchObject({ status: "done", output: { seat: "12A" } })
    expect(done.attempts).toBe(1)
    expect(log.splice(0)).toEqual(["reserved", "finally"])
    const failed = await engine.submitAndWait("saga", { clips: [1, -1] }, { timeoutMs: 60_000 })
    expect(failed).toMatchObject({ status: "failed", errorCode: "content_rejected" })
    expect(log).toEqual(["reserved", "released", "compensated", "finally"])
  })
})

describe("a call that must wait", () => {
  /** Its provider is postponed twice. */
  const postponing = (calls: { count: number }) =>
    ({
      ...plainProviders,
      speech: effectProvider("speech", () =>
        Effect.suspend(() =>
          ++calls.count < 3 ? Effect.fail(new ProviderPostponed({ delayMs: 1 })) : Effect.succeed(mp3),
        ),
      ),
    }) as never

  it.each<[string, (ask: () => Promise<unknown>, seen: Array<string>) => Promise<unknown>]>([
    ["caught", (ask, seen) => ask().catch(() => void seen.push("caught"))],
    ["caught and turned into another error", (ask) => ask().catch(() => Promise.reject(new RangeError("mine")))],
    ["with a finally", (ask, seen) => ask().finally(() => seen.length === 0 || seen.push("finally twice"))],
    ["settled", async (ask) => Promise.allSettled([ask(), Promise.resolve()])],
    ["raced", async (ask) => Promise.race([ask(), pause(60_000, undefined, { ref: false })])],
    ["with a then", (ask, seen) => ask().then(undefined, () => void seen.push("rejected"))],
  ])("ends the attempt at no cost, %s", async (_, wait) => {
    const calls = { count: 0 }
    const seen: Array<string> = []
    const kind = jobKind({
      name: "patient",
      request,
      providers: ["speech"],
      limits: { maxFailures: 1 },
      run: async ({ ask }) => {
        await wait(() => ask.speech({ text: "hello", voice: "alloy" }), seen)
        seen.push("went on")
        return { output: {} }
      },
    })
    const providers = postponing(calls)
    await using engine = await createEngine({
      store: memoryStore(),
      blobs: memoryBlobs(),
      kinds: [kind],
      providers: { sandbox: providers, live: providers },
      settings: { pollIntervalMs: 20 },
      log: false,
    })
    const job = await engine.submitAndWait("patient", {}, { timeoutMs: 60_000 })
    expect(job).toMatchObject({ status: "done", attempts: 3 })
    expect(seen).toEqual(["went on"])
  })

  it("aborts the signal, and ignores what that makes the handler throw", async () => {
    const aborted: Array<number> = []
    const kind = jobKind({
      name: "fetching",
      request,
      limits: { maxFailures: 1 },
      run: async ({ attempt, children, signal }) => {
        const fetched = new Promise((_, reject) => {
          signal.addEventListener("abort", () => {
            aborted.push(attempt)
            reject(signal.reason as Error)
          })
        })
        // Like a call of fetch beside the children: it throws when the attempt waits.
        await Promise.race([fetched, children("clips", clip, [{ n: 1 }])])
        return { output: {} }
      },
    })
    await using engine = await openWith([kind, clip])
    expect(await engine.submitAndWait("fetching", {})).toMatchObject({ status: "done" })
    expect(aborted.length).toBeGreaterThan(0)
  })

  it("frees its slot though the handler hangs in code of its own", async () => {
    let hung = 0
    const looked = new Set<string>()
    const kind = jobKind({
      name: "hanging",
      request,
      run: async ({ children, jobId }) => {
        if (looked.has(jobId)) return { output: {} }
        looked.add(jobId)
        await Promise.all([
          children("clips", clip, [{ n: 1 }]),
          new Promise(() => {
            hung += 1
          }),
        ])
        return { output: {} }
      },
    })
    await using engine = await openWith([kind, clip], { settings: { concurrency: 1 } })
    const jobs = await engine.submitMany("hanging", [{ request: {} }, { request: {} }])
    for (const { job } of jobs as ReadonlyArray<{ readonly job: { readonly id: string } }>)
      expect(await engine.wait(job.id, { timeoutMs: 60_000 })).toMatchObject({ status: "done" })
    expect(hung).toBe(2)
  })
})

describe("a job that is canceled or whose worker stops", () => {
  it("runs no catch and no finally of its handler", async () => {
    const seen: Array<string> = []
    const begun = Promise.withResolvers<void>()
    const kind = jobKind({
      name: "slow",
      request,
      run: async ({ step }) => {
        try {
          await step("long", async (signal) => {
            begun.resolve()
            return new Promise<string>((_, reject) => {
              signal.addEventListener("abort", () => reject(signal.reason as Error))
            })
          })
        } catch {
          seen.push("caught")
        } finally {
          seen.push("finally")
        }
        return { output: {} }
      },
    })
    for (const end of ["cancel", "stop"] as const) {
      const engine = await openWith([kind], { settings: { drainMs: 0 } })
      const job = await engine.submit("slow", {})
      await begun.promise
      if (end === "cancel") await engine.operator.cancel(job)
      await engine.stop()
    }
    await pause(10)
    expect(seen).toEqual([])
  })
})

describe("a kind written with Effect", () => {
  it("sees no wait as a failure, and releases its resources", async () => {
    const seen: Array<string> = []
    const note = (what: string) => Effect.sync(() => void seen.push(what))
    const parent = JobKind({
      name: "parent",
      request: Schema.Struct({}),
      run: ({ children, step }) =>
        Effect.gen(function* () {
          const caught = children("clips", "clip", [{ n: 1 }]).pipe(
            Effect.matchEffect({ onFailure: () => Effect.as(note("failed"), []), onSuccess: Effect.succeed }),
            Effect.catchCause(() => Effect.as(note("caught a cause"), [])),
          )
          const found = yield* Effect.acquireUseRelease(
            note("acquired"),
            () => caught,
            // A step of a finalizer does not begin, because it would be a compensation that nothing asked for.
            () => Effect.andThen(note("released"), Effect.exit(step("compensate", note("compensated") as never))),
          )
          return { output: { found: found.length }, files: [], usage: {} }
        }),
    })
    await using engine = await createEngine({
      store: memoryStore(),
      blobs: memoryBlobs(),
      kinds: [parent, clip] as never,
      providers: { sandbox: plainProviders },
      settings: { pollIntervalMs: 20 },
      log: false,
    })
    const job: object = await engine.submitAndWait("parent" as never, {} as never, { timeoutMs: 60_000 })
    expect(job).toMatchObject({ status: "done", output: { found: 1 }, attempts: 1 })
    const looks = seen.filter((what) => what === "acquired").length
    expect(looks).toBeGreaterThan(1)
    const waits = Array.from({ length: looks - 1 }, () => ["acquired", "released"]).flat()
    expect(seen).toEqual([...waits, "acquired", "released", "compensated"])
  })

  it("that goes on uninterruptibly still waits", async () => {
    const exits: Array<boolean> = []
    const parent = JobKind({
      name: "parent",
      request: Schema.Struct({}),
      run: ({ children }) =>
        Effect.uninterruptible(
          Effect.gen(function* () {
            const exit = yield* Effect.exit(children("clips", "clip", [{ n: 1 }]))
            exits.push(exit._tag === "Failure" && Cause.hasInterruptsOnly(exit.cause))
            return { output: { tag: exit._tag }, files: [], usage: {} }
          }),
        ),
    })
    await using engine = await createEngine({
      store: memoryStore(),
      blobs: memoryBlobs(),
      kinds: [parent, clip] as never,
      providers: { sandbox: plainProviders },
      settings: { pollIntervalMs: 20 },
      log: false,
    })
    expect(await engine.submitAndWait("parent" as never, {} as never, { timeoutMs: 60_000 })).toMatchObject({
      status: "done",
      output: { tag: "Success" },
    })
    expect(exits.at(0)).toBe(true)
  })
})
