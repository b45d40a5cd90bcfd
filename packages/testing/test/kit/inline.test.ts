import { JobNotFound, LiveNotActive, WaitTimeout } from "@kiln/core"
import { testEngine } from "@kiln/testing"
import { assertDone, assertFailed } from "@kiln/testing/assert"
import { describe, expect, it } from "vitest"
import { busy, greeting, speech } from "./support/kinds.ts"

const start = Date.UTC(2030, 0, 1)

describe("an inline test engine", () => {
  it("runs a job to its end before submit resolves, without delay", async () => {
    await using kiln = await testEngine()
    const job = await kiln.submit("speech_synthesis", { input: "Hello" })
    assertDone(job)
    expect((await kiln.readFile(job.output!.audio)).length).toBe(job.output!.audio.bytes)
    expect([kiln.now(), job.finishedAt]).toEqual([new Date(start), new Date(start)])
  })

  it("runs the jobs of submitMany before it resolves, each with its own outcome", async () => {
    await using kiln = await testEngine()
    kiln.providers.speech.fail("content_rejected")
    const inputs = ["rejected", "", "spoken", "spoken"]
    const outcomes = await kiln.submitMany(
      "speech_synthesis",
      inputs.map((input) => ({ request: { input }, ...(input !== "" && { idempotencyKey: input }) })),
    )
    expect(outcomes.map(({ error, job }) => error?.code ?? job?.status)).toEqual([
      "failed",
      "invalid_request",
      "done",
      "done",
    ])
    expect(outcomes.map(({ replayed }) => replayed)).toEqual([false, undefined, false, true])
    expect(outcomes[3]?.job?.id).toBe(outcomes[2]?.job?.id)
    expect(kiln.providers.speech.calls).toHaveLength(2)
  })

  it("retries with backoff in virtual time, identically in every run", async () => {
    await using kiln = await testEngine()
    kiln.providers.speech.fail().fail()
    const job = await kiln.submitAndWait("speech_synthesis", { input: "Hello" })
    expect([job.status, job.attempts]).toEqual(["done", 3])
    expect(kiln.now().getTime() - start).toBe(500 + 1_000)
  })

  it("fails a job whose budget is spent", async () => {
    await using kiln = await testEngine()
    kiln.providers.speech.always.fail()
    const job = await kiln.submit("speech_synthesis", { input: "Hello" })
    assertFailed(job, "provider_unavailable")
    expect(job.attempts).toBe(3)
  })

  it("lets exactly the time pass that a fake is late", async () => {
    await using kiln = await testEngine()
    kiln.providers.speech.answerLate(61_234)
    assertDone(await kiln.submit("speech_synthesis", { input: "Hello" }))
    expect(kiln.now().getTime() - start).toBe(61_234)
  })

  it("lets time pass while a fake hangs: to the run limit, or the timeout of a live call", async () => {
    await using kiln = await testEngine()
    kiln.providers.speech.hang()
    const sandbox = await kiln.submit("speech_synthesis", { input: "Hello" })
    assertFailed(sandbox, "job_timeout")
    expect(sandbox.finishedAt.getTime() - start).toBe(30 * 60_000)
    kiln.providers.speech.always.hang()
    const live = await kiln.submit("speech_synthesis", { input: "Hello" }, { mode: "live" })
    assertFailed(live, "provider_unavailable")
    expect(live.finishedAt.getTime() - live.createdAt.getTime()).toBe(3 * 3 * 60_000 + 500 + 1_000)
  })

  it("lets no time pass while an attempt waits for something real", async () => {
    const slow = greeting((name) => new Promise((resolve) => setTimeout(() => resolve(`Hello ${name}`), 30)))
    await using kiln = await testEngine({ kinds: [slow, speech] })
    kiln.providers.speech.answerLate(1_000)
    assertDone(await kiln.submit("speech_synthesis", { input: "Hello" }))
    const job = await kiln.submit("greeting", { name: "Ada" })
    assertDone(job)
    expect(job.output).toEqual({ text: "Hello Ada" })
    expect(kiln.now().getTime() - start).toBe(1_000)
  })

  it("starts a delayed job when its time has come", async () => {
    await using kiln = await testEngine()
    assertDone(await kiln.submit("speech_synthesis", { input: "Later" }, { delayMs: 3 * 86_400_000 }))
    expect(kiln.now().getTime() - start).toBe(3 * 86_400_000)
  })

  it("runs jobs that were submitted together", async () => {
    const running: Array<string> = []
    const kinds = [
      greeting(async (name, attempt) => {
        running.push(`${name} ${attempt}`)
        if (attempt === 1) throw busy()
        return name
      }),
    ]
    await using kiln = await testEngine({ kinds })
    const jobs = await Promise.all(["a", "b", "c"].map((name) => kiln.submit("greeting", { name })))
    expect(jobs.map(({ attempts, status }) => [status, attempts])).toEqual(jobs.map(() => ["done", 2]))
    expect(running.sort()).toEqual(["a 1", "a 2", "b 1", "b 2", "c 1", "c 2"])
  })

  it("runs jobs one after the other if a limit requires it", async () => {
    await using kiln = await testEngine({ settings: { limits: { perKind: {}, perProject: 1 } } })
    const jobs = await Promise.all(["a", "b"].map((input) => kiln.submit("speech_synthesis", { input })))
    expect(jobs.map(({ status }) => status)).toEqual(["done", "done"])
  })

  it("runs a job that another job submits, including its retries", async () => {
    const kinds = [
      greeting(async (input): Promise<string> => {
        const inner: { readonly status: string } = await kiln.submit("speech_synthesis", { input })
        return inner.status
      }),
      speech,
    ]
    await using kiln = await testEngine({ kinds })
    kiln.providers.speech.fail()
    const job = await kiln.submit("greeting", { name: "Ada" })
    assertDone(job)
    expect(job.output).toEqual({ text: "done" })
  })

  it("retries a failed job on request", async () => {
    await using kiln = await testEngine()
    kiln.providers.speech.fail("content_rejected")
    const failed = await kiln.submit("speech_synthesis", { input: "Hello" })
    assertFailed(failed, "content_rejected")
    const again = await kiln.operator.retry(failed)
    assertDone(again)
    expect(again.id).not.toBe(failed.id)
  })

  it("retries many failed jobs on request, each to its end", async () => {
    await using kiln = await testEngine()
    const { speech } = kiln.providers
    speech.fail("content_rejected").fail("content_rejected")
    for (const input of ["one", "two"])
      assertFailed(await kiln.submit("speech_synthesis", { input }), "content_rejected")
    speech.fail()
    expect(await kiln.operator.retryMany({ kind: "speech_synthesis" })).toMatchObject({ matched: 2, changed: 2 })
    expect((await kiln.submitted()).map(({ status }) => status)).toEqual(["failed", "failed", "done", "done"])
    expect(await kiln.operator.retryMany({ kind: "speech_synthesis" }, { dryRun: true })).toMatchObject({ changed: 0 })
  })

  it("returns a job that cannot run now unfinished, and runs it once it can", async () => {
    await using kiln = await testEngine()
    await kiln.operator.pause("speech_synthesis")
    const job = await kiln.submit("speech_synthesis", { input: "Hello" })
    expect(job.status).toBe("queued")
    await expect(kiln.wait(job, { timeoutMs: 5_000 })).rejects.toThrow(WaitTimeout)
    await kiln.operator.resume("speech_synthesis")
    assertDone(await kiln.get(job))
  })

  it("waits for a paused provider, and gives up on one that is never fixed", async () => {
    await using kiln = await testEngine()
    kiln.providers.speech.fail("configuration")
    assertDone(await kiln.submit("speech_synthesis", { input: "Hello" }, { mode: "live" }))
    expect(kiln.now().getTime() - start).toBeGreaterThan(30_000)
    kiln.providers.speech.always.fail("quota")
    assertFailed(await kiln.submit("speech_synthesis", { input: "Hello" }, { mode: "live" }), "queue_timeout")
  })

  it("replays an idempotency key", async () => {
    await using kiln = await testEngine()
    const options = { idempotencyKey: "order-1" }
    const first = await kiln.submit("speech_synthesis", { input: "Hello" }, options)
    expect((await kiln.submit("speech_synthesis", { input: "Hello" }, options)).id).toBe(first.id)
    expect(await kiln.submitted()).toHaveLength(1)
  })

  it("expires data, then forgets the job", async () => {
    await using kiln = await testEngine()
    const job = await kiln.submit("speech_synthesis", { input: "Hello" })
    await kiln.advance("29 days")
    expect((await kiln.get(job)).warningCode).toBeNull()
    await kiln.advance("1 day")
    expect(await kiln.get(job)).toMatchObject({ output: null, warningCode: "data_expired" })
    await kiln.advance("60 days")
    await expect(kiln.get(job)).rejects.toThrow(JobNotFound)
  })
})

describe("live jobs of a test engine", () => {
  it("have prices and switches: one cent per unit", async () => {
    await using kiln = await testEngine({ jobMode: "live" })
    const job = await kiln.submit("speech_synthesis", { input: "Hello" })
    expect(job.billing).toMatchObject({ status: "charged", currency: "usd", amount: "0.05" })
  })

  it("have the prices they are given", async () => {
    const prices = { "svc-audio": { currency: "eur", unitAmounts: { input_characters: "0.5" } } }
    await using kiln = await testEngine({ jobMode: "live", prices })
    expect((await kiln.submit("speech_synthesis", { input: "Hello" })).billing).toMatchObject({
      currency: "eur",
      amount: "2.5",
    })
    expect((await kiln.submit("image_generation", { prompt: "a fox" })).billing.amount).toBe("0.01")
  })

  it("are refused if everything is off, or, if a setting requires a worker, if none serves them", async () => {
    await using off = await testEngine({ jobMode: "live", prices: false })
    await expect(off.submit("speech_synthesis", { input: "Hello" })).rejects.toThrow(LiveNotActive)
    const unservedOptions = { jobMode: "live", providers: { speech: "none" } } as const
    await using waiting = await testEngine(unservedOptions)
    expect((await waiting.submit("speech_synthesis", { input: "Hello" })).status).toBe("queued")
    await using unserved = await testEngine({ ...unservedOptions, settings: { requireLiveWorker: true } })
    await expect(unserved.submit("speech_synthesis", { input: "Hello" })).rejects.toThrow("provider:speech_synthesis")
  })

  it("stop within a second of a switch", async () => {
    await using kiln = await testEngine({ mode: "manual", jobMode: "live" })
    const job = await kiln.submit("speech_synthesis", { input: "Hello" })
    kiln.providers.speech.fail()
    await kiln.runNext()
    await kiln.operator.setSwitch("audio", false)
    expect(await kiln.drain({ throughRetries: true })).toBe(0)
    await kiln.operator.setSwitch("audio", true)
    expect(await kiln.drain({ throughRetries: true })).toBe(1)
    assertDone(await kiln.get(job))
  })
})
