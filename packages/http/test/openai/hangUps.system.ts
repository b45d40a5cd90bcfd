import { once } from "node:events"
import { setTimeout as sleep } from "node:timers/promises"
import type { JobStore } from "@kiln/core/ports"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { Effect, Fiber } from "effect"
import { expect, it } from "vitest"
import { makeJobWaits } from "../../src/server/JobWaits.ts"
import { RawConnection } from "../server/RawConnection.ts"
import { startServer } from "../server/startServer.ts"
import { boundary, form, until, wav } from "./support.ts"

const clients = 500

it(
  "500 clients that hang up at random moments leave jobs that run once, and nothing else",
  { timeout: 60_000 },
  async () => {
    const created = new Set<string>()
    const calls = new Map<string, number>()
    let fibers = 0
    const { speech, transcription, ...others } = sandboxProviders({ steering: true })
    const counted =
      <R, C extends { readonly jobId: string }, A>(provider: (request: R, call: C) => A) =>
      (request: R, call: C): A => {
        calls.set(call.jobId, (calls.get(call.jobId) ?? 0) + 1)
        return provider(request, call)
      }
    const remember = (outcomes: ReadonlyArray<object>): void => {
      for (const outcome of outcomes) if ("job" in outcome) created.add((outcome.job as { readonly id: string }).id)
    }
    const wrapJobs = (store: JobStore["Service"]): JobStore["Service"] => ({
      ...store,
      createJobs: (jobs) => Effect.tap(store.createJobs(jobs), (outcomes) => Effect.sync(() => remember(outcomes))),
      createAndClaimJobs: (jobs, request) =>
        Effect.tap(store.createAndClaimJobs(jobs, request), (both) => Effect.sync(() => remember(both.created))),
    })
    await using server = await startServer({
      worker: true,
      wrapJobs,
      sandbox: {
        ...others,
        ...(speech && { speech: counted(speech) }),
        ...(transcription && { transcription: counted(transcription) }),
      },
      http: { openAi: { waitMs: 30_000 }, rateLimits: unlimited },
      engine: { uploadCap: { uploads: 400, bytes: 0 }, queueCap: 0 },
      fibers: { recordFiberStart: () => void (fibers += 1), recordFiberEnd: () => void (fibers -= 1) },
    })
    const { secret } = await server.createKey()
    await sleep(200)
    const before = { fibers, sockets: sockets() }

    const hangUp = async (index: number): Promise<void> => {
      const isForm = index % 2 === 0
      const body = isForm
        ? form(["file", wav(2_000 + index)], ["model", "whisper-1"])
        : Buffer.from(JSON.stringify({ model: "tts-1", voice: "nova", input: `Client ${index}` }))
      const connection = new RawConnection(server.port)
      await once(connection.socket, "connect")
      const type = isForm ? `multipart/form-data; boundary=${boundary}` : "application/json"
      const path = isForm ? "transcriptions" : "speech"
      connection.send(
        `POST /openai/v1/audio/${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${secret}\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n`,
      )
      const cut = index % 5 === 0 ? Math.floor(Math.random() * body.length) : body.length
      connection.socket.on("error", () => undefined)
      connection.socket.write(body.subarray(0, cut))
      await sleep(Math.random() * 600)
      connection.socket.destroy()
    }
    await Promise.all(
      Array.from({ length: clients }, (_, index) => sleep(Math.random() * 1_000).then(() => hangUp(index))),
    )

    const ask = (path: string, init: RequestInit = {}) =>
      fetch(`${server.url}/v1/${path}`, {
        ...init,
        headers: { authorization: `Bearer ${secret}`, "content-type": "application/json", connection: "close" },
      })
    expect(created.size).toBeGreaterThan(0)
    for (const id of created)
      await until(
        async () => ((await (await ask(`jobs/${id}`)).json()) as { readonly status: string }).status === "done",
      )
    expect([...created].map((id) => calls.get(id))).toEqual(Array(created.size).fill(1))
    expect(calls.size).toBe(created.size)
    // Every upload of these clients is consumed or gone: the whole cap is free.
    const announce = () =>
      ask("audio/uploads", { method: "POST", body: JSON.stringify({ format: "wav", declared_seconds: 1 }) })
    for (let upload = 0; upload < 400; upload += 1) expect((await announce()).status).toBe(201)
    expect((await announce()).status).toBe(429)
    await until(async () => sockets() <= before.sockets && fibers <= before.fibers + 5)
  },
)

const limit = { perMinute: 1_000_000, burst: 1_000_000 }
const unlimited = { create: limit, upload: limit, read: limit, delete: limit, authentication: limit, pages: limit }
const sockets = () => process.getActiveResourcesInfo().filter((name) => name === "TCPSocketWrap").length

it("a wait that is interrupted frees its slot", async () => {
  const waits = makeJobWaits({ onJobEnd: () => () => {} }, { onStopping: () => () => {}, isStopping: () => false })
  const principal = { keyId: "key_1", projectId: "prj_1", mode: "sandbox", scopes: [] } as const
  const wait = waits.waitForEnd(principal, "job_1", 1_000)
  const round = Effect.gen(function* () {
    const fibers = yield* Effect.forEach(Array(2_000).fill(wait), (each: typeof wait) => Effect.forkChild(each))
    yield* Effect.sleep(50)
    const isRefused = !(yield* wait)
    yield* Fiber.interruptAll(fibers)
    return isRefused
  })
  expect(await Effect.runPromise(Effect.all([round, round]))).toEqual([true, true])
})
