import { get } from "node:http"
import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { preferredWait } from "../../src/handlers/pollJob.ts"
import type { Service } from "../contract/support/Service.ts"
import { startService } from "../contract/support/startService.ts"

describe("the preference wait", () => {
  it.each([
    [undefined, undefined],
    [["wait=5"], 5],
    [["WAIT = 5"], 5],
    [['wait="7"'], 7],
    [["respond-async, wait=12; note=a"], 12],
    [["respond-async", "wait=3"], 3],
    [["wait=3, wait=9"], 3],
    [["wait=600"], 30],
    [["wait=0"], 0],
    [["wait"], undefined],
    [["wait=-1"], undefined],
    [["wait=1.5"], undefined],
    [["waiter=4"], undefined],
  ])("of %j is %j", (values, seconds) => {
    expect(preferredWait(values)).toBe(seconds)
  })
})

describe("a held poll", () => {
  let service: Service
  let key: string
  beforeAll(async () => {
    service = await startService("sqlite", { holds: true })
    ;({ secret: key } = await service.createKey())
  })
  afterAll(() => service.stop())

  const call = (path: string, init: RequestInit = {}) =>
    fetch(`http://127.0.0.1:${service.ports[0]}${path}`, {
      ...init,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...init.headers },
    })
  const create = async (input: string): Promise<string> => {
    const headers = { "idempotency-key": crypto.randomUUID() }
    const created = await call("/v1/audio/speech", { method: "POST", body: JSON.stringify({ input }), headers })
    return ((await created.json()) as { readonly id: string }).id
  }
  const poll = async (id: string, prefer?: string) => {
    const began = performance.now()
    const response = await call(`/v1/jobs/${id}`, {
      ...(prefer !== undefined && { headers: { prefer } }),
    })
    const { status } = (await response.json()) as { readonly status: string }
    return { status, headers: response.headers, tookMs: performance.now() - began }
  }

  it("is answered at the end of the job", async () => {
    const { headers, status } = await poll(await create("hold:0.6"), "wait=25")
    expect(status).toBe("done")
    expect(headers.get("preference-applied")).toBe("wait=25")
    expect(headers.get("vary")).toBe("prefer")
    expect(headers.get("retry-after")).toBeNull()
  })

  it("is answered when its time is over", async () => {
    const { headers, status, tookMs } = await poll(await create("hold:30"), "wait=1")
    expect(status).not.toBe("done")
    expect(tookMs).toBeGreaterThan(900)
    expect(headers.get("preference-applied")).toBe("wait=1")
    expect(headers.get("retry-after")).toBe("2")
  })

  it("of no time is answered at once", async () => {
    const { headers, status } = await poll(await create("hold:30"), "wait=0")
    expect(status).not.toBe("done")
    expect(headers.get("preference-applied")).toBe("wait=0")
  })

  it("does not exist without the header", async () => {
    const { headers, status } = await poll(await create("hold:30"))
    expect(status).not.toBe("done")
    expect(headers.get("preference-applied")).toBeNull()
    expect(headers.get("vary")).toBeNull()
  })

  it("of another caller's job is refused at once", async () => {
    const id = await create("hold:30")
    const other = await service.createKey()
    const headers = { authorization: `Bearer ${other.secret}`, prefer: "wait=30" }
    const refused = await call(`/v1/jobs/${id}`, { headers })
    expect(refused.status).toBe(404)
    await refused.text()
  })

  it("ends with its client, and with the process", async () => {
    // The process waits for its attempts, and its polls do not.
    const id = await create("hold:3")
    const headers = { authorization: `Bearer ${key}`, prefer: "wait=30" }
    const left = get({ port: service.ports[0], path: `/v1/jobs/${id}`, headers, agent: false }, () => {})
    const gone = new Promise((resolve) => left.on("error", () => {}).on("close", resolve))
    await sleep(100)
    left.destroy()
    await gone
    const held = poll(id, "wait=30")
    await sleep(200)
    const stopped = service.stop()
    const answer = await held
    expect(answer.status).toBe("processing")
    expect(answer.headers.get("connection")).toBe("close")
    await stopped
  })
})
