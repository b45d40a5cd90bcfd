import { randomBytes } from "node:crypto"
import { formatApiKey } from "@kiln/core/domain"
import { KeyDirectory } from "@kiln/core/ports"
import { Effect } from "effect"
import { expect } from "vitest"
import type { Answer } from "../support/Answer.ts"
import type { Api } from "../support/Api.ts"
import { row, rows, table } from "../support/tables.ts"

/** Authentication: the forms of the header, the forms of a key, its expiry, its scopes. */

const probe = "/v1/jobs/job_00000000000000000000000000"
const routes: ReadonlyArray<readonly [method: string, path: string, scope: string]> = [
  ["POST", "/v1/audio/uploads", "audio.create"],
  ["POST", "/v1/audio/transcriptions", "audio.create"],
  ["POST", "/v1/audio/speech", "audio.create"],
  ["POST", "/v1/voice/turns", "audio.create"],
  ["GET", probe, "audio.create"],
  ["DELETE", `${probe}/data`, "audio.create"],
  ["POST", "/v1/images/generations", "images.create"],
  ["GET", "/v1/images/jobs/job_00000000000000000000000000", "images.create"],
  ["DELETE", "/v1/images/jobs/job_00000000000000000000000000/data", "images.create"],
]

const withAuthorization = (api: Api, authorization: string | ReadonlyArray<string> | null) =>
  api.get(probe, { headers: { authorization } })
const known = (answer: Answer) => answer.code === "job_not_found"

/** A key nobody ever got: right in form and checksum. */
const unknownSecret = () => formatApiKey("test", randomBytes(32))

const forms = [
  ...rows(
    ["Bearer", "bearer", "BEARER", "bEARER"],
    (scheme) => `the scheme ${scheme} is understood`,
    async (api, scheme) => {
      expect(known(await withAuthorization(api, `${scheme} ${(await api.key()).secret}`))).toBe(true)
    },
  ),
  row("no Authorization header is missing_api_key", async (api) => {
    expect((await withAuthorization(api, null)).code).toBe("missing_api_key")
  }),
  row("an empty one is 401 either way", async (api) => {
    expect((await withAuthorization(api, "")).status).toBe(401)
    expect((await withAuthorization(api, "Bearer")).status).toBe(401)
    expect((await withAuthorization(api, "Bearer ")).status).toBe(401)
  }),
  row("two Authorization headers are invalid_api_key, also with one key twice", async (api) => {
    const good = `Bearer ${(await api.key()).secret}`
    for (const both of [
      [good, good],
      [good, "Bearer x"],
      ["Basic eDp5", good],
      [good, ""],
    ])
      expect((await withAuthorization(api, both)).code, JSON.stringify(both)).toBe("invalid_api_key")
  }),
  row("a key anywhere else is no key", async (api) => {
    const { secret } = await api.key()
    const headers = {
      authorization: null,
      "x-api-key": secret,
      cookie: `api_key=${secret}`,
      "proxy-authorization": `Bearer ${secret}`,
    }
    expect((await api.get(`${probe}?api_key=${secret}&access_token=${secret}`, { headers })).status).toBe(401)
  }),
]

/** Changes that make a valid `Bearer <key>` invalid. */
const spoilt: ReadonlyArray<readonly [name: string, spoil: (secret: string) => string]> = [
  ["the Basic scheme", (secret) => `Basic ${Buffer.from(`${secret}:`).toString("base64")}`],
  ["an unheard-of scheme", (secret) => `Token ${secret}`],
  ["no scheme", (secret) => secret],
  ["a scheme run together", (secret) => `Bearer${secret}`],
  ["a scheme with a colon", (secret) => `Bearer: ${secret}`],
  ["quotes", (secret) => `Bearer "${secret}"`],
  ["text behind it", (secret) => `Bearer ${secret} x`],
  ["a parameter", (secret) => `Bearer ${secret}, realm="api"`],
  ["two keys", (secret) => `Bearer ${secret}, Bearer ${secret}`],
  ["a wrong checksum", (secret) => `Bearer ${secret.slice(0, -1)}${secret.endsWith("0") ? "1" : "0"}`],
  [
    "another last random character",
    (secret) => `Bearer ${secret.slice(0, -7)}${secret.at(-7) === "a" ? "b" : "a"}${secret.slice(-6)}`,
  ],
  ["a character missing", (secret) => `Bearer ${secret.slice(0, -1)}`],
  ["a character too many", (secret) => `Bearer ${secret}0`],
  ["another letter case", (secret) => `Bearer ${secret.toUpperCase()}`],
  ["the live prefix", (secret) => `Bearer ${secret.replace("kiln_test_", "kiln_live_")}`],
  ["another prefix", (secret) => `Bearer ${secret.replace("kiln_", "sk_")}`],
  ["an unknown key", () => `Bearer ${unknownSecret()}`],
  ["an unknown live key", () => `Bearer ${formatApiKey("live", randomBytes(32))}`],
  ["eight thousand characters", () => `Bearer ${"a".repeat(8_000)}`],
  ["characters beyond ASCII", (secret) => `Bearer ${secret.slice(0, -1)}\xe9`],
  ["SQL", () => "Bearer ' OR 1=1 --"],
  ["its own hash", () => `Bearer ${"0123456789abcdef".repeat(4)}`],
]

const badKeys = rows(
  spoilt,
  ([name]) => `${name}: the one answer to every bad key`,
  async (api, [, spoil]) => {
    const answer = await withAuthorization(api, spoil((await api.key()).secret))
    expect(answer.code).toBe("invalid_api_key")
    expect(answer.comparable).toBe((await withAuthorization(api, `Bearer ${unknownSecret()}`)).comparable)
    expect(answer.error).toMatchObject({ param: null })
  },
)

const untilRefused = async (api: Api, key: Awaited<ReturnType<Api["newKey"]>>, limitMs: number) => {
  const refused = await api.untilEverywhere({ path: probe, key }, (answer) => answer.status === 401, limitMs)
  expect(refused.code).toBe("invalid_api_key")
  expect(refused.comparable).toBe((await withAuthorization(api, `Bearer ${unknownSecret()}`)).comparable)
}

const endings = [
  row("a revoked key is refused within 5 s, also one that has just been used", async (api) => {
    const key = await api.newKey()
    expect(known(await api.get(probe, { key }))).toBe(true)
    await api.service.run(Effect.flatMap(KeyDirectory, (keys) => keys.revokeKey(key.id as `key_${string}`)))
    await untilRefused(api, key, 5_000)
  }),
  row("a key revoked before its first use never works", async (api) => {
    const key = await api.newKey()
    await api.service.run(Effect.flatMap(KeyDirectory, (keys) => keys.revokeKey(key.id as `key_${string}`)))
    await untilRefused(api, key, 0)
  }),
  row("an expired key is refused", async (api) => {
    await untilRefused(api, await api.newKey({ expiresAt: Date.now() - 1 }), 0)
  }),
  row("a key expires on time, also one that has just been used", async (api) => {
    const expiresAt = Date.now() + 1_500
    const key = await api.newKey({ expiresAt })
    expect(known(await api.get(probe, { key }))).toBe(true)
    await untilRefused(api, key, 3_000)
    expect(Date.now()).toBeGreaterThanOrEqual(expiresAt)
  }),
]

const scopes = [
  ...rows(
    routes,
    ([method, path]) => `${method} ${path} without a key is missing_api_key`,
    async (api, [method, path]) => {
      const answer = await api.send({ method, path, headers: { authorization: null } })
      expect(answer.code).toBe("missing_api_key")
    },
  ),
  ...rows(
    routes,
    ([method, path, scope]) => `${method} ${path} requires ${scope}`,
    async (api, [method, path, scope]) => {
      for (const scopes of [
        [],
        [scope === "audio.create" ? "images.create" : "audio.create"],
        [scope.toUpperCase(), `${scope}.x`, "*", "admin"],
      ]) {
        const answer = await api.send({ method, path, key: await api.newKey({ scopes }) })
        expect(answer.error, JSON.stringify(scopes)).toMatchObject({
          code: "insufficient_scope",
          details: { required_scope: scope },
        })
        expect(answer.error.details).toEqual({ required_scope: scope })
        expect(answer.header("www-authenticate")).toContain(`scope="${scope}"`)
      }
      const allowed = await api.send({ method, path, key: await api.newKey({ scopes: [scope] }) })
      expect([401, 403]).not.toContain(allowed.status)
    },
  ),
]

const modes = row("test keys make sandbox jobs, live keys ask for what live jobs need", async (api) => {
  const body = { input: "x" }
  expect((await api.post("/v1/audio/speech", body)).json.mode).toBe("sandbox")
  expect((await api.post("/v1/audio/speech", body, { key: await api.newKey({ mode: "live" }) })).code).toBe(
    "live_not_active",
  )
})

export const keys = table("keys", forms, badKeys, endings, scopes, modes)
