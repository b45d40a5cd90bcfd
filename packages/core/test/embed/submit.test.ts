import { jobKind } from "@kiln/core"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { openWith } from "./support.ts"

const echo = jobKind({
  name: "echo",
  request: z.object({ n: z.number() }),
  run: async ({ request }) => ({ output: request }),
})

const open = () => openWith([echo], { autoStart: false, settings: { queueCap: 1 } })

/** The stack of the error with which a call rejects. */
const stackOf = async (call: () => Promise<unknown>): Promise<string> => {
  try {
    await call()
  } catch (error) {
    return (error as Error).stack ?? ""
  }
  throw new Error("it did not reject")
}

describe("submit", () => {
  it("rejects with an error whose stack leads to the caller, before and after the store is called", async () => {
    await using engine = await open()
    await engine.submit("echo", { n: 1 })
    const submitsFromHere = async (n: unknown) => {
      await engine.submit("echo", { n } as never)
    }
    const invalid = await stackOf(() => submitsFromHere("one"))
    expect(invalid).toMatch(/^InvalidRequest[^]*submitsFromHere/)
    const full = await stackOf(() => submitsFromHere(2))
    expect(full).toMatch(/^QueueFull[^]*submitsFromHere/)
  })

  it("rejects with the reason of a signal that is aborted before, and of one that is aborted meanwhile", async () => {
    await using engine = await open()
    const reason = new Error("not wanted any more")
    await expect(engine.submit("echo", { n: 1 }, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    const controller = new AbortController()
    const submitting = engine.submit("echo", { n: 1 }, { signal: controller.signal, idempotencyKey: "k" })
    controller.abort(reason)
    await expect(submitting).rejects.toBe(reason)
    // It was on its way to the store, and a job is whole or not there.
    expect(await engine.submit("echo", { n: 1 }, { idempotencyKey: "k" })).toMatchObject({ status: "queued" })
  })

  it("rejects with an AbortError once the engine begins to stop, but a call before that gets its job", async () => {
    const engine = await open()
    const submitting = engine.submit("echo", { n: 1 })
    const stopping = engine.stop()
    const late = engine.submit("echo", { n: 1 })
    await expect(late).rejects.toMatchObject({ name: "AbortError", message: "the engine is closed" })
    await expect(submitting).resolves.toMatchObject({ status: "queued" })
    await stopping
    await expect(engine.submit("echo", { n: 1 })).rejects.toMatchObject({ name: "AbortError" })
  })
})
