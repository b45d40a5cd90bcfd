import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { describe, expect, it } from "vitest"
import { byToken } from "../src/effect.ts"

const ask = (
  headers: Readonly<Record<string, string>>,
  remoteAddress: string | undefined,
  options: Parameters<typeof byToken>[0] = { allowLocal: true },
) => {
  const exit = Effect.runSyncExit(
    byToken(options)({ request: new Request("http://127.0.0.1:9464/", { headers }), remoteAddress }),
  )
  return Exit.isSuccess(exit) ? exit.value.roles : "refused"
}

describe("a request without a token", () => {
  it.each([
    ["localhost:9464", "127.0.0.1"],
    ["127.0.0.1:9464", "127.0.0.1"],
    ["[::1]:9464", "::1"],
    ["127.0.0.1", "::ffff:127.0.0.1"],
  ])("may view if it comes directly from this machine: %s from %s", (host, address) => {
    expect(ask({ host }, address)).toEqual(["view"])
    expect(ask({ host }, address, { allowLocal: false })).toBe("refused")
  })

  it.each([
    ["another machine", { host: "127.0.0.1:9464" }, "10.0.0.7"],
    ["an unknown address", { host: "127.0.0.1:9464" }, undefined],
    ["a name that a page made resolve to this machine", { host: "evil.example:9464" }, "127.0.0.1"],
    ["a name that only looks local", { host: "localhost.evil.example" }, "127.0.0.1"],
    ["a proxy on this machine", { host: "127.0.0.1:9464", "x-forwarded-for": "10.0.0.7" }, "127.0.0.1"],
    ["a proxy that says so", { host: "127.0.0.1:9464", forwarded: "for=10.0.0.7" }, "127.0.0.1"],
  ])("is refused from %s", (_, headers, address) => {
    expect(ask(headers, address)).toBe("refused")
  })
})

describe("a token", () => {
  it("of the metrics may view, and another one is refused, even locally", () => {
    const options = { allowLocal: true, isStaticToken: (token: string) => token === "the-token-of-metrics" }
    const from = (token: string) => ask({ host: "localhost", authorization: `Bearer ${token}` }, "127.0.0.1", options)
    expect(from("the-token-of-metrics")).toEqual(["view"])
    expect(from("another-token-of-them")).toBe("refused")
  })
})
