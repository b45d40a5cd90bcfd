import { embeddedContext, Engine } from "@kiln/core/effect"
import { testEngine } from "@kiln/testing"
import { assertDone, assertFailed } from "@kiln/testing/assert"
import { Context } from "effect"
import { describe, expect, it, vi } from "vitest"
import { busy, greeting } from "./support/kinds.ts"

describe("a manual test engine", () => {
  it("runs nothing by itself, and one attempt per call", async () => {
    await using kiln = await testEngine({ mode: "manual" })
    const [a, b] = [
      await kiln.submit("speech_synthesis", { input: "a" }),
      await kiln.submit("image_generation", { prompt: "b" }),
    ]
    await kiln.advance("1 minute")
    expect([(await kiln.get(a)).status, (await kiln.get(b)).status]).toEqual(["queued", "queued"])
    const first = await kiln.runNext()
    expect([first?.id, first?.status]).toEqual([a.id, "done"])
    expect((await kiln.get(b)).status).toBe("queued")
    expect((await kiln.runNext())?.id).toBe(b.id)
    expect(await kiln.runNext()).toBeUndefined()
  })

  it("returns a job after a failed attempt, and does not run it before its next attempt is due", async () => {
    await using kiln = await testEngine({ mode: "manual" })
    kiln.providers.speech.fail("provider_unavailable", { retryAfterMs: 10_000 })
    await kiln.submit("speech_synthesis", { input: "Hello" })
    expect(await kiln.runNext()).toMatchObject({ status: "processing", attempts: 1 })
    expect(await kiln.runNext()).toBeUndefined()
    await kiln.advance(9_999)
    expect(await kiln.runNext()).toBeUndefined()
    await kiln.advance(1)
    expect(await kiln.runNext()).toMatchObject({ status: "done", attempts: 2 })
  })

  it("refuses an unknown option of drain()", async () => {
    await using kiln = await testEngine({ mode: "manual" })
    const misspelled = kiln.drain({ throughRetry: true } as never)
    await expect(misspelled).rejects.toThrow('unknown option "throughRetry" in drain(); did you mean "throughRetries"?')
  })

  it("drains jobs that can run now, or all jobs", async () => {
    await using kiln = await testEngine({ mode: "manual" })
    for (const input of ["a", "b", "c"]) await kiln.submit("speech_synthesis", { input })
    await kiln.submit("speech_synthesis", { input: "later" }, { delayMs: 60_000 })
    kiln.providers.speech.fail().fail()
    expect(await kiln.drain()).toBe(3)
    expect(await kiln.drain()).toBe(0)
    expect(await kiln.drain({ throughRetries: true })).toBe(3)
    const ended = await Promise.all((await kiln.submitted()).map(({ id }) => kiln.get(id)))
    expect(ended.map(({ attempts, status }) => `${status} ${attempts}`)).toEqual([
      "done 2",
      "done 2",
      "done 1",
      "done 1",
    ])
    expect(kiln.now()).toEqual(new Date(Date.UTC(2030, 0, 1, 0, 1)))
  })

  it("reports the job of each of several concurrent runs", async () => {
    const gates = new Map(["a", "b"].map((name) => [name, Promise.withResolvers<void>()]))
    const kinds = [greeting((name) => gates.get(name)!.promise.then(() => name))]
    await using kiln = await testEngine({ kinds, mode: "manual" })
    const submitted = [await kiln.submit("greeting", { name: "a" }), await kiln.submit("greeting", { name: "b" })]
    const runs = [kiln.runNext(), kiln.runNext()]
    gates.get("b")!.resolve()
    expect(await runs[1]).toMatchObject({ id: submitted[1]!.id, status: "done" })
    gates.get("a")!.resolve()
    expect(await runs[0]).toMatchObject({ id: submitted[0]!.id, status: "done" })
  })

  it("keeps the lease of an attempt while time passes, and ends it at the run limit", async () => {
    await using kiln = await testEngine({ mode: "manual" })
    kiln.providers.speech.hang()
    const job = await kiln.submit("speech_synthesis", { input: "Hello" })
    const attempt = kiln.runNext()
    await kiln.providers.speech.called()
    await kiln.advance("29 minutes")
    expect((await kiln.get(job)).status).toBe("processing")
    expect(await kiln.runNext()).toBeUndefined()
    await kiln.advance("1 minute")
    expect((await attempt)?.id).toBe(job.id)
    assertFailed(await kiln.get(job), "job_timeout")
  })

  it("lets no time pass by itself, and wakes each waiter on time", async () => {
    await using kiln = await testEngine({ mode: "manual", startAt: new Date(0) })
    kiln.providers.speech.answerLate(60_000)
    const job = await kiln.submit("speech_synthesis", { input: "Hello" })
    const attempt = kiln.runNext()
    await kiln.providers.speech.called()
    await kiln.advance("59 seconds")
    expect((await kiln.get(job)).status).toBe("processing")
    await kiln.advance("5 minutes")
    expect(await attempt).toMatchObject({ status: "done", finishedAt: new Date(60_000) })
    expect(kiln.now()).toEqual(new Date(359_000))
  })

  it("waits for a paused provider with a job that could otherwise run", async () => {
    await using kiln = await testEngine({ mode: "manual", jobMode: "live" })
    kiln.providers.speech.fail("quota")
    const first = await kiln.submit("speech_synthesis", { input: "a" })
    await kiln.runNext()
    await kiln.operator.cancel(first)
    await kiln.submit("speech_synthesis", { input: "b" })
    expect([await kiln.drain(), await kiln.drain({ throughRetries: true })]).toEqual([0, 1])
  })

  it("lets a job that is never run time out", async () => {
    await using kiln = await testEngine({ mode: "manual" })
    const job = await kiln.submit("speech_synthesis", { input: "Hello" })
    await kiln.advance("23 hours")
    expect((await kiln.get(job)).status).toBe("queued")
    await kiln.advance("1 hour")
    assertFailed(await kiln.get(job), "queue_timeout")
  })

  it("pauses a kind immediately", async () => {
    await using kiln = await testEngine({ mode: "manual" })
    await kiln.submit("speech_synthesis", { input: "a" })
    await kiln.submit("speech_synthesis", { input: "b" })
    await kiln.runNext()
    await kiln.operator.pause("speech_synthesis")
    expect(await kiln.drain({ throughRetries: true })).toBe(0)
  })

  it("emits events as they happen", async () => {
    await using kiln = await testEngine({ mode: "manual" })
    const heard: Array<string> = []
    for (const type of ["queued", "active", "attempt_failed", "completed"] as const)
      kiln.on(type, () => heard.push(type))
    kiln.providers.speech.fail()
    await kiln.submit("speech_synthesis", { input: "Hello" })
    await kiln.drain({ throughRetries: true })
    expect(heard).toEqual(["queued", "active", "attempt_failed", "active", "completed"])
  })

  it("stops when each job creates another", async () => {
    const kinds = [
      greeting(async (name) => {
        await kiln.submit("greeting", { name })
        return name
      }),
    ]
    await using kiln = await testEngine({ kinds, mode: "manual", settings: { queueCap: 3 } })
    await kiln.submit("greeting", { name: "again" })
    await expect(kiln.drain()).rejects.toThrow("drain() stopped after 1000 attempts")
  })

  it("closes while an attempt hangs that nobody awaits", async () => {
    const kiln = await testEngine({ mode: "manual" })
    kiln.providers.speech.hang()
    await kiln.submit("speech_synthesis", { input: "Hello" })
    const left = kiln.runNext()
    await kiln.providers.speech.called()
    await kiln.stop()
    await expect(left).rejects.toThrow("the engine is closed")
    expect(kiln.providers.speech.calls[0]?.outcome).toBe("interrupted")
  })

  it("works for everything that is built on an engine", async () => {
    await using kiln = await testEngine({ mode: "manual" })
    expect(Context.get(embeddedContext(kiln), Engine).kinds.map(({ name }) => name)).toContain("speech_synthesis")
    await expect(kiln.start()).resolves.toBeUndefined()
  })

  it("starts at the given time, and accepts durations", async () => {
    await using kiln = await testEngine({ mode: "manual", startAt: new Date("2026-02-03T04:05:06Z") })
    await kiln.advance("1 hour")
    expect(kiln.now()).toEqual(new Date("2026-02-03T05:05:06Z"))
    await expect(kiln.advance(-1)).rejects.toThrow('"-1" is not a duration')
  })

  it("rejects a wait for a job that nothing runs, and says what to call", async () => {
    await using kiln = await testEngine({ mode: "manual" })
    const job = await kiln.submit("speech_synthesis", { input: "Hello" })
    const message = new RegExp(`${job.id} has not finished; call drain\\(\\) before you await it`)
    await Promise.all([
      expect(kiln.wait(job)).rejects.toThrow(message),
      expect(kiln.wait(job, { timeoutMs: 1_000 })).rejects.toThrow(message),
      expect(kiln.submitAndWait("speech_synthesis", { input: "Hello" })).rejects.toThrow("call drain()"),
    ])
    const waiting = kiln.wait(job)
    await kiln.drain()
    assertDone(await waiting)
    await expect(
      kiln.wait(await kiln.submit("speech_synthesis", { input: "a" }), { signal: AbortSignal.abort() }),
    ).rejects.toThrow("aborted")
  })

  it("keeps a wait while an attempt runs, however long it takes", async () => {
    const kinds = [
      greeting(async (name) => {
        await new Promise((resolve) => setTimeout(resolve, 6_000))
        return name
      }),
    ]
    await using kiln = await testEngine({ kinds, mode: "manual" })
    const waiting = kiln.submitAndWait("greeting", { name: "Ada" })
    await expect.poll(async () => (await kiln.submitted()).length).toBe(1)
    await kiln.runNext()
    assertDone(await waiting)
  })
})

describe.each(["inline", "manual", "live"] as const)("a wait of a test engine in mode %s", (mode) => {
  it("rejects wrong arguments as createEngine's does, and once", async () => {
    const unhandled = vi.fn<(error: unknown) => void>()
    process.on("unhandledRejection", unhandled)
    await using kiln = await testEngine({ mode })
    const wait = kiln.wait as (job: unknown, options?: unknown) => Promise<unknown>
    const job = await kiln.submit("speech_synthesis", { input: "Hello" })
    await expect(wait(job, { signal: null })).rejects.toThrow("signal must be an AbortSignal")
    await expect(wait(job, null)).rejects.toThrow("wait() expects its options as an object, not null")
    await expect(wait(undefined)).rejects.toThrow("expected a job or the id of a job, not undefined")
    await expect(wait("job_x")).rejects.toMatchObject({ code: "job_not_found" })
    await new Promise(setImmediate)
    process.off("unhandledRejection", unhandled)
    expect(unhandled).not.toHaveBeenCalled()
  })
})

describe("a live test engine", () => {
  it("runs jobs by itself, in real time", async () => {
    let failures = 1
    const kinds = [
      greeting(async (name) => {
        if (failures-- > 0) throw busy()
        return name
      }),
    ]
    await using kiln = await testEngine({ kinds, mode: "live" })
    const submitted = await kiln.submit("greeting", { name: "Ada" })
    expect(submitted.status).toBe("queued")
    const job = await kiln.wait(submitted)
    assertDone(job)
    expect([job.output, job.attempts]).toEqual([{ text: "Ada" }, 2])
    expect(Math.abs(kiln.now().getTime() - Date.now())).toBeLessThan(60_000)
  })

  it("refuses manual control", async () => {
    await using kiln = await testEngine({ mode: "live" })
    for (const verb of [() => kiln.runNext(), () => kiln.drain(), () => kiln.advance(1)])
      await expect(verb()).rejects.toThrow("runs its jobs in real time")
  })
})
