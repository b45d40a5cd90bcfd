import { jobKind } from "@kiln/core"
import { testEngine } from "@kiln/testing"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { openWith } from "./support.ts"

const patient = { timeoutMs: 60_000 }

/** A podcast of parts that are spoken, of which some fail until they are healed. */
const podcast = (broken: Set<number>) => {
  const calls = { plan: 0, speech: [] as Array<number>, join: 0 }
  const speech = jobKind({
    name: "speech",
    request: z.object({ n: z.int() }),
    output: z.object({ bytes: z.int() }),
    run: async ({ failure, request: { n } }) => {
      calls.speech.push(n)
      if (broken.has(n)) throw failure("content_rejected")
      return { output: { bytes: n } }
    },
  })
  const episode = jobKind({
    name: "episode",
    request: z.object({ parts: z.int() }),
    output: z.object({ bytes: z.int() }),
    limits: { maxFailures: 1 },
    run: async ({ children, failure, request, step }) => {
      const parts = await step("plan", async () => {
        calls.plan += 1
        return Array.from({ length: request.parts }, (_, n) => ({ n }))
      })
      const spoken = await children("speech", speech, parts)
      if (spoken.some(({ status }) => status === "failed")) throw failure("internal_error")
      const bytes = spoken.reduce((sum, each) => sum + (each.status === "done" ? (each.output?.bytes ?? 0) : 0), 0)
      await step("join", async () => {
        calls.join += 1
        return bytes
      })
      return { output: { bytes } }
    },
  })
  return { calls, episode, speech }
}

describe("the retry of a parent", () => {
  it("keeps finished steps and children, and runs the failed child again", async () => {
    const broken = new Set([7])
    const { calls, episode, speech } = podcast(broken)
    await using engine = await openWith([episode, speech])
    const first = await engine.submitAndWait("episode", { parts: 20 }, patient)
    expect(first.status).toBe("failed")
    // It fails once more: the next retry has what either of them had finished.
    const second = await engine.wait(await engine.operator.retry(first), patient)
    expect(second.status).toBe("failed")
    expect(calls.speech.filter((n) => n === 7)).toHaveLength(2)
    broken.clear()
    const third = await engine.wait(await engine.operator.retry(second), patient)
    expect(third).toMatchObject({ status: "done", output: { bytes: 190 } })
    expect(calls).toMatchObject({ plan: 1, join: 1 })
    expect(spoken(calls)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 7, 7, ...range(8, 20)])
  })

  it("runs everything again with `from: start`, and only that", async () => {
    const broken = new Set([1])
    const { calls, episode, speech } = podcast(broken)
    await using engine = await openWith([episode, speech])
    const first = await engine.submitAndWait("episode", { parts: 3 }, patient)
    const second = await engine.wait(await engine.operator.retry(first, { from: "start" }), patient)
    expect(second.status).toBe("failed")
    expect([calls.plan, spoken(calls)]).toEqual([2, [0, 0, 1, 1, 2, 2]])
    broken.clear()
    const third = await engine.wait(await engine.operator.retry(second), patient)
    expect(third.status).toBe("done")
    expect([calls.plan, spoken(calls)]).toEqual([2, [0, 0, 1, 1, 1, 2, 2]])
    await expect(engine.operator.retry(first, { from: "end" } as never)).rejects.toThrow('from "end"')
    await expect(engine.operator.retry(first, { form: "start" } as never)).rejects.toThrow('did you mean "from"?')
  })

  it("goes on in the children of its children", async () => {
    const broken = new Set([1])
    const { calls, episode, speech } = podcast(broken)
    const season = jobKind({
      name: "season",
      request: z.object({}),
      limits: { maxFailures: 1 },
      run: async ({ children, failure }) => {
        const episodes = await children("episodes", episode, [{ parts: 3 }, { parts: 1 }])
        if (episodes.some(({ status }) => status === "failed")) throw failure("internal_error")
        return { output: {} }
      },
    })
    await using engine = await openWith([season, episode, speech])
    const first = await engine.submitAndWait("season", {}, patient)
    expect(first.status).toBe("failed")
    broken.clear()
    expect((await engine.wait(await engine.operator.retry(first), patient)).status).toBe("done")
    expect([calls.plan, spoken(calls)]).toEqual([2, [0, 0, 1, 1, 2]])
  })

  it("takes over children that still run, and those that an operator has retried since", async () => {
    const broken = new Set([0])
    const { calls, episode, speech } = podcast(broken)
    await using kiln = await testEngine({ kinds: [episode, speech], mode: "manual" })
    const first = await kiln.submit("episode", { parts: 2 })
    await kiln.runNext()
    await kiln.runNext()
    // Its parent fails while the other child is still waiting.
    await kiln.operator.pause("speech")
    await kiln.operator.cancel(first)
    await kiln.operator.resume("speech")
    const [failed] = (await kiln.operator.list({ kind: "speech", errorCode: "content_rejected" })).jobs
    broken.clear()
    const child = await kiln.operator.retry(failed?.id ?? "")
    const second = await kiln.operator.retry(first)
    await kiln.drain()
    await kiln.advance(2_000)
    await kiln.drain()
    expect(await kiln.get(child)).toMatchObject({ status: "done" })
    expect(await kiln.get(second)).toMatchObject({ status: "done" })
    // The canceled child runs for the first time.
    expect(calls.speech).toEqual([0, 0, 1])
  })

  it("does not wait again for a time that has passed or a signal that has come", async () => {
    let isBroken = true
    const publish = jobKind({
      name: "publish",
      request: z.object({}),
      output: z.object({ by: z.string() }),
      limits: { maxFailures: 1 },
      run: async ({ failure, sleep, waitFor }) => {
        await sleep("embargo", "1 day")
        const approved = await waitFor("approved", { timeout: "1 day", schema: z.object({ by: z.string() }) })
        const veto = await waitFor("veto", { timeout: 1_000 })
        if (isBroken || approved.timedOut) throw failure("internal_error")
        return { output: { by: `${approved.value.by}, ${veto.timedOut ? "no veto" : "veto"}` } }
      },
    })
    await using kiln = await testEngine({ kinds: [publish], mode: "manual" })
    const first = await kiln.submit("publish", {})
    await kiln.drain()
    await kiln.signal(first, "approved", { by: "ada" })
    await kiln.advance("1 day")
    await kiln.drain()
    await kiln.advance(1_000)
    await kiln.drain()
    expect((await kiln.get(first)).status).toBe("failed")
    isBroken = false
    const second = await kiln.operator.retry(first)
    await kiln.drain()
    // A wait that timed out begins again, and what it got survives the data of the failed job.
    await kiln.eraseData(first)
    expect(await kiln.operator.waitingFor(second)).toMatchObject([{ reason: "signal", subject: "veto" }])
    await kiln.signal(second, "veto", true)
    await kiln.drain()
    expect(await kiln.get(second)).toMatchObject({ status: "done", output: { by: "ada, veto" } })
  })
})

describe("the retry of a child", () => {
  const setup = async () => {
    const broken = new Set([0])
    const { calls, episode, speech } = podcast(broken)
    const kiln = await testEngine({ kinds: [episode, speech], mode: "manual" })
    const parent = await kiln.submit("episode", { parts: 2 })
    await kiln.runNext()
    await kiln.runNext()
    const [failed] = (await kiln.operator.list({ kind: "speech", status: "failed" })).jobs
    return { broken, calls, kiln, parent, failed: failed?.id ?? "" }
  }

  it("belongs to the parent that waits: again and again, until one is done", async () => {
    const { broken, calls, failed, kiln, parent } = await setup()
    await using _ = kiln
    await kiln.operator.pause("speech")
    const again = await kiln.operator.retry(failed)
    await kiln.operator.resume("speech")
    await kiln.runNext()
    // The parent was parked before this retry, looks at it, and waits again.
    await kiln.runNext()
    await kiln.runNext()
    expect((await kiln.get(again)).status).toBe("failed")
    broken.clear()
    // The parent has been woken and has not run yet.
    const third = await kiln.operator.retry(again)
    await kiln.drain()
    expect(await kiln.get(third)).toMatchObject({ status: "done" })
    expect(await kiln.get(parent)).toMatchObject({ status: "done", output: { bytes: 1 }, attempts: 1 })
    expect(calls.speech).toEqual([0, 1, 0, 0])
  })

  it("needs no room in the queue, unlike that of another job", async () => {
    const { episode, speech } = podcast(new Set([0]))
    await using kiln = await testEngine({ kinds: [episode, speech], mode: "manual", settings: { queueCap: 1 } })
    const other = await kiln.submit("speech", { n: 0 })
    await kiln.runNext()
    await kiln.submit("episode", { parts: 2 })
    await kiln.runNext()
    await kiln.runNext()
    const [failed] = (await kiln.operator.list({ kind: "speech", status: "failed" })).jobs
    expect((await kiln.operator.list({ status: "queued" })).jobs).toHaveLength(1)
    await expect(kiln.operator.retry(other)).rejects.toMatchObject({ code: "queue_full" })
    expect(await kiln.operator.retry(failed?.id ?? "")).toMatchObject({ status: "queued" })
  })

  it("is canceled with the parent", async () => {
    const { failed, kiln, parent } = await setup()
    await using _ = kiln
    await kiln.operator.pause("speech")
    const again = await kiln.operator.retry(failed)
    await kiln.operator.cancel(parent)
    expect(await kiln.get(again)).toMatchObject({ status: "failed", errorCode: "canceled_by_operator" })
  })
})

const range = (from: number, to: number): ReadonlyArray<number> => Array.from({ length: to - from }, (_, n) => from + n)

const spoken = ({ speech }: { readonly speech: ReadonlyArray<number> }): ReadonlyArray<number> =>
  speech.toSorted((a, b) => a - b)
