import { createApiKey, fetchHandler, jobRoute, nodeHandler } from "@kiln/http/mount"
import { afterAll, beforeAll, expect, it } from "vitest"
import { openEngine } from "./support/MountedEngine.ts"
import { publicUrl } from "./support/servers.ts"

/** As JavaScript gives it, or a spread that hides it from the compiler. */
const given = (value: unknown): never => value as never

let mounted: Awaited<ReturnType<typeof openEngine>>
beforeAll(async () => {
  mounted = await openEngine()
})
afterAll(() => mounted[Symbol.asyncDispose]())

it.each([
  [{ publicURL: publicUrl }, 'did you mean "publicUrl"?'],
  [{ publicUrl, trustedProxy: [] }, 'did you mean "trustedProxies"?'],
  [{ publicUrl, rateLimit: {} }, 'did you mean "rateLimits"?'],
  [{ publicUrl, rateLimits: { creates: {} } }, 'unknown option "creates" in rateLimits; did you mean "create"?'],
  [{ publicUrl, rateLimits: { create: { per_minute: 1, burst: 1 } } }, 'did you mean "perMinute"?'],
  [{ publicUrl, rateLimits: { create: { perMinute: Number.NaN, burst: 1 } } }, "rateLimits.create.perMinute must be"],
  [{ publicUrl, rateLimits: { create: { perMinute: 1 } } }, "rateLimits.create.burst must be an integer between"],
  [{ publicUrl, pages: "no" }, "pages must be true or false"],
  [{ publicUrl, authenticate: {} }, "authenticate must be a function"],
  [{ publicUrl, routes: {} }, "routes must be an array"],
])("a service is not mounted with %j", async (options, message) => {
  await expect(nodeHandler(mounted.engine, given(options))).rejects.toThrow(message)
  await expect(fetchHandler(mounted.engine, given(options))).rejects.toThrow(message)
})

it("an undefined rate limit counts as not given", async () => {
  const handler = await fetchHandler(mounted.engine, given({ publicUrl, rateLimits: { create: undefined } }))
  const { key } = await createApiKey(mounted.engine, { scopes: ["audio.create"] })
  const answer = await handler(
    new Request(`${publicUrl}/v1/audio/speech`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json", "idempotency-key": "undefined" },
      body: JSON.stringify({ input: "Hello." }),
    }),
  )
  expect([answer.status, answer.headers.get("ratelimit-policy") ?? answer.headers.get("ratelimit-limit")]).toEqual([
    202,
    expect.stringMatching(/60/),
  ])
})

it("an option of the other handler is unknown to this one", async () => {
  const remoteAddress = () => "192.0.2.1"
  await fetchHandler(mounted.engine, { publicUrl, remoteAddress })
  await expect(nodeHandler(mounted.engine, given({ publicUrl, remoteAddress }))).rejects.toThrow(
    'unknown option "remoteAddress" in nodeHandler()',
  )
})

it.each([
  [
    { path: "/v1/x", pol: "/v1/x/:id" },
    'unknown option "pol" in jobRoute(); known: path, family, poll, names, noun, methods',
  ],
  ["/v1/x", "jobRoute() expects its options as an object"],
])("a route is refused with %j", (options, message) => {
  expect(() => jobRoute({ name: "summary" }, given(options))).toThrow(message)
})

it.each([
  [{ scope: ["audio.create"] }, 'did you mean "scopes"?'],
  [{ scopes: ["audio.create"], mode: "sandbox" }, 'unknown mode "sandbox"'],
  [{ scopes: "audio.create" }, "scopes must be an array of strings"],
  [{ scopes: [], expiresAt: "2030-01-01" }, "expiresAt must be a valid Date"],
  [{ scopes: [], expiresAt: null }, "expiresAt must be a valid Date; leave it out for a key that never expires"],
])("a key is refused with %j", async (options, message) => {
  await expect(createApiKey(mounted.engine, given(options))).rejects.toThrow(message)
})
