import { setTimeout } from "node:timers/promises"
import {
  createEngine,
  type Drained,
  type EngineParts,
  jobKind,
  type Kind,
  type LogEntry,
  type StoreAdapter,
} from "@kiln/core"
import { EngineClosed, StoreUnavailable } from "@kiln/core/domain"
import { embeddedContext } from "@kiln/core/effect"
import { DeliveryStore, insideOf, JobDirectory, storeAdapter } from "@kiln/core/ports"
import { drainJobs } from "@kiln/core/worker"
import { memoryBlobs, memoryStore, testEngine } from "@kiln/testing"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { everyStore } from "../support/everyStore.ts"
import { adapterWith, replacing, storeDown } from "../support/faults.ts"
import { plainProviders, type Stores } from "../support/harness.ts"

const echo = jobKind({
  name: "echo",
  request: z.object({ fails: z.boolean().default(false) }),
  errorCodes: ["unwanted"],
  run: async ({ failure, request }) => {
    if (request.fails) throw failure("unwanted")
    return { output: {} }
  },
})

const aborted = (signal: AbortSignal) =>
  new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }))

const minute = 60_000
const settings = { concurrency: 2, pollIntervalMs: 20, claimCheckIntervalMs: 50 } as const

type Options = Partial<
  Pick<EngineParts<Kind, StoreAdapter, boolean>, "autoStart" | "log" | "onFinished" | "settings" | "worker">
>

const open = <K extends Kind>(kinds: ReadonlyArray<K>, options: Options = {}, store: StoreAdapter = memoryStore()) =>
  createEngine({
    store,
    blobs: memoryBlobs(),
    kinds,
    providers: { sandbox: plainProviders as never, live: plainProviders as never },
    log: false,
    autoStart: false,
    settings,
    ...options,
  })

describe.each(everyStore)("drain (%s)", (_, openStore) => {
  it("runs all jobs that can begin, and tells what became of them", async () => {
    await using opened = await openStore()
    await using engine = await open([echo], {}, opened.store)
    expect(await engine.drain({ maxMs: minute })).toEqual({ attempts: 0, done: 0, failed: 0, stoppedBy: "empty" })
    for (let n = 0; n < 7; n++) await engine.submit("echo", { fails: n === 3 })
    const later = await engine.submit("echo", {}, { delayMs: 3_600_000 })
    expect(await engine.drain({ maxMs: minute })).toEqual({ attempts: 7, done: 6, failed: 1, stoppedBy: "empty" })
    expect((await engine.operator.list({ status: "queued" })).jobs.map(({ id }) => id)).toEqual([later.id])
  })

  it("releases the jobs that still run after maxMs at no cost, and goes on with them in the next call", async () => {
    let bought = 0
    const looks: Array<number> = []
    let isLong = true
    const slow = jobKind({
      name: "slow",
      request: z.object({}),
      run: async ({ signal, step }) => {
        await step("bought", async () => (bought += 1))
        looks.push(bought)
        if (isLong) await aborted(signal)
        return { output: {} }
      },
    })
    await using opened = await openStore()
    await using engine = await open([slow], { settings: { ...settings, attempts: once } }, opened.store)
    const job = await engine.submit("slow", {})
    let drained: Drained | undefined
    // On a busy machine, the time may be over before the attempt has come that far.
    do drained = await engine.drain({ maxMs: 500 })
    while (looks.length === 0)
    expect(drained).toEqual({ attempts: 1, done: 0, failed: 0, stoppedBy: "maxMs" })
    expect(await engine.get(job)).toMatchObject({ status: "processing" })
    isLong = false
    const boughtBefore = bought
    expect(await engine.drain({ maxMs: minute })).toEqual({ attempts: 1, done: 1, failed: 0, stoppedBy: "empty" })
    expect({ bought, looks: looks.length }).toEqual({ bought: boughtBefore, looks: 2 })
  })
})

/** A failure or a lost worker would end a job. */
const once = { maxFailures: 1, maxLostWorkers: 1, backoffBaseMs: 1, backoffMaxMs: 2, retryAfterMaxMs: 10 }

describe("drain", () => {
  it("begins no more than maxJobs attempts, of both modes together", async () => {
    await using engine = await open([echo], { settings: { ...settings, concurrency: 8 } })
    for (let n = 0; n < 10; n++) await engine.submit("echo", {}, { mode: n % 2 === 0 ? "live" : "sandbox" })
    expect(await engine.drain({ maxMs: minute, maxJobs: 3 })).toMatchObject({ attempts: 3, stoppedBy: "maxJobs" })
    expect(await engine.drain({ maxMs: minute, maxJobs: 20 })).toMatchObject({ attempts: 7, stoppedBy: "empty" })
  })

  it("lets a slow job hold up no other, and runs a parent with its children", async () => {
    const others = Promise.withResolvers<void>()
    let left = 6
    const leaf = jobKind({
      name: "leaf",
      request: z.object({ n: z.int() }),
      run: async ({ request }) => {
        if (request.n === 0) await others.promise
        else if (--left === 0) others.resolve()
        return { output: {} }
      },
    })
    const parent = jobKind({
      name: "parent",
      request: z.object({}),
      run: async ({ children }) => {
        await children(
          "leaves",
          leaf,
          Array.from({ length: 7 }, (__, n) => ({ n })),
        )
        return { output: {} }
      },
    })
    await using engine = await open([parent, leaf])
    await engine.submit("parent", {})
    expect(await engine.drain({ maxMs: minute })).toEqual({ attempts: 9, done: 8, failed: 0, stoppedBy: "empty" })
  })

  it("calls onFinished before it returns, and runs the jobs submitted there", async () => {
    const finished: Array<string> = []
    await using engine = await open([echo], {
      onFinished: async ({ job }: { readonly job: { readonly id: string } }) => {
        if (finished.push(job.id) === 1) await engine.submit("echo", {})
      },
    })
    await engine.submit("echo", {})
    expect(await engine.drain({ maxMs: minute })).toMatchObject({ attempts: 2, done: 2, stoppedBy: "empty" })
    expect(finished).toHaveLength(2)
    await engine.submit("echo", {})
    await engine.drain({ maxMs: minute, maxJobs: 1 })
    expect(finished).toHaveLength(3)
  })

  it("runs jobs and calls other receivers while a receiver hangs", async () => {
    const ended: Array<string> = []
    const hangs = async ({ signal }: { readonly signal: AbortSignal }) => {
      await aborted(signal)
      throw new Error("aborted")
    }
    const stuck = jobKind({
      name: "stuck",
      request: z.object({}),
      run: async () => ({ output: {} }),
      onFinished: hangs,
    })
    const quick = jobKind({
      name: "quick",
      request: z.object({}),
      run: async () => ({ output: {} }),
      onFinished: async ({ job }) => void ended.push(job.id),
    })
    await using engine = await open([stuck, quick])
    for (let n = 0; n < 9; n++) await engine.submit("stuck", {})
    expect(await engine.drain({ maxMs: 500 })).toMatchObject({ done: 9, stoppedBy: "maxMs" })
    const job = await engine.submit("quick", {})
    expect(await engine.drain({ maxMs: 500 })).toMatchObject({ done: 1, stoppedBy: "maxMs" })
    expect(ended).toEqual([job.id])
  })

  it("gives back a delivery whose job it was reading when the time was over", async () => {
    let reads = 0
    const inside = insideOf(memoryStore()) as Layer.Layer<Stores>
    const store = replacing(inside, JobDirectory, (directory) => ({
      readJobs: (ids) => Effect.suspend(() => ((reads += 1) === 1 ? Effect.never : directory.readJobs(ids))),
    }))
    const calls: Array<number> = []
    const onFinished = async ({ attempt }: { readonly attempt: number }) => void calls.push(attempt)
    await using engine = await open([echo], { onFinished }, storeAdapter(store))
    await engine.submit("echo", {})
    expect(await engine.drain({ maxMs: 600 })).toMatchObject({ done: 1, stoppedBy: "maxMs" })
    expect(await engine.drain({ maxMs: minute })).toMatchObject({ stoppedBy: "empty" })
    expect(calls).toEqual([1])
  })

  it("gives back deliveries whose claim is answered when the time is over, and calls no receiver any more", async () => {
    const inside = insideOf(memoryStore()) as Layer.Layer<Stores | DeliveryStore>
    const store = replacing(inside, DeliveryStore, ({ claimDeliveries }) => ({
      // A step of a store that has begun is not interrupted.
      claimDeliveries: (request) =>
        Effect.uninterruptible(Effect.tap(claimDeliveries(request), ({ length }) => Effect.sleep(length * 800))),
    }))
    const calls: Array<number> = []
    const onFinished = async ({ attempt }: { readonly attempt: number }) => void calls.push(attempt)
    await using engine = await open([echo], { onFinished }, storeAdapter(store))
    await engine.submit("echo", {})
    expect(await engine.drain({ maxMs: 600 })).toMatchObject({ done: 1, stoppedBy: "maxMs" })
    expect(calls).toEqual([])
    expect(await engine.drain({ maxMs: minute })).toMatchObject({ stoppedBy: "empty" })
    expect(calls).toEqual([1])
  })

  it("runs a job that a call submits and ends while the store answers that there is none", async () => {
    const asked = Promise.withResolvers<void>()
    const submitted = Promise.withResolvers<void>()
    let isCalled = false
    const store = adapterWith(memoryStore(), ({ claimJobs }) => ({
      claimJobs: (request) =>
        Effect.tap(claimJobs(request), () =>
          Effect.promise(async () => {
            if (!isCalled) return
            asked.resolve()
            await submitted.promise
            await setTimeout(20)
          }),
        ),
    }))
    const onFinished = async () => {
      if (isCalled) return
      isCalled = true
      await asked.promise
      await engine.submit("echo", {})
      submitted.resolve()
    }
    await using engine = await open([echo], { onFinished }, store)
    await engine.submit("echo", {})
    expect(await engine.drain({ maxMs: minute })).toMatchObject({ done: 2, stoppedBy: "empty" })
  })

  it("counts the attempts of all rounds against maxJobs", async () => {
    await using engine = await open([echo], {
      onFinished: async () => void (await engine.submitMany("echo", [{ request: {} }, { request: {} }])),
    })
    await engine.submit("echo", {})
    expect(await engine.drain({ maxMs: minute, maxJobs: 2 })).toMatchObject({ attempts: 2, stoppedBy: "maxJobs" })
  })

  describe("while the store refuses claims", () => {
    const openFailing = async (failsFor: (claims: number) => boolean) => {
      let claims = 0
      const begun = Promise.withResolvers<void>()
      const goOn = Promise.withResolvers<void>()
      const store = adapterWith(memoryStore(), ({ claimJobs }) => ({
        claimJobs: (request) =>
          Effect.suspend(() => {
            claims += 1
            if (claims > 3) goOn.resolve()
            return failsFor(claims) ? Effect.fail(storeDown) : claimJobs(request)
          }),
      }))
      const slow = jobKind({
        name: "slow",
        request: z.object({}),
        run: async () => {
          begun.resolve()
          await goOn.promise
          return { output: {} }
        },
      })
      const engine = await open([slow], {}, store)
      return { engine, job: await engine.submit("slow", {}) }
    }

    it("rejects if nothing runs", async () => {
      const { engine, job } = await openFailing(() => true)
      await using _ = engine
      await expect(engine.drain({ maxMs: minute })).rejects.toBeInstanceOf(StoreUnavailable)
      expect(await engine.get(job)).toMatchObject({ status: "queued", attempts: 0 })
    })

    it("rejects once what runs has ended, and keeps its result", async () => {
      const { engine, job } = await openFailing((claims) => claims > 1)
      await using _ = engine
      await expect(engine.drain({ maxMs: minute })).rejects.toBeInstanceOf(StoreUnavailable)
      expect(await engine.get(job)).toMatchObject({ status: "done", attempts: 1 })
    })

    it("goes on if the store answers again while a job runs", async () => {
      const { engine } = await openFailing((claims) => claims === 2 || claims === 3)
      await using _ = engine
      expect(await engine.drain({ maxMs: minute })).toEqual({ attempts: 1, done: 1, failed: 0, stoppedBy: "empty" })
    })
  })

  it("does not take a store that fails for a refusal of a tick", async () => {
    let isDown = false
    const told: Array<string> = []
    const store = adapterWith(memoryStore(), (verbs) => ({
      createJobs: (jobs) => Effect.suspend(() => (isDown ? Effect.fail(storeDown) : verbs.createJobs(jobs))),
      createAndClaimJobs: (jobs, request) =>
        Effect.suspend(() => (isDown ? Effect.fail(storeDown) : verbs.createAndClaimJobs(jobs, request))),
    }))
    const log = ({ level, message }: LogEntry) => void (level === "warning" && told.push(message))
    await using engine = await open([echo], { log }, store)
    await engine.schedules.set("often", { kind: "echo", request: {}, everyMs: 1_000 })
    const [schedule] = await engine.schedules.list()
    await setTimeout(1_100)
    isDown = true
    await expect(engine.drain({ maxMs: minute })).rejects.toBeInstanceOf(StoreUnavailable)
    expect(await engine.schedules.list()).toEqual([schedule])
    isDown = false
    expect(await engine.drain({ maxMs: minute })).toMatchObject({ failed: 0, stoppedBy: "empty" })
    expect((await engine.operator.list()).jobs.length).toBeGreaterThan(0)
    expect(told).toEqual([])
  })

  it("lets running jobs finish when the engine stops", async () => {
    const begun = Promise.withResolvers<void>()
    const wait = Promise.withResolvers<void>()
    const completed: Array<string> = []
    const slow = jobKind({
      name: "slow",
      request: z.object({}),
      run: async () => {
        begun.resolve()
        await wait.promise
        return { output: {} }
      },
    })
    await using engine = await open([slow])
    engine.on("completed", ({ jobId }) => completed.push(jobId))
    const job = await engine.submit("slow", {})
    const drained = engine.drain({ maxMs: minute })
    const failure = drained.catch((error: unknown) => error)
    await begun.promise
    const stopped = engine.stop()
    wait.resolve()
    await stopped
    expect(await failure).toBeInstanceOf(EngineClosed)
    expect(completed).toEqual([job.id])
  })

  it("needs a worker that does not run, one call at a time, and valid limits", async () => {
    await using started = await open([echo], { autoStart: true })
    await expect(started.drain({ maxMs: 1_000 })).rejects.toThrow("autoStart: false")
    await using without = await open([echo], { worker: false })
    await expect(without.drain({ maxMs: 1_000 })).rejects.toThrow("worker: false")
    await using engine = await open([echo])
    for (const maxMs of [0, 2 ** 31, Number.NaN, "10"])
      await expect(engine.drain({ maxMs } as never)).rejects.toThrow("maxMs must be a number between 1 and")
    for (const maxJobs of [0, 1.5])
      await expect(engine.drain({ maxMs: 10, maxJobs })).rejects.toThrow("maxJobs must be a positive integer")
    await expect(engine.drain({ maxMs: 10, most: 1 } as never)).rejects.toThrow("most")
    await expect(engine.drain({ maxMs: 10, signal: AbortSignal.abort(new Error("over")) })).rejects.toThrow("over")
    const both = [engine.drain({ maxMs: minute }), engine.drain({ maxMs: minute }), engine.start()] as const
    const [first, second, third] = await Promise.allSettled(both)
    expect(first).toMatchObject({ value: { stoppedBy: "empty" } })
    expect(second).toMatchObject({ reason: { message: "drain() is already running" } })
    expect(third).toMatchObject({ reason: { message: "start() cannot begin while drain() is running" } })
    await engine.start()
  })

  it("works with a test engine, and submits the jobs of schedules there", async () => {
    await using kiln = await testEngine({ kinds: [echo], mode: "manual" })
    await kiln.schedules.set("hourly", { kind: "echo", request: {}, cron: "0 * * * *" })
    await kiln.advance("2 hours")
    expect(await kiln.drain({ maxMs: 1_000 })).toMatchObject({ done: 2, stoppedBy: "empty" })
    expect(await kiln.drain()).toBe(0)
  })

  it("is an effect too", async () => {
    await using engine = await open([echo])
    await engine.submit("echo", {})
    const drained = await Effect.runPromiseWith(embeddedContext(engine))(drainJobs({ maxMs: minute }))
    expect(drained).toEqual({ attempts: 1, done: 1, failed: 0, stoppedBy: "empty" })
  })
})
