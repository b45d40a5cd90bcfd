import { performance } from "node:perf_hooks"
import { inspect } from "node:util"
import { Effect, Fiber, Schema } from "effect"
import { describe, expect, it } from "vitest"
import { downloadFile, guardedFetch, readJson, sendRequest } from "../src/index.ts"
import { classOf, failureOf } from "./support/expectations.ts"
import { answer, rawServer, type RawServer } from "./support/rawServer.ts"

const ask = (server: RawServer, init?: RequestInit) =>
  sendRequest(guardedFetch({ maxBytes: 1000, trustedOrigins: [server.origin] }), `${server.origin}/v1`, init)
const failure = async (server: RawServer) => classOf(await failureOf(ask(server)))

describe("a request", () => {
  it("returns everything a provider needs", async () => {
    await using server = await rawServer((socket) =>
      socket.write(answer(201, "{}", { "content-type": "Application/JSON; charset=utf-8", "x-mine": "1" })),
    )
    const got = await Effect.runPromise(ask(server, { method: "POST", body: "b" }))
    expect([got.status, got.mediaType, got.headers.get("x-mine"), [...got.data]]).toEqual([
      201,
      "application/json",
      "1",
      [123, 125],
    ])
    expect(server.requests[0]?.body.toString()).toBe("b")
  })

  it("fails as classified by the response", async () => {
    const body = JSON.stringify({ error: { code: "insufficient_quota", message: "You, Bob, have used up sk-4242" } })
    await using server = await rawServer((socket) => socket.write(answer(429, body, { "retry-after": "9" })))
    const error = await failureOf(ask(server))
    expect([classOf(error), error.retryAfterMs, error.detail]).toEqual([
      "broken quota",
      9000,
      "HTTP 429 insufficient_quota",
    ])
    expect(inspect(error, { depth: 9 }) + JSON.stringify(error)).not.toMatch(/Bob|4242/)
  })

  it("is retryable without a response or with a partial one", async () => {
    await using reset = await rawServer((socket) => socket.resetAndDestroy())
    expect(await failure(reset)).toBe("retry provider_unavailable")
    await using silent = await rawServer((socket) => socket.end())
    expect(await failure(silent)).toBe("retry provider_unavailable")
    await using half = await rawServer((socket) => socket.end(answer(200, "half", { "content-length": "8" })))
    expect(await failure(half)).toBe("retry provider_unavailable")
    await using babble = await rawServer((socket) => socket.end("what?\r\n\r\n"))
    expect(await failure(babble)).toBe("retry provider_unavailable")
    const gone = await rawServer(() => undefined)
    await gone[Symbol.asyncDispose]()
    const error = await failureOf(ask(gone))
    expect([classOf(error), error.detail]).toEqual(["retry provider_unavailable", "no response: ECONNREFUSED"])
  })

  it("is retryable after an invalid HTTP status, and the transfer ends", async () => {
    await using server = await rawServer((socket) => socket.write(answer(999, "no", { "content-length": "100" })))
    const from = performance.now()
    expect(await failure(server)).toBe("retry provider_unavailable")
    await server.closed(0)
    // Not only when the response is garbage-collected.
    expect(performance.now() - from).toBeLessThan(10_000)
  })

  it("reports the innermost error code, and nothing that is not a code", async () => {
    const told = (...codes: ReadonlyArray<string>) => {
      const error = codes.reduceRight(
        (cause, code) => Object.assign(new Error("of sk-4242", { cause }), { code }),
        new Error("of sk-4242"),
      )
      return failureOf(sendRequest(() => Promise.reject(error), "http://a.example/"))
    }
    expect((await told("UND_ERR_SOCKET", "ECONNRESET")).detail).toBe("no response: ECONNRESET")
    expect((await told("ECONNRESET", "key sk-4242")).detail).toBe("no response: ECONNRESET")
    expect((await told("sk-4242")).detail).toBe("no response: unknown")
  })

  it("breaks the provider if its configured address redirects", async () => {
    await using server = await rawServer((socket) => socket.write(answer(302, "", { location: "/login" })))
    expect(await failure(server)).toBe("broken configuration")
  })

  it("fails with result_invalid if the response is too long", async () => {
    await using server = await rawServer((socket) => socket.write(answer(200, "a".repeat(1001))))
    expect(await failure(server)).toBe("retry result_invalid")
  })

  it("is aborted when its fiber is interrupted, before the response and during it", async () => {
    for (const begin of ["", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"]) {
      await using server = await rawServer((socket) => {
        if (begin !== "") socket.write(begin)
      })
      const fiber = Effect.runFork(ask(server))
      await server.arrived(1)
      const from = performance.now()
      await Effect.runPromise(Fiber.interrupt(fiber))
      await server.closed(0)
      expect(performance.now() - from).toBeLessThan(10_000)
    }
  })
})

describe("a JSON response", () => {
  const schema = Schema.Struct({ text: Schema.String })
  const read = (body: string) =>
    Effect.gen(function* () {
      const server = yield* Effect.promise(() => rawServer((socket) => socket.write(answer(200, body))))
      return yield* ask(server).pipe(
        Effect.flatMap((got) => readJson(got, schema)),
        Effect.ensuring(Effect.promise(() => server[Symbol.asyncDispose]())),
      )
    })

  it("has the expected shape, or fails with result_invalid", async () => {
    expect(await Effect.runPromise(read(`{"text":"said","more":1}`))).toEqual({ text: "said" })
    for (const body of ["", "<html>canary</html>", `{"text":"canary"`, `{"text":["canary"]}`, "null"]) {
      const error = await failureOf(read(body))
      expect(classOf(error), body).toBe("retry result_invalid")
      expect(inspect(error, { depth: 9 }), body).not.toContain("canary")
    }
  })
})

describe("a result at a URL", () => {
  it("is the file, with its stated media type", async () => {
    await using server = await rawServer((socket) => socket.write(answer(200, "PNG", { "content-type": "image/png" })))
    const options = { maxBytes: 1000, trustedOrigins: [server.origin], headers: { "x-mine": "1" } }
    const file = await Effect.runPromise(downloadFile(`${server.origin}/a.png`, options))
    expect(file).toEqual({ data: new TextEncoder().encode("PNG"), mediaType: "image/png" })
    expect(server.requests[0]).toMatchObject({ line: "GET /a.png HTTP/1.1", headers: { "x-mine": "1" } })
  })

  it("fails with result_invalid if it is empty or its URL is refused", async () => {
    await using server = await rawServer((socket) => socket.write(answer(200)))
    expect(
      classOf(await failureOf(downloadFile(server.origin, { maxBytes: 9, trustedOrigins: [server.origin] }))),
    ).toBe("retry result_invalid")
    for (const url of [server.origin, "http://169.254.169.254/", "file:///etc/passwd", "nothing"])
      expect(classOf(await failureOf(downloadFile(url, { maxBytes: 9 }))), url).toBe("retry result_invalid")
    expect(server.requests).toHaveLength(1)
  })

  it("does not affect the provider if its URL cannot be fetched", async () => {
    for (const [status, meaning] of [
      [401, "retry result_invalid"],
      [403, "retry provider_unavailable"],
      [404, "retry result_invalid"],
      [422, "retry result_invalid"],
      [503, "retry provider_unavailable"],
    ] as const) {
      await using server = await rawServer((socket) => socket.write(answer(status)))
      const download = downloadFile(server.origin, { maxBytes: 9, trustedOrigins: [server.origin] })
      expect(classOf(await failureOf(download)), String(status)).toBe(meaning)
    }
  })
})
