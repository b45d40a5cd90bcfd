import { afterAll, beforeAll, describe, expect, it } from "vitest"
import {
  answer,
  badRequest,
  contentPolicyViolation,
  failWith,
  insufficientQuota,
  invalidKey,
  type OpenAiBehavior,
  type OpenAiStandIn,
  rateLimited,
  redirectTo,
  serverError,
  standInApiKey,
  startOpenAiStandIn,
} from "@kiln/testing/openai"
import { run, until } from "@kiln/service-lab"
import { Lab, patience, type Server } from "../crash/support/Lab.ts"
import { LiveClient, type LiveJob } from "./support/LiveClient.ts"
import { freePort, labEnvironment, longLease } from "./support/openAiEnvironment.ts"

/** Providers that can work for nobody, that are busy, and that are well though a caller is not. */

const engine = {
  pollIntervalMs: 50,
  attempts: { backoffBaseMs: 20 },
  circuit: { failingPauseMs: 2_000, failingPauseMaxMs: 2_000, brokenPauseMs: 2_000, brokenPauseMaxMs: 2_000 },
}

interface Standing {
  readonly status: "ready" | "paused"
  readonly workers: number
  readonly paused_workers: number
  readonly reason: string | null
  readonly paused_since: string | null
}

describe("the provider of live jobs", patience, () => {
  let lab: Lab
  let standIn: OpenAiStandIn
  let server: Server
  let client: LiveClient
  let metricsUrl: string

  beforeAll(async () => {
    standIn = await startOpenAiStandIn()
    lab = await Lab.open()
    const port = await freePort()
    metricsUrl = `http://127.0.0.1:${port}/metrics`
    server = await lab.start({
      engine,
      env: { ...labEnvironment(standIn), ...longLease, KILN_MANAGEMENT_PORT: String(port) },
    })
    client = new LiveClient(server.listening.url, lab.live.key)
  }, 120_000)
  afterAll(async () => {
    await lab?.[Symbol.asyncDispose]()
    await standIn?.close()
  })

  /** Returns the state of a provider. The process is ready even if providers are paused. */
  const standing = async (provider: string): Promise<Standing | undefined> => {
    const response = await fetch(`${server.listening.url}/readyz`)
    expect(response.status).toBe(200)
    return (await response.json()).details.providers?.[provider]
  }
  const metric = async (name: string, labels: Readonly<Record<string, string>>): Promise<number> => {
    const text = await (await fetch(metricsUrl)).text()
    const lines = text.split("\n").filter((line) => line.startsWith(`${name}{`))
    const line = lines.find((one) => Object.entries(labels).every(([key, value]) => one.includes(`${key}="${value}"`)))
    return Number(line?.split(" ").at(-1) ?? 0)
  }
  const callsOf = ({ id }: LiveJob) => standIn.calls().filter((call) => call.headers.idempotencyKey?.startsWith(id))

  const expectPaused = async (reason: string) => {
    const since = Date.now()
    const paused = await until(async () => {
      const found = await standing("speech")
      return found?.status === "paused" ? found : undefined
    }, 30_000)
    expect(paused).toMatchObject({ workers: 1, paused_workers: 1, reason })
    expect(Date.parse(paused.paused_since ?? "")).toBeGreaterThan(since - 60_000)
    // One call at the end of each pause finds it broken again; between two looks it may be that call's turn.
    await until(async () =>
      (await metric("kiln_provider_paused", { provider: "speech", reason })) === 1 ? 1 : undefined,
    )
    for (const other of ["quota", "configuration", "failing"].filter((one) => one !== reason))
      expect(await metric("kiln_provider_paused", { provider: "speech", reason: other })).toBe(0)
  }

  /** Returns the provider findings of `kiln doctor`; empty while the trial call at the end of a pause is running. */
  const expectDiagnosis = async (status: string, finding: object | undefined, exit: 0 | 1) => {
    const diagnosis = await until(async () => {
      const ended = await run(["doctor", "--json"], { KILN_DATA_DIR: lab.dataDirectory })
      const { checks } = JSON.parse(ended.stdout) as {
        checks: ReadonlyArray<{ name: string; status: string; findings: ReadonlyArray<object> }>
      }
      const check = checks.find(({ name }) => name === "providers")
      return check?.status === status ? { exit: ended.exit, findings: check.findings } : undefined
    }, 60_000)
    expect(diagnosis).toMatchObject({ exit, findings: finding === undefined ? [] : [finding] })
  }

  const expectMended = async (job: LiveJob) => {
    expect(await client.finished(job)).toMatchObject({ status: "done", billing: { status: "charged" } })
    await until(async () => ((await standing("speech"))?.status === "ready" ? true : undefined))
    expect(await standing("speech")).toMatchObject({ paused_workers: 0, reason: null, paused_since: null })
    for (const reason of ["quota", "configuration", "failing"])
      expect(await metric("kiln_provider_paused", { provider: "speech", reason })).toBe(0)
  }

  it.each<readonly [name: string, behavior: OpenAiBehavior<never>, reason: string]>([
    ["has no money left", insufficientQuota, "quota"],
    ["says the key is wrong", invalidKey(), "configuration"],
    ["has no such model", failWith({ status: 404, code: "model_not_found" }), "configuration"],
    ["sends requests elsewhere", redirectTo("http://169.254.169.254/latest/meta-data/"), "configuration"],
  ])("that %s is paused until it recovers; jobs wait, and none of them fails", async (_name, behavior, reason) => {
    standIn.usually("speech", behavior)
    const broken = await metric("kiln_provider_calls_total", { provider: "speech", outcome: "broken" })
    const callsBefore = standIn.callsOf("speech").length
    const jobs = [await client.speak("Hello?")]
    await until(() => standIn.callsOf("speech").length > callsBefore || undefined)
    await expectPaused(reason)
    for (let more = 0; more < 4; more++) jobs.push(await client.speak(`Hello, ${more}?`))
    // Other jobs run in the meantime.
    expect(await client.finished(await client.any("image", "a kiln"))).toMatchObject({ status: "done" })
    // More than one pause has passed, and one call at the end of each was all there was.
    const from = Date.now()
    await until(() => standIn.callsOf("speech").length >= callsBefore + 3 || undefined)
    const calls = standIn.callsOf("speech").slice(callsBefore)
    expect(calls.length - 3).toBeLessThanOrEqual(1 + (Date.now() - from) / engine.circuit.brokenPauseMs)
    calls.slice(1).forEach((call, index) => {
      expect(call.beganAtMs - (calls[index]?.endedAtMs ?? 0)).toBeGreaterThan(engine.circuit.brokenPauseMs - 100)
    })
    for (const job of jobs) {
      expect((await client.poll(job)).status).toMatch(/^(queued|processing)$/)
      expect(await lab.job(job.id)).toMatchObject({ failures: 0, lostWorkers: 0, errorCode: null })
    }
    expect(await metric("kiln_provider_calls_total", { provider: "speech", outcome: "broken" })).toBeGreaterThan(broken)
    standIn.usually("speech", answer())
    for (const job of jobs) await expectMended(job)
    if (reason === "quota") await expectDiagnosis("ok", undefined, 0)
  })

  it("that fails for all callers is paused before it costs every job an attempt", async () => {
    standIn.usually("speech", serverError)
    const before = standIn.callsOf("speech").length
    const jobs: Array<LiveJob> = []
    for (let count = 0; count < 20; count++) jobs.push(await client.speak(`Is anybody there, ${count}?`))
    await expectPaused("failing")
    // Five in a row, those that were under way with them, and one at the end of each pause.
    expect(standIn.callsOf("speech").length - before).toBeLessThan(20)
    standIn.usually("speech", answer())
    const ends = await Promise.all(jobs.map((job) => client.finished(job)))
    const failed = ends.filter(({ status }) => status === "failed")
    expect(failed.length, "most of them never heard of it").toBeLessThan(5)
    for (const end of failed) expect(end.error_code).toBe("provider_unavailable")
    await expectMended(jobs.find((_, index) => ends[index]?.status === "done") ?? { id: "", path: "" })
  })

  it("is never paused because of callers' requests", async () => {
    const refused = await metric("kiln_provider_calls_total", { provider: "speech", outcome: "refused" })
    const refusals = [badRequest("input"), contentPolicyViolation, failWith({ status: 413 }), failWith({ status: 422 })]
    for (let round = 0; round < 3; round++) standIn.script("speech", ...refusals)
    for (let round = 0; round < 12; round++) {
      const { error_code, status } = await client.finished(await client.speak("something that may not be said"))
      expect([status, error_code]).toEqual(["failed", round % 4 === 1 ? "content_rejected" : "provider_rejected"])
    }
    expect(await metric("kiln_provider_calls_total", { provider: "speech", outcome: "refused" })).toBe(refused + 12)
    expect(await standing("speech")).toMatchObject({ status: "ready", reason: null })
    const job = await client.speak("something harmless")
    expect(await client.finished(job)).toMatchObject({ status: "done" })
    expect(callsOf(job)).toHaveLength(1)
    expect(await standing("speech")).toMatchObject({ status: "ready" })
  })

  describe("that is busy", () => {
    const secondCall = async (retryAfter: number | string) => {
      standIn.script("speech", rateLimited(retryAfter))
      const job = await client.speak("Now?")
      expect(await client.finished(job)).toMatchObject({ status: "done", billing: { status: "charged" } })
      const [first, second, ...others] = callsOf(job)
      expect(others).toEqual([])
      return { asked: first?.endedAtMs ?? 0, again: second?.beganAtMs ?? 0 }
    }

    it("is called again after the seconds it named, and not before", async () => {
      const { again, asked } = await secondCall(3)
      expect(again - asked).toBeGreaterThanOrEqual(3_000)
      expect(again - asked).toBeLessThan(30_000)
    })

    it("is called again at the time it named", async () => {
      const time = new Date(Date.now() + 4_000).toUTCString()
      const { again, asked } = await secondCall(time)
      expect(again).toBeGreaterThanOrEqual(Date.parse(time))
      expect(again - asked).toBeLessThan(30_000)
    })

    it.each([
      ["a date in the past", new Date(0).toUTCString()],
      ["a negative number", "-30"],
      ["words", "in a while"],
      ["nothing", ""],
    ])("is called again soon if it names %s", async (_what, retryAfter) => {
      const { again, asked } = await secondCall(retryAfter)
      expect(again - asked).toBeLessThan(10_000)
    })

    it.each([
      ["a century", 3_153_600_000],
      ["a number that overflows", "9".repeat(400)],
      ["a date far away", "Fri, 31 Dec 9999 23:59:59 GMT"],
      ["a day", 86_400],
    ])("and names %s: its job waits at most ten minutes, others do not wait", async (_what, retryAfter) => {
      standIn.script("speech", rateLimited(retryAfter))
      const job = await client.speak("When?")
      const waiting = await until(async () => {
        const found = await lab.job(job.id)
        return found.failures === 1 && !found.held ? found : undefined
      })
      const now = Date.now()
      expect(waiting).toMatchObject({ status: "processing", errorCode: null })
      expect((waiting.claimableAt ?? 0) - now).toBeLessThanOrEqual(600_000)
      expect((waiting.claimableAt ?? 0) - now).toBeGreaterThan(570_000)
      expect(callsOf(job)).toHaveLength(1)
      expect(await client.finished(await client.speak("And I?"))).toMatchObject({ status: "done" })
    })
  })

  it("is logged without request texts, response texts or keys", () => {
    expect(server.stderr).toContain("the speech provider is paused (quota)")
    expect(server.stderr).toContain("the speech provider works again")
    const secrets = ["Hello", "anybody there", "may not be said", "a kiln", "current quota", "sk-revok", standInApiKey]
    for (const secret of secrets) expect(server.stdout + server.stderr).not.toContain(secret)
  })
})
