import type { LookupFunction } from "node:net"
import { gzipSync } from "node:zlib"
import { describe, expect, it } from "vitest"
import { guardFetch } from "../src/guardedFetch.ts"
import { causes, FetchRefused, guardedFetch } from "../src/index.ts"
import { isPublicAddress } from "../src/isPublicAddress.ts"
import { follow, makePublicFetch } from "../src/publicFetch.ts"
import { answer, rawServer } from "./support/rawServer.ts"

/** Returns why a request is refused; `none` for a response. */
const refusalOf = async (promise: Promise<Response>): Promise<string> => {
  try {
    await (await promise).arrayBuffer()
    return "none"
  } catch (error) {
    const refusal = causes(error).find((cause) => cause instanceof FetchRefused)
    if (refusal === undefined) throw error
    return refusal.reason
  }
}

const resolvesTo = (...addresses: ReadonlyArray<string>): LookupFunction =>
  ((_name, _options, callback) =>
    callback(
      null,
      addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 })),
    )) satisfies LookupFunction

/** The real fetch, except that this machine's first address counts as public, and all names resolve to it. */
const publicHere = (options: { maxBytes?: number; lookup?: LookupFunction; trustedOrigins?: Array<string> } = {}) =>
  guardFetch(
    { maxBytes: 1000, ...options },
    makePublicFetch({
      isAllowed: (address) => address === "127.0.0.1" || isPublicAddress(address),
      lookup: options.lookup ?? resolvesTo("127.0.0.1"),
    }),
  )

describe("an untrusted URL", () => {
  const guarded = guardedFetch({ maxBytes: 1000 })

  it("must not point to this machine or this network, however it is spelled", async () => {
    await using server = await rawServer((socket) => socket.write(answer(200, "secret")))
    const { port } = server
    for (const host of [
      "127.0.0.1",
      "127.1",
      "2130706433",
      "0x7f.1",
      "0x7f000001",
      "0177.0.0.1",
      "127.0.0.1.",
      "127。0。0。1",
      "0.0.0.0",
      "0",
      "10.0.0.1",
      "169.254.169.254",
      "[::1]",
      "[::]",
      "[::ffff:127.0.0.1]",
      "[::ffff:7f00:1]",
      "[::127.0.0.1]",
      "[64:ff9b::127.0.0.1]",
      "[2002:7f00:1::]",
      "[fe80::1]",
      "[fd00:ec2::254]",
      "localhost",
      "LOCALHOST",
    ])
      expect(await refusalOf(guarded(`http://${host}:${port}/`)), host).toBe("address")
    expect(server.requests).toEqual([])
  })

  it("is trusted only with its port and scheme", async () => {
    await using mine = await rawServer((socket) => socket.write(answer(200, "mine")))
    await using other = await rawServer((socket) => socket.write(answer(200, "secret")))
    const fetch = guardedFetch({ maxBytes: 1000, trustedOrigins: [mine.origin] })
    expect(await refusalOf(fetch(`${mine.origin}/a`))).toBe("none")
    expect(await refusalOf(fetch(`${other.origin}/a`))).toBe("address")
    expect(await refusalOf(fetch(mine.origin.replace("http:", "https:")))).toBe("address")
    expect(other.requests).toEqual([])
  })

  it("must be http or https, without a user name", async () => {
    for (const url of [
      "file:///etc/passwd",
      "data:,x",
      "ftp://example.com/",
      "blob:http://example.com/x",
      "http://user:pw@example.com/",
    ])
      expect(await refusalOf(guarded(url)), url).toBe("url")
    await expect(guarded("no url")).rejects.toThrow(TypeError)
  })

  it("must not resolve to any private address, and is resolved only once for check and connection", async () => {
    await using server = await rawServer((socket) => socket.write(answer(200, "secret")))
    for (const addresses of [
      ["127.0.0.1"],
      ["::1"],
      ["::ffff:127.0.0.1"],
      ["93.184.216.34", "10.0.0.1"],
      ["169.254.169.254"],
    ]) {
      const fetch = guardedFetch({ maxBytes: 1000, lookup: resolvesTo(...addresses) })
      expect(await refusalOf(fetch(`http://rebound.example:${server.port}/`)), addresses.join()).toBe("address")
    }
    // A name that resolves to a public address on the first lookup and to this machine on the second.
    let asked = 0
    const rebinding: LookupFunction = (_name, _options, callback) =>
      callback(null, [{ address: asked++ === 0 ? "127.0.0.1" : "127.0.0.2", family: 4 }])
    const fetch = publicHere({ lookup: rebinding })
    expect(
      await (await fetch(`http://rebound.example:${server.port}/`, { headers: { connection: "close" } })).text(),
    ).toBe("secret")
    expect(asked).toBe(1)
    expect(await refusalOf(fetch(`http://other.example:${server.port}/`))).toBe("address")
    expect(server.requests).toHaveLength(1)
  })

  it("a name that does not resolve is a network failure", async () => {
    const lookup: LookupFunction = (_name, _options, callback) =>
      callback(Object.assign(new Error("no such name"), { code: "ENOTFOUND" }), "")
    await expect(guardedFetch({ maxBytes: 10, lookup })("http://nowhere.example/")).rejects.toThrow("fetch failed")
  })
})

describe("redirects of untrusted origins", () => {
  it("each hop is checked", async () => {
    await using inside = await rawServer((socket) => socket.write(answer(200, "secret")), "127.0.0.2")
    for (const location of [
      inside.origin,
      "http://169.254.169.254/latest/meta-data",
      `http://[::1]:${inside.port}/`,
      `http://[::ffff:127.0.0.2]:${inside.port}/`,
      `http://2130706434:${inside.port}/`,
      `//127.0.0.2:${inside.port}/`,
    ]) {
      await using outside = await rawServer((socket) => socket.write(answer(302, "", { location })))
      expect(await refusalOf(publicHere()(`http://images.example:${outside.port}/`)), location).toBe("address")
    }
    expect(inside.requests).toEqual([])
  })

  it("a redirect from an untrusted to a trusted origin is not trusted", async () => {
    await using trusted = await rawServer((socket) => socket.write(answer(200, "secret")), "127.0.0.2")
    await using outside = await rawServer((socket) => socket.write(answer(302, "", { location: trusted.origin })))
    const fetch = publicHere({ trustedOrigins: [trusted.origin] })
    expect(await refusalOf(fetch(`http://images.example:${outside.port}/`))).toBe("address")
    expect(trusted.requests).toEqual([])
  })

  it("three are followed; a fourth, one without a target, and one to another protocol are not", async () => {
    await using server = await rawServer((socket, { line }) => {
      const left = Number(/\/(\d+)/.exec(line)?.[1])
      socket.write(left === 0 ? answer(200, "arrived") : answer(302, "", { location: `/${left - 1}` }))
    })
    expect(await (await publicHere()(`http://images.example:${server.port}/3`)).text()).toBe("arrived")
    expect(await refusalOf(publicHere()(`http://images.example:${server.port}/4`))).toBe("redirects")
    for (const [location, reason] of [
      ["http://[", "redirects"],
      ["file:///etc/passwd", "url"],
      ["http://user:pw@images.example/", "url"],
    ] as const) {
      await using bad = await rawServer((socket) => socket.write(answer(302, "", { location })))
      expect(await refusalOf(publicHere()(`http://images.example:${bad.port}/`)), location).toBe(reason)
    }
    await using silent = await rawServer((socket) => socket.write(answer(302)))
    expect(await refusalOf(publicHere()(`http://images.example:${silent.port}/`))).toBe("redirects")
  })

  it("never from https to http", () => {
    const hop = { url: new URL("https://images.example/"), method: "GET", headers: new Headers(), body: null }
    expect(() => follow(hop, 302, "http://images.example/")).toThrow("redirects")
    expect(follow(hop, 302, "/b").url.href).toBe("https://images.example/b")
  })

  it("credentials are not sent to another origin, and a POST becomes a GET", async () => {
    await using second = await rawServer((socket) => socket.write(answer(200, "arrived")))
    await using first = await rawServer((socket, { line }) =>
      socket.write(
        line.includes("/start")
          ? answer(307, "", { location: "/again" })
          : answer(302, "", { location: `http://other.example:${second.port}/` }),
      ),
    )
    const kept = { accept: "image/png", range: "bytes=0-9" }
    const secret = {
      authorization: "Bearer key",
      "xi-api-key": "key",
      "x-auth-token": "key",
      cookie: "a=b",
      "x-mine": "1",
    }
    const headers = { ...kept, ...secret }
    const response = await publicHere()(`http://images.example:${first.port}/start`, {
      method: "POST",
      headers,
      body: "asked",
    })
    expect(await response.text()).toBe("arrived")
    expect(first.requests.map(({ line, body }) => `${line} ${body.toString()}`)).toEqual([
      "POST /start HTTP/1.1 asked",
      "POST /again HTTP/1.1 asked",
    ])
    expect(first.requests[1]?.headers).toMatchObject(headers)
    expect(second.requests[0]?.line).toBe("GET / HTTP/1.1")
    expect(second.requests[0]?.headers).toMatchObject(kept)
    const ofTheRuntime = ["host", "connection", "user-agent", "accept-language", "accept-encoding", "sec-fetch-mode"]
    expect([...Object.keys(kept), ...ofTheRuntime]).toEqual(
      expect.arrayContaining(Object.keys(second.requests[0]?.headers ?? {})),
    )
  })

  it("a body is not sent to another origin, nor to the first one after a redirect back", async () => {
    const headers = { "xi-api-key": "key" }
    for (const status of [307, 308]) {
      await using second = await rawServer((socket) => socket.write(answer(200, "arrived")))
      const location = `http://other.example:${second.port}/`
      await using first = await rawServer((socket) => socket.write(answer(status, "", { location })))
      const asked = publicHere()(`http://images.example:${first.port}/`, { method: "POST", headers, body: "a prompt" })
      expect(await refusalOf(asked)).toBe("redirects")
      expect(second.requests).toEqual([])
    }
    const hop = { url: new URL("https://a.example/"), method: "GET", headers: new Headers(headers), body: null }
    const back = follow(follow(hop, 307, "https://b.example/"), 302, "https://a.example/")
    expect([...back.headers]).toEqual([])
  })
})

describe("a trusted origin", () => {
  it("is requested by Node's own fetch, with credentials", async () => {
    await using server = await rawServer((socket) => socket.write(answer(200, "yes", { "x-mine": "1" })))
    const fetch = guardedFetch({ maxBytes: 1000, trustedOrigins: [`${server.origin}/v1/`] })
    const response = await fetch(`${server.origin}/v1/x`, {
      method: "POST",
      headers: { authorization: "Bearer key" },
      body: "b",
    })
    expect([response.status, response.headers.get("x-mine"), await response.text()]).toEqual([200, "1", "yes"])
    expect(server.requests[0]).toMatchObject({ line: "POST /v1/x HTTP/1.1", headers: { authorization: "Bearer key" } })
    // The same machine under another name is another origin.
    expect(await refusalOf(fetch(`http://localhost:${server.port}/`))).toBe("address")
  })

  it("that redirects is refused, whatever the target, which is not requested", async () => {
    await using elsewhere = await rawServer((socket) => socket.write(answer(200, "secret")))
    for (const status of [300, 301, 302, 303, 307, 308]) {
      await using server = await rawServer((socket) => socket.write(answer(status, "", { location: elsewhere.origin })))
      const fetch = guardedFetch({ maxBytes: 1000, trustedOrigins: [server.origin, elsewhere.origin] })
      expect(await refusalOf(fetch(server.origin)), String(status)).toBe("redirected")
      await using own = await rawServer((socket) => socket.write(answer(status, "", { location: "/elsewhere" })))
      expect(await refusalOf(guardedFetch({ maxBytes: 9, trustedOrigins: [own.origin] })(own.origin))).toBe(
        "redirected",
      )
      expect(own.requests).toHaveLength(1)
    }
    expect(elsewhere.requests).toEqual([])
  })

  it("must be a URL of http", () => {
    for (const origin of ["127.0.0.1:80", "localhost", "file:///x", ""])
      expect(() => guardedFetch({ maxBytes: 1, trustedOrigins: [origin] }), origin).toThrow(TypeError)
  })
})

describe.each([
  [
    "trusted",
    (server: { origin: string }) => [guardedFetch({ maxBytes: 1000, trustedOrigins: [server.origin] }), server.origin],
  ],
  ["not trusted", (server: { port: number }) => [publicHere(), `http://images.example:${server.port}/`]],
] as ReadonlyArray<
  readonly [string, (server: { origin: string; port: number }) => readonly [typeof globalThis.fetch, string]]
>)("a body of an origin that is %s", (_name, prepare) => {
  it("may be as long as allowed", async () => {
    await using server = await rawServer((socket) => socket.write(answer(200, "a".repeat(1000))))
    const [fetch, url] = prepare(server)
    expect(await (await fetch(url)).text()).toHaveLength(1000)
  })

  it("is refused by its stated length, before it is read", async () => {
    await using server = await rawServer((socket) => socket.write(`HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n`))
    const [fetch, url] = prepare(server)
    expect(await refusalOf(fetch(url))).toBe("too_large")
    await server.closed(0)
  })

  it("is cut off when it exceeds the limit without a stated length, and the transfer ends", async () => {
    const chunk = `190\r\n${"a".repeat(400)}\r\n`
    await using server = await rawServer((socket) => {
      socket.write(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunk.repeat(3)}`)
    })
    const [fetch, url] = prepare(server)
    expect(await refusalOf(fetch(url))).toBe("too_large")
    await server.closed(0)
  })

  it("is counted after decompression", async () => {
    const bomb = gzipSync(Buffer.alloc(50_000_000))
    expect(bomb.length).toBeLessThan(50_000)
    await using server = await rawServer((socket) =>
      socket.write(answer(200, bomb, { "content-encoding": "gzip", "content-length": "900" }).subarray(0, 1100)),
    )
    const [fetch, url] = prepare(server)
    expect(await refusalOf(fetch(url))).toBe("too_large")
  })

  it("that ends too early is a network failure", async () => {
    await using server = await rawServer((socket) => socket.end(answer(200, "half", { "content-length": "8" })))
    const [fetch, url] = prepare(server)
    const response = await fetch(url)
    await expect(response.text()).rejects.toThrow("terminated")
  })

  it("ends at once on abort, even if it is not being read", async () => {
    await using server = await rawServer((socket) => {
      socket.write("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf")
    })
    const [fetch, url] = prepare(server)
    const controller = new AbortController()
    const reading = (await fetch(url, { signal: controller.signal })).text()
    controller.abort()
    await expect(reading).rejects.toThrow("aborted")
    await server.closed(0)
  })
})
