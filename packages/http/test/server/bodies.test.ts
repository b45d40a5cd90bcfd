import { Effect, Layer, Stream } from "effect"
import { BlobStore } from "@kiln/core/ports"
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest"
import { codeOf, head, RawConnection } from "./RawConnection.ts"
import { startServer, type TestServer } from "./startServer.ts"

let server: TestServer
let key: string
beforeAll(async () => {
  server = await startServer({ upload: { maxBytes: 1_000_000, stallLimitMs: 400 } })
  key = (await server.createKey()).secret
})
afterAll(() => server.stop())

const open = () => new RawConnection(server.port)
const json = (length: number, ...more: ReadonlyArray<string>) =>
  head(
    "POST /v1/audio/speech",
    `Authorization: Bearer ${key}`,
    "Content-Type: application/json",
    `Content-Length: ${length}`,
    ...more,
  )

const wav = (bytes: number): Buffer => {
  const file = Buffer.alloc(bytes)
  file.write("RIFF\0\0\0\0WAVEfmt ", "latin1")
  return file
}

const announce = async (at = server, secret = key): Promise<string> => {
  const response = await fetch(`${at.url}/v1/audio/uploads`, {
    method: "POST",
    headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
    body: JSON.stringify({ format: "wav", declared_seconds: 1 }),
  })
  const { upload_url } = (await response.json()) as { upload_url: string }
  return upload_url.slice(at.url.length)
}
const put = (target: string, length: number, ...more: ReadonlyArray<string>) =>
  head(`PUT ${target}`, "Content-Type: audio/wav", `Content-Length: ${length}`, ...more)

/** How the upload stands, asked without beginning a transfer: the type is checked behind "is another one running". */
const stateOf = async (connection: RawConnection, target: string) =>
  codeOf(await connection.send(head(`PUT ${target}`, "Content-Type: text/plain", "Content-Length: 0")).read())

/** Other work on this machine may be slow, the service must not be. */
const patience = { timeout: 120_000 }

describe("Expect: 100-continue", () => {
  const expectContinue = "Expect: 100-continue"

  it("gets only the refusal if the headers decide, and the connection ends", async () => {
    using connection = open()
    const response = await connection.send(json(100, expectContinue, "Content-Encoding: gzip")).read()
    expect([connection.interim, response.status, codeOf(response)]).toEqual([0, 415, "unsupported_content_type"])
    expect(response.headers.get("connection")).toBe("close")
    await connection.untilClosed()
  })

  it("gets only 413 if the announced length is too large", async () => {
    using connection = open()
    const target = await announce()
    const response = await connection.send(put(target, 1_000_001, expectContinue)).read()
    expect([connection.interim, codeOf(response)]).toEqual([0, "file_too_large"])
  })

  it("gets 100 when the body is read, and the connection continues", async () => {
    using connection = open()
    const target = await announce()
    await connection.send(put(target, 100, expectContinue)).untilInterim()
    expect((await connection.send(wav(100)).read()).status).toBe(204)
    expect(connection.interim).toBe(1)
    expect((await connection.send(head("GET /healthz")).read()).status).toBe(200)
  })

  it("gets 100 once even if the body is refused afterwards, and the body is read to its end", async () => {
    using connection = open()
    const target = await announce()
    await connection.send(put(target, 200_000, expectContinue)).untilInterim()
    const response = await connection.send(Buffer.alloc(200_000)).read()
    expect([connection.interim, codeOf(response)]).toEqual([1, "audio_format_mismatch"])
    expect((await connection.send(head("GET /healthz")).read()).status).toBe(200)
  })
})

describe("a refused body", () => {
  it("is read to its end before the response, and the connection continues", async () => {
    using connection = open()
    const request = head("POST /v1/audio/speech", "Content-Length: 100000")
    connection.send(request).send(Buffer.alloc(60_000))
    // Bytes sent before this request have reached the server before it, so a premature response would have arrived by now.
    using other = open()
    expect((await other.send(head("GET /healthz")).read()).status).toBe(200)
    expect(connection.pending).toBe(0)
    expect(codeOf(await connection.send(Buffer.alloc(40_000)).read())).toBe("missing_api_key")
    expect((await connection.send(head("GET /healthz")).read()).status).toBe(200)
  })

  it("of a JSON request is read up to twice the limit, then the connection ends", async () => {
    using connection = open()
    const response = await connection.send(json(10_000_000)).send(Buffer.alloc(131_072)).read()
    expect([codeOf(response), response.headers.get("connection")]).toEqual(["body_too_large", "close"])
    await connection.untilClosed()
  })

  it("gets 30 s after the response to arrive", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    try {
      using prompt = open()
      using dripping = open()
      for (const connection of [prompt, dripping]) {
        const response = await connection.send(json(131_074)).send(Buffer.alloc(131_072)).read()
        expect([codeOf(response), response.headers.get("connection")]).toEqual(["body_too_large", "keep-alive"])
      }
      expect((await prompt.send("xx").send(head("GET /healthz")).read()).status).toBe(200)
      await vi.advanceTimersByTimeAsync(29_900)
      dripping.send("x")
      // Bytes sent before this request have reached the server before it.
      expect((await prompt.send(head("GET /healthz")).read()).status).toBe(200)
      expect(dripping.closed).toBe(false)
      await vi.advanceTimersByTimeAsync(200)
      await dripping.untilClosed()
      expect((await prompt.send(head("GET /healthz")).read()).status).toBe(200)
    } finally {
      vi.useRealTimers()
    }
  })

  it("in chunks is counted", async () => {
    using connection = open()
    const chunked = head(
      "POST /v1/audio/speech",
      `Authorization: Bearer ${key}`,
      "Content-Type: application/json",
      "Transfer-Encoding: chunked",
    )
    connection.send(chunked)
    for (let sent = 0; sent < 70_000; sent += 10_000) connection.send(`2710\r\n${"x".repeat(10_000)}\r\n`)
    expect(codeOf(await connection.send("0\r\n\r\n").read())).toBe("body_too_large")
    expect((await connection.send(head("GET /healthz")).read()).status).toBe(200)
  })

  it("of a transfer is read up to twice the file limit", async () => {
    using connection = open()
    const target = await announce()
    const response = await connection.send(put(target, 1_900_000)).send(Buffer.alloc(1_900_000)).read()
    expect(codeOf(response)).toBe("file_too_large")
    expect((await connection.send(head("GET /healthz")).read()).status).toBe(200)
    using longer = open()
    const refused = await longer.send(put(target, 9_000_000)).send(Buffer.alloc(2_000_000)).read()
    expect([codeOf(refused), refused.headers.get("connection")]).toEqual(["file_too_large", "close"])
  })
})

describe("a transfer", () => {
  it("that stalls gets 408 immediately, without another wait", async () => {
    using connection = open()
    const target = await announce()
    const response = await connection.send(put(target, 1_000)).send(wav(500)).read()
    expect([response.status, codeOf(response)]).toEqual([408, "upload_timeout"])
    expect(response.headers.get("connection")).toBe("close")
    await connection.untilClosed()
  })

  it("whose sender disconnects frees its claim immediately", async () => {
    const target = await announce()
    const connection = open()
    connection.send(put(target, 1_000)).send(wav(500))
    using other = open()
    await expect.poll(() => stateOf(other, target), patience).toBe("upload_in_progress")
    connection.socket.destroy()
    await expect.poll(() => stateOf(other, target), patience).toBe("unsupported_content_type")
    expect((await other.send(put(target, 100)).send(wav(100)).read()).status).toBe(204)
  })
})

it("that is complete but not stored yet is abandoned when its sender disconnects", async () => {
  const hanging = Layer.succeed(BlobStore, {
    put: (_key, content) => Effect.andThen(Stream.runDrain(Stream.orDie(content)), Effect.never),
    open: () => Effect.die("unused"),
    remove: () => Effect.void,
    list: () => Stream.empty,
  } as BlobStore["Service"])
  await using service = await startServer({ blobs: hanging })
  const { secret } = await service.createKey()
  const target = await announce(service, secret)
  const connection = new RawConnection(service.port)
  connection.send(put(target, 100)).send(wav(100))
  using other = new RawConnection(service.port)
  await expect.poll(() => stateOf(other, target), patience).toBe("upload_in_progress")
  connection.socket.destroy()
  await expect.poll(() => stateOf(other, target), patience).toBe("unsupported_content_type")
})

it("reads from the sender only as fast as the blob store", async () => {
  let release = () => {}
  const gate = new Promise<void>((resolve) => (release = resolve))
  const stalling = Layer.succeed(BlobStore, {
    put: (_key, content) =>
      Effect.as(
        Stream.runForEach(content, () => Effect.promise(() => gate)),
        { bytes: 20_000_000, sha256: "0".repeat(64) },
      ),
    open: () => Effect.die("unused"),
    remove: () => Effect.void,
    list: () => Stream.empty,
  } as BlobStore["Service"])
  await using slow = await startServer({ blobs: stalling })
  const { secret } = await slow.createKey()
  const target = await announce(slow, secret)
  using connection = new RawConnection(slow.port)
  connection.send(put(target, 20_000_000))
  let taken = 0
  const sending = (async () => {
    const file = wav(20_000_000)
    for (let at = 0; at < file.length; at += 50_000) {
      await new Promise((resolve) => connection.socket.write(file.subarray(at, at + 50_000), resolve))
      taken = at + 50_000
    }
  })()
  let before = -1
  const stands = () => {
    const same = taken === before
    before = taken
    return same
  }
  await expect.poll(stands, { ...patience, interval: 300 }).toBe(true)
  // Bytes in flight fill the kernel's buffers, a few megabytes; the service itself must not add to them.
  expect(taken).toBeLessThan(10_000_000)
  release()
  await sending
  expect((await connection.read()).status).toBe(204)
})
