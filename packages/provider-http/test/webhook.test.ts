import { createHmac } from "node:crypto"
import { createServer, type IncomingHttpHeaders } from "node:http"
import type { AddressInfo } from "node:net"
import type { Finished, FinishedJob } from "@kiln/core"
import { afterEach, describe, expect, it } from "vitest"
import { webhook } from "../src/index.ts"

const secretOf = (letter: string) => `whsec_${Buffer.from(letter.repeat(32)).toString("base64")}`
const secret = secretOf("a")

const job = {
  id: "job_00000000000000000000000001",
  kind: "digest",
  status: "done",
  createdAt: new Date("2030-01-01T00:00:00Z"),
  finishedAt: new Date("2030-01-01T00:00:05Z"),
  output: { text: "é😀" },
} as object as FinishedJob

const finished = (signal = new AbortController().signal): Finished => ({ job, attempt: 1, signal })

const closing: Array<() => void> = []
afterEach(() => {
  for (const close of closing.splice(0)) close()
})

/** A receiver, and what it received. */
const receiver = async (status: number, headers: Record<string, string> = {}) => {
  const received: Array<{ headers: IncomingHttpHeaders; body: string; method: string | undefined }> = []
  const server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      received.push({ headers: request.headers, body: Buffer.concat(chunks).toString(), method: request.method })
      if (status > 0) response.writeHead(status, headers).end("ok")
    })
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  closing.push(() => {
    server.closeAllConnections()
    server.close()
  })
  return { received, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook` }
}

const local = { secret, allowPrivateAddresses: true } as const

describe("webhook", () => {
  it("posts the job, signed as Standard Webhooks says", async () => {
    const { received, url } = await receiver(204)
    await webhook({ ...local, url, secret: [secret, secretOf("b")] })(finished())
    expect(received).toHaveLength(1)
    const { body = "", headers = {}, method } = received[0] ?? {}
    expect([method, headers["content-type"], headers["webhook-id"]]).toEqual(["POST", "application/json", job.id])
    expect(JSON.parse(body)).toEqual({
      type: "job.completed",
      timestamp: "2030-01-01T00:00:05.000Z",
      data: JSON.parse(JSON.stringify(job)),
    })
    const timestamp = String(headers["webhook-timestamp"])
    expect(Math.abs(Number(timestamp) - Date.now() / 1_000)).toBeLessThan(60)
    const signed = (letter: string) =>
      `v1,${createHmac("sha256", letter.repeat(32)).update(`${job.id}.${timestamp}.${body}`).digest("base64")}`
    expect(headers["webhook-signature"]).toBe(`${signed("a")} ${signed("b")}`)
  })

  it("names a failed job, and sends what `data` returns", async () => {
    const { received, url } = await receiver(200)
    const failed = { ...job, status: "failed", errorCode: "internal_error" } as object as FinishedJob
    await webhook({ ...local, url, data: ({ id }) => ({ id }) })({ ...finished(), job: failed })
    expect(JSON.parse(received[0]?.body ?? "")).toMatchObject({ type: "job.failed", data: { id: job.id } })
    await webhook({ ...local, url, data: async ({ id }) => ({ later: id }) })(finished())
    expect(JSON.parse(received[1]?.body ?? "")).toMatchObject({ data: { later: job.id } })
  })

  it.each([301, 302, 307, 308])("follows no redirect: %i", async (status) => {
    const target = await receiver(200)
    const { received, url } = await receiver(status, { location: target.url })
    await expect(webhook({ ...local, url })(finished())).rejects.toThrow("fetch refused: redirects")
    expect([received.length, target.received.length]).toEqual([1, 0])
  })

  it.each([400, 410, 429, 500])("rejects when the answer is %i", async (status) => {
    const { url } = await receiver(status)
    const answered = webhook({ ...local, url })(finished())
    // The log shows the name of an error, never its message.
    await expect(answered).rejects.toMatchObject({ status, name: `WebhookRefused (status ${status})` })
    await expect(answered).rejects.toThrow(`answered with ${status}`)
  })

  it("rejects when no answer comes in time, and when the engine aborts", async () => {
    const { url } = await receiver(0)
    await expect(webhook({ ...local, url, timeoutMs: 50 })(finished())).rejects.toThrow(/timeout/i)
    const stopping = new AbortController()
    const sending = webhook({ ...local, url })(finished(stopping.signal))
    stopping.abort(new Error("the engine stops"))
    await expect(sending).rejects.toThrow("the engine stops")
  })

  it.each([
    ["http://127.0.0.1:8080/"],
    ["http://[::1]:8080/"],
    ["http://10.0.0.1/"],
    ["http://169.254.169.254/latest/meta-data"],
    ["http://[::ffff:127.0.0.1]:8080/"],
    ["http://0x7f.1:8080/"],
  ])("refuses the address %s", async (url) => {
    await expect(webhook({ url, secret })(finished())).rejects.toThrow("fetch refused: address")
  })

  it("refuses a name that resolves to a private address, with nothing sent", async () => {
    const { received, url } = await receiver(200)
    const { port } = new URL(url)
    const lookup = (_: string, __: object, callback: (...answer: Array<unknown>) => void) =>
      callback(null, [{ address: "127.0.0.1", family: 4 }])
    const hook = webhook({ url: `http://example.com:${port}/hook`, secret, lookup: lookup as never })
    await expect(hook(finished())).rejects.toThrow("fetch refused: address")
    expect(received).toEqual([])
  })

  it.each([
    ["url", { url: "ftp://example.com", secret }],
    ["url", { url: "nonsense", secret }],
    ["user name", { url: "https://user:pass@example.com", secret }],
    ["whsec_", { url: "https://example.com", secret: "hunter2-hunter2-hunter2" }],
    ["24 to 64 bytes", { url: "https://example.com", secret: "whsec_c2hvcnQ=" }],
    ["empty list", { url: "https://example.com", secret: [] }],
    ["timeoutMs", { url: "https://example.com", secret, timeoutMs: 0 }],
    [
      "timeoutMs must be an integer between 1 and 2147483647",
      { url: "https://example.com", secret, timeoutMs: 2 ** 31 },
    ],
    ["allowPrivateAddresses", { url: "https://example.com", secret, allowPrivateAddresses: "yes" }],
    ['did you mean "timeoutMs"?', { url: "https://example.com", secret, timeoutMS: 5 }],
  ])("reports an invalid %s", (message, options) => {
    expect(() => webhook(options as never)).toThrow(message)
    expect(() => webhook(options as never)).toThrow(TypeError)
    expect(() => webhook(options as never)).not.toThrow("hunter2-hunter2")
  })
})
