import { createServer, type Server as HttpServer } from "node:http"
import type { AddressInfo } from "node:net"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import type { ErrorCode } from "@kiln/core/domain"
import {
  answer,
  badRequest,
  contentPolicyViolation,
  empty,
  endless,
  failWith,
  hang,
  hangAfterHeaders,
  html,
  huge,
  malformed,
  moderationBlocked,
  type OpenAiBehavior,
  type OpenAiStandIn,
  overloaded,
  rateLimited,
  reset,
  serverError,
  standInApiKey,
  startOpenAiStandIn,
  trickle,
  truncated,
} from "@kiln/testing/openai"
import { audit } from "../crash/support/audit.ts"
import { Lab, patience, type Server } from "../crash/support/Lab.ts"
import { LiveClient, type LiveJob, type LiveKind, type LivePoll } from "./support/LiveClient.ts"
import { freePort, labEnvironment, longLease } from "./support/openAiEnvironment.ts"

/** Every kind of invalid answer, on every endpoint of one server. */

const canary = "canary-51c9"

/** More than any port takes. */
const hugeBytes = 70 * 1024 * 1024

/** The final state of a job, and the number of calls it took. */
type End = readonly [errorCode: ErrorCode, calls: number]
const unavailable: End = ["provider_unavailable", 3]
const invalid: End = ["result_invalid", 3]
const content: End = ["content_rejected", 1]
const rejected: End = ["provider_rejected", 1]

const everywhere: ReadonlyArray<readonly [name: string, behavior: OpenAiBehavior<never>, end: End]> = [
  ["500", serverError, unavailable],
  ["503", overloaded, unavailable],
  ["an unknown status", failWith({ status: 599, message: canary }), unavailable],
  ["429 that never passes", rateLimited(0), unavailable],
  ["a reset before the answer", reset("before"), unavailable],
  ["a reset in the middle", reset("middle"), unavailable],
  ["a body that breaks off", truncated("body"), unavailable],
  ["half a file", truncated("file"), invalid],
  ["no JSON", malformed("notJson"), invalid],
  ["JSON of another shape", malformed("otherShape"), invalid],
  ["invalid base64", malformed("wrongBase64"), invalid],
  ["a page in HTML", html, invalid],
  ["nothing", empty, invalid],
  ["more than is taken, announced", huge(hugeBytes, "length"), invalid],
  ["no end", endless, invalid],
  ["a refusal of the content", contentPolicyViolation, content],
  ["the same in newer words", moderationBlocked, content],
  ["a refusal of the request", badRequest("input", `cannot do ${canary}`), rejected],
  ["a refusal without words", failWith({ status: 422, message: canary, code: null, type: "" }), rejected],
]

const endpoints = [
  ["speech", "speech"],
  ["transcription", "transcription"],
  ["image", "image"],
  ["turn", "chat"],
] as const satisfies ReadonlyArray<readonly [LiveKind, "speech" | "transcription" | "image" | "chat"]>

const engine = {
  pollIntervalMs: 50,
  orphanIntervalMs: 100,
  attempts: { backoffBaseMs: 20 },
  // What pauses a provider is looked at elsewhere.
  circuit: { maxFailures: 1_000_000 },
  providers: { reply: { concurrency: 0, callLimitMs: 2_500 } },
}

describe("a live job whose provider fails", patience, () => {
  let lab: Lab
  let standIn: OpenAiStandIn
  let server: Server
  let client: LiveClient
  let metrics: string
  /** Another origin on this machine, which must not be requested. */
  let elsewhere: HttpServer
  let strayRequests = 0
  const jobs: Array<{ readonly job: LiveJob; readonly poll: LivePoll }> = []

  beforeAll(async () => {
    standIn = await startOpenAiStandIn()
    elsewhere = createServer((_request, response) => {
      strayRequests += 1
      response.end("secret of the network")
    })
    await new Promise<void>((resolve) => elsewhere.listen(0, "127.0.0.1", resolve))
    lab = await Lab.open()
    const port = await freePort()
    metrics = `http://127.0.0.1:${port}/metrics`
    server = await lab.start({
      engine,
      env: { ...labEnvironment(standIn), ...longLease, KILN_MANAGEMENT_PORT: String(port) },
    })
    client = new LiveClient(server.listening.url, lab.live.key)
  }, 120_000)
  afterAll(async () => {
    await lab?.[Symbol.asyncDispose]()
    await standIn?.close()
    elsewhere?.close()
  })

  const ended = async (kind: LiveKind): Promise<{ readonly job: LiveJob; readonly poll: LivePoll }> => {
    const job = await client.any(kind, `${canary} said to ${kind}`)
    const end = { job, poll: await client.finished(job) }
    jobs.push(end)
    return end
  }
  const callsTo = ({ id }: LiveJob, endpoint: string): number =>
    standIn.calls().filter((call) => call.endpoint === endpoint && call.headers.idempotencyKey?.startsWith(id)).length

  const expectEnd = async (kind: LiveKind, endpoint: string, [errorCode, calls]: End) => {
    const { job, poll } = await ended(kind)
    expect({ status: poll.status, error_code: poll.error_code, calls: callsTo(job, endpoint) }).toEqual({
      status: "failed",
      error_code: errorCode,
      calls,
    })
    expect(poll.output).toBeUndefined()
    if (kind !== "image") {
      expect(poll.billing).toEqual({ status: "not_charged", currency: "usd", amount: "0", line_items: [] })
      expect(poll.warning_code).toBe(null)
    }
    const { attempts, charge, files, lostWorkers } = await lab.job(job.id)
    expect({ attempts, charge, files, lostWorkers }).toEqual({
      attempts: calls,
      charge: null,
      files: [],
      lostWorkers: 0,
    })
    if (kind === "turn") expect(callsTo(job, "transcription"), "bought once").toBe(1)
  }

  describe.each(endpoints)("%s", (kind, endpoint) => {
    it.each(everywhere)("%s", async (_name, behavior, end) => {
      standIn.usually(endpoint, behavior)
      try {
        await expectEnd(kind, endpoint, end)
      } finally {
        standIn.usually(endpoint, answer())
      }
    })

    it("an answer after two invalid ones", async () => {
      standIn.script(endpoint, serverError, malformed("otherShape"))
      const { job, poll } = await ended(kind)
      expect(poll.status).toBe("done")
      expect(callsTo(job, endpoint)).toBe(3)
      expect(poll.billing?.status).toBe(kind === "image" ? undefined : "charged")
      expect((await lab.job(job.id)).charge?.lineItems.length).toBe(kind === "turn" ? 2 : 1)
    })
  })

  it("no answer in time: no bytes, only headers, or one byte at a time", async () => {
    standIn.script("chat", hang, hangAfterHeaders, trickle(200))
    await expectEnd("turn", "chat", unavailable)
    const cut = standIn.callsOf("chat").slice(-3)
    expect(cut.map(({ behavior, outcome }) => [behavior, outcome])).toEqual([
      ["Hang", "client_gone"],
      ["Hang", "client_gone"],
      ["Trickle", "client_gone"],
    ])
    // Its limit, and no more than a busy machine's slowness beyond.
    for (const { beganAtMs, endedAtMs = 0 } of cut) {
      expect(endedAtMs - beganAtMs).toBeGreaterThan(2_000)
      expect(endedAtMs - beganAtMs).toBeLessThan(30_000)
    }
  })

  it("audio that is not a file: samples without a container, and a wrong media type", async () => {
    for (const data of [Buffer.alloc(48_000), Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), Buffer.alloc(0)])
      standIn.script("speech", answer({ data, mediaType: "audio/mpeg" }))
    await expectEnd("speech", "speech", invalid)
  })

  it("an image of another size, another format, and one at an address of this network", async () => {
    const { port } = elsewhere.address() as AddressInfo
    const jpeg = Buffer.from("ffd8ffe000104a46494600010100000100010000ffd9", "hex")
    const small = Buffer.from(
      "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8ffff3f0005fe02fea7357d9c0000000049454e44ae426082",
      "hex",
    )
    standIn.script("image", answer({ data: small }), answer({ data: jpeg }))
    standIn.script("image", answer({ url: `http://127.0.0.1:${port}/latest/meta-data` }))
    await expectEnd("image", "image", invalid)
    for (const url of ["http://169.254.169.254/latest/meta-data", "http://[::1]/x.png", "file:///etc/passwd"])
      standIn.script("image", answer({ url }))
    await expectEnd("image", "image", invalid)
    expect(strayRequests).toBe(0)
  })

  it("a model that refuses: the job is rejected immediately", async () => {
    standIn.script("chat", answer({ text: canary, finishReason: "content_filter" }))
    await expectEnd("turn", "chat", content)
  })

  it("in total: done jobs are charged once, failed ones are not, leave no file and are not logged", async () => {
    const { chargedJobs, damaged, jobs: rows } = await audit(lab)
    const done = jobs.filter(({ poll }) => poll.status === "done").map(({ job }) => job.id)
    expect(rows).toHaveLength(jobs.length)
    expect(chargedJobs.toSorted()).toEqual(done.toSorted())
    expect(damaged).toEqual([])
    expect(lab.blobs().filter((key) => key.startsWith("jobs/"))).toHaveLength(3)
    const ready = await fetch(`${server.listening.url}/readyz`)
    const texts = [server.stdout, server.stderr, await (await fetch(metrics)).text(), await ready.text()]
    expect(ready.status).toBe(200)
    expect(server.stderr).toContain("HTTP 503")
    expect(texts[2]).toMatch(/^kiln_provider_calls_total\{[^}]*outcome="invalid"[^}]*\} [1-9]/m)
    const secrets = [canary, standInApiKey, "this is what was said", "You said", "Sign in", "secret of the network"]
    for (const secret of secrets) for (const text of texts) expect(text).not.toContain(secret)
  })
})
