import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { noContent } from "../../src/server/Exchange.ts"
import { Router } from "../../src/server/app.ts"

const handle = () => Effect.succeed(noContent)
const router = new Router([
  { method: "GET", path: "/", handle },
  { method: "POST", path: "/v1/jobs", handle },
  { method: "GET", path: "/v1/jobs/:id", handle },
  { method: "DELETE", path: "/v1/jobs/:id/data", handle },
  { method: "PUT", path: "/v1/open/:id", handle, cors: true },
  { method: "OPTIONS", path: "/v1/open/:id", handle, cors: true },
])

describe("Router", () => {
  it("finds literal paths and placeholders", () => {
    expect(router.match("GET", "/")).toMatchObject({ _tag: "Found", id: "" })
    expect(router.match("POST", "/v1/jobs")).toMatchObject({ _tag: "Found", id: "" })
    expect(router.match("GET", "/v1/jobs/j1")).toMatchObject({ _tag: "Found", id: "j1", cors: false })
    expect(router.match("DELETE", "/v1/jobs/j1/data")).toMatchObject({ _tag: "Found", id: "j1" })
  })

  it("keeps the characters of a placeholder unchanged", () => {
    expect(router.match("GET", "/v1/jobs/%2e%2E")).toMatchObject({ id: "%2e%2E" })
    expect(router.match("GET", `/v1/jobs/${"a".repeat(9_000)}`)).toMatchObject({ id: "a".repeat(9_000) })
  })

  it.each([
    "",
    "//",
    "/v1",
    "/v1/",
    "/v1/jobs/",
    "/v1//jobs",
    "//v1/jobs",
    "/V1/jobs",
    "/v1/jobs/j1/",
    "/v1/jobs//data",
    "/v1/%6aobs",
    "/v1/jobs/j1/data/x",
    "v1/jobs",
  ])("has no route at %j", (path) => expect(router.match("GET", path)).toEqual({ _tag: "NotFound" }))

  it("distinguishes a wrong method from a wrong path, and ignores preflights", () => {
    expect(router.match("PATCH", "/v1/jobs/j1")).toEqual({ _tag: "WrongMethod", allowed: ["GET"], cors: false })
    expect(router.match("get", "/v1/jobs/j1")).toMatchObject({ _tag: "WrongMethod" })
    expect(router.match("GET", "/v1/open/x")).toEqual({ _tag: "WrongMethod", allowed: ["PUT"], cors: true })
  })

  it("rejects a duplicate route", () => {
    const route = { method: "GET", path: "/a/:id", handle }
    expect(() => new Router([route, { ...route, path: "/a/:other" }])).toThrow("duplicate route")
  })
})
