import { createEngine, jobKind } from "@kiln/core"
import { embeddedContext } from "@kiln/core/effect"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import { Context, Effect, Scope } from "effect"
import { describe, expect, it, vi } from "vitest"
import { z } from "zod"
import { openWith } from "./support.ts"

const bare = { request: z.object({}), limits: { maxFailures: 1 } } as const
const plain = jobKind({ ...bare, name: "plain", run: async () => ({ output: {} }) })
const isTrue = (check: () => boolean | Promise<boolean>) => vi.waitUntil(check, { timeout: 5_000, interval: 5 })

describe("an engine, despite faults in user code,", () => {
  it("stores how an attempt ended even if the log function throws", async () => {
    let runs = 0
    const failing = jobKind({
      ...bare,
      name: "failing",
      run: async () => {
        runs += 1
        throw new Error("no")
      },
    })
    const log = () => {
      throw new Error("a bug of the log's")
    }
    await using engine = await openWith([failing], { log, settings: { drainMs: 10 } })
    expect(await engine.submitAndWait("failing", {}, { timeoutMs: 3_000 })).toMatchObject({ status: "failed" })
    expect(runs).toBe(1)
  })

  it("logs a listener whose promise rejects", async () => {
    const said: Array<string> = []
    await using engine = await openWith([plain], { log: ({ message }) => said.push(message) })
    const listener = (): unknown => Promise.reject(new Error("a bug of the listener's"))
    engine.on("completed", listener)
    await engine.submitAndWait("plain", {})
    await expect.poll(() => said.join(), { timeout: 5_000 }).toContain("a bug of the listener's")
  })

  it("leaves no unhandled rejection when a job with two running steps is canceled", async () => {
    const begun: Array<string> = []
    const unheard: Array<unknown> = []
    const hear = (reason: unknown) => unheard.push(reason)
    const both = jobKind({
      ...bare,
      name: "both",
      run: async ({ step }) => {
        const steps = ["a", "b"].map((name) =>
          step(name, () => {
            begun.push(name)
            return new Promise<string>(() => undefined)
          }),
        )
        for (const one of steps) await one
        return { output: {} }
      },
    })
    process.on("unhandledRejection", hear)
    await using engine = await openWith([both])
    const job = await engine.submit("both", {})
    await isTrue(() => begun.length === 2)
    await engine.operator.cancel(job)
    await new Promise((resolve) => {
      setImmediate(() => setImmediate(resolve))
    })
    process.off("unhandledRejection", hear)
    expect(unheard).toEqual([])
  })

  it("starts no step of an attempt that has ended", async () => {
    const begun: Array<string> = []
    const stubborn = jobKind({
      ...bare,
      name: "stubborn",
      run: async ({ signal, step }) => {
        const begin = (name: string) =>
          step(name, () => {
            begun.push(name)
            return new Promise<string>(() => undefined)
          })
        signal.addEventListener("abort", () => {
          void begin("second").finally(() => begun.push("settled"))
          begun.push("aborted")
        })
        await begin("first").finally(() => begun.push("settled"))
        return { output: {} }
      },
    })
    await using engine = await openWith([stubborn])
    const job = await engine.submit("stubborn", {})
    await isTrue(() => begun.length === 1)
    await engine.operator.cancel(job)
    await isTrue(() => begun.includes("aborted"))
    await new Promise((resolve) => {
      setImmediate(() => setImmediate(resolve))
    })
    expect(begun).toEqual(["first", "aborted"])
  })

  it.each([
    ["nothing", null],
    ["a list", ["a"]],
    ["a number JSON has not", { n: 1n }],
    ["a day", { at: new Date(0) }],
  ])("refuses an output that is %s", async (_, output) => {
    const odd = jobKind({ ...bare, name: "odd", run: async () => ({ output: output as never }) })
    await using engine = await openWith([odd])
    expect(await engine.submitAndWait("odd", {})).toMatchObject({ status: "failed" })
  })

  it("stops its worker even if something that depends on it cannot be ended", async () => {
    const parts = {
      store: memoryStore(),
      blobs: memoryBlobs(),
      kinds: [plain],
      log: false,
      settings: { pollIntervalMs: 20 },
    } as const
    const engine = await createEngine(parts)
    const scope = Context.get(embeddedContext(engine), Scope.Scope)
    await Effect.runPromise(Scope.addFinalizer(scope, Effect.die(new Error("it cannot be ended"))))
    await engine.stop().catch(() => undefined)
    await using reader = await createEngine({ ...parts, worker: false })
    const job = await reader.submit("plain", {})
    await expect(reader.wait(job, { timeoutMs: 300 })).rejects.toMatchObject({ code: "wait_timeout" })
  })

  it("refuses two kinds with the same name", async () => {
    await expect(openWith([plain, plain])).rejects.toThrow(TypeError)
  })

  it("refuses a file with the name of an output field", async () => {
    const doubled = jobKind({
      ...bare,
      name: "doubled",
      files: ["note"],
      run: async ({ writeFile }) => {
        await writeFile("note", async () => ({ data: new Uint8Array(1), mediaType: "text/plain" }))
        return { output: { note: "lost" } }
      },
    })
    await using engine = await openWith([doubled])
    expect(await engine.submitAndWait("doubled", {})).toMatchObject({ status: "failed" })
  })

  it("rethrows an error of a step unchanged within the attempt", async () => {
    const caught: Array<unknown> = []
    const own = new RangeError("one of its own")
    const careful = jobKind({
      ...bare,
      name: "careful",
      run: async ({ step }) => {
        await step("risky", () => Promise.reject(own)).catch((error: unknown) => caught.push(error))
        return { output: {} }
      },
    })
    await using engine = await openWith([careful])
    await engine.submitAndWait("careful", {})
    expect(caught).toEqual([own])
  })

  it("refuses a project name that could be another project's id", async () => {
    await using engine = await openWith([plain])
    await expect(engine.submit("plain", {}, { project: "prj_a" })).rejects.toThrow(TypeError)
  })

  it("refuses an idempotency key that a retry may use", async () => {
    await using engine = await openWith([plain])
    for (const idempotencyKey of ["retry job_a", "", "k".repeat(256), "ä"])
      await expect(engine.submit("plain", {}, { idempotencyKey })).rejects.toThrow(TypeError)
  })

  it.each([[{ concurrency: 0 }], [{ leaseDurationMs: -1 }], [{ pollIntervalMs: Number.NaN }], [{ retries: 3 }]])(
    "refuses settings like %o",
    async (settings) => {
      await expect(openWith([plain], { settings: settings as never })).rejects.toThrow(/in settings|^settings\./)
    },
  )

  it("uses the default for an omitted setting", async () => {
    await using engine = await openWith([plain], { settings: { concurrency: undefined } as never })
    expect(await engine.submitAndWait("plain", {})).toMatchObject({ status: "done" })
  })

  it("rejects instead of throwing if it is started after it was closed", async () => {
    const engine = await openWith([plain], { autoStart: false })
    await engine.stop()
    const starting = await Promise.resolve()
      .then(() => ({ promise: engine.start() }))
      .catch(() => undefined)
    starting?.promise.catch(() => undefined)
    expect(starting?.promise).toBeInstanceOf(Promise)
  })
})
