import { jobKind } from "@kiln/core"
import type { StoreUnavailable } from "@kiln/core/domain"
import { type Checkpoint, JobStore, storeAdapter } from "@kiln/core/ports"
import { MemoryStores, testEngine } from "@kiln/testing"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { openWith } from "./support.ts"

const patient = { timeout: 30_000 }

const hanging = jobKind({
  name: "hanging",
  request: z.object({}),
  run: ({ signal }) =>
    new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted")))),
})

/** Memory stores that do something when the parent of hanging children has submitted them, before it keeps their number. */
const storesWith = (
  submitted: (parent: Checkpoint, store: JobStore["Service"]) => Effect.Effect<unknown, StoreUnavailable>,
) =>
  storeAdapter(
    Layer.effectContext(
      Effect.map(Layer.build(Layer.fresh(MemoryStores.layer)), (built) => {
        const store = Context.get(built, JobStore)
        const keepsCount = ({ step }: Checkpoint) => step === "kiln:children hanging"
        return Context.add(built, JobStore, {
          ...store,
          checkpointJobs: (items) =>
            Effect.andThen(
              Effect.forEach(items.filter(keepsCount), (item) => submitted(item, store)),
              store.checkpointJobs(items),
            ),
        })
      }),
    ),
  )

describe("canceling a parent", () => {
  it("that is a retry ends the children that it took over, on each level", async () => {
    let isBroken = true
    const submitted = Promise.withResolvers<void>()
    const store = storesWith(() => {
      submitted.resolve()
      return isBroken ? Effect.sleep(50) : Effect.void
    })
    const inner = jobKind({
      name: "inner",
      request: z.object({}),
      errorCodes: ["broken"],
      run: async ({ children, failure }) => {
        const all = children("hanging", hanging, [{}])
        if (!isBroken) return { output: { n: (await all).length } }
        await submitted.promise
        throw failure("broken")
      },
    })
    const outer = jobKind({
      name: "outer",
      request: z.object({}),
      errorCodes: ["broken"],
      run: async ({ children, failure }) => {
        const [child] = await children("inner", inner, [{}])
        if (child?.status === "failed") throw failure("broken")
        return { output: {} }
      },
    })
    await using engine = await openWith([outer, inner, hanging], { store })
    const { operator } = engine
    const hangs = async () => (await operator.list({ kind: "hanging" })).jobs.map(({ status }) => status)
    const failed = await engine.submitAndWait("outer", {}, { timeoutMs: 30_000 })
    expect([failed.status, await hangs()]).toEqual(["failed", ["processing"]])
    isBroken = false
    const again = await operator.retry(failed)
    // The retry of the inner job waits for the child that the failed one left.
    const waits = async () =>
      (await operator.list({ kind: "inner", status: "processing" })).jobs.map(async (job) => operator.waitingFor(job))
    await expect
      .poll(async () => (await Promise.all(await waits())).flat(), patient)
      .toMatchObject([{ reason: "children", subject: "hanging" }])
    await operator.cancel(again)
    expect(await hangs()).toEqual(["failed"])
  })

  it("that has failed already leaves the children to its retry", async () => {
    let fails = 2
    const submitted = Promise.withResolvers<void>()
    const store = storesWith(() => Effect.andThen(Effect.sync(submitted.resolve), Effect.sleep(fails > 0 ? 50 : 0)))
    const parent = jobKind({
      name: "parent",
      request: z.object({}),
      errorCodes: ["broken"],
      run: async ({ children, failure }) => {
        const all = children("hanging", hanging, [{}])
        if (fails === 0) return { output: { n: (await all).length } }
        await submitted.promise
        fails -= 1
        throw failure("broken")
      },
    })
    await using engine = await openWith([parent, hanging], { store })
    const { operator } = engine
    const hangs = async () => (await operator.list({ kind: "hanging" })).jobs.map(({ status }) => status)
    const first = await engine.submitAndWait("parent", {}, { timeoutMs: 30_000 })
    const second = await engine.wait(await operator.retry(first), { timeoutMs: 30_000 })
    expect([first.status, second.status, await hangs()]).toEqual(["failed", "failed", ["processing"]])
    const third = await operator.retry(second)
    await expect.poll(() => operator.waitingFor(third), patient).toMatchObject([{ reason: "children" }])
    for (const failed of [first, second]) await expect(operator.cancel(failed)).rejects.toThrow("finished")
    expect(await hangs()).toEqual(["processing"])
    await operator.cancel(third)
    expect(await hangs()).toEqual(["failed"])
  })

  it("that is a retry from the start leaves running what it did not take over", async () => {
    let fails = true
    const submitted = Promise.withResolvers<void>()
    const store = storesWith(() => Effect.andThen(Effect.sync(submitted.resolve), Effect.sleep(fails ? 50 : 0)))
    const parent = jobKind({
      name: "parent",
      request: z.object({}),
      errorCodes: ["broken"],
      run: async ({ children, failure }) => {
        const all = children("hanging", hanging, [{}])
        if (!fails) return { output: { n: (await all).length } }
        await submitted.promise
        fails = false
        throw failure("broken")
      },
    })
    await using engine = await openWith([parent, hanging], { store })
    const { operator } = engine
    const hangs = async () => (await operator.list({ kind: "hanging" })).jobs.map(({ status }) => status).toSorted()
    const again = await operator.retry(await engine.submitAndWait("parent", {}), { from: "start" })
    await expect.poll(hangs, patient).toEqual(["processing", "processing"])
    await expect.poll(() => operator.waitingFor(again), patient).toMatchObject([{ reason: "children" }])
    await operator.cancel(again)
    expect(await hangs()).toEqual(["failed", "processing"])
    // The child that is left never ends.
    await engine.stop({ drainMs: 0 })
  })

  it("while it submits ends the children that its cancellation did not find, though none of them can begin", async () => {
    // The store's part of a cancellation by another process.
    const store = storesWith(({ jobId }, { cancelJobs }) => cancelJobs([jobId]))
    const parent = jobKind({
      name: "parent",
      request: z.object({}),
      run: async ({ children }) => {
        await children(
          "hanging",
          hanging,
          Array.from({ length: 3 }, () => ({})),
        )
        return { output: {} }
      },
    })
    await using engine = await openWith([parent, hanging], { store })
    await engine.operator.pause("hanging")
    await engine.submit("parent", {})
    const codes = async () => (await engine.operator.list({ kind: "hanging" })).jobs.map(({ errorCode }) => errorCode)
    const canceled = "canceled_by_operator"
    await expect.poll(codes, patient).toEqual([canceled, canceled, canceled])
  })

  it("and its children run once each when all of them are retried, in whatever order", async () => {
    const ran: Array<number> = []
    const part = jobKind({
      name: "part",
      request: z.object({ n: z.int() }),
      run: async ({ request: { n } }) => {
        ran.push(n)
        return { output: {} }
      },
    })
    const whole = jobKind({
      name: "whole",
      request: z.object({}),
      run: async ({ children }) => {
        await children("parts", part, [{ n: 0 }, { n: 1 }])
        return { output: {} }
      },
    })
    await using kiln = await testEngine({ kinds: [whole, part], mode: "manual" })
    for (const filters of [["whole", "part"], ["part", "whole"], [undefined]]) {
      const first = await kiln.submit("whole", {})
      await kiln.runNext()
      await kiln.operator.cancel(first)
      for (const kind of filters)
        await kiln.operator.retryMany({ errorCode: "canceled_by_operator", ...(kind !== undefined && { kind }) })
      await kiln.drain({ throughRetries: true })
      expect(ran.splice(0).toSorted((one, other) => one - other)).toEqual([0, 1])
    }
    expect((await kiln.operator.list({ kind: "whole", status: "done" })).jobs).toHaveLength(3)
  })
})
