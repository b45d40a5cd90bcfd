import { defaultRateLimits } from "@kiln/http"
import { expect } from "vitest"
import type { Answer } from "../support/Answer.ts"
import type { Api, Call } from "../support/Api.ts"
import { wav } from "@kiln/service-lab"
import { row, rows, table, tableInTurn } from "../support/tables.ts"
import { noRateLimits } from "../support/Service.ts"

/** Token buckets by key, failed authentications by address, unfinished jobs by project. */

export const limitSettings = {
  oneProcess: true,
  http: {
    rateLimits: {
      // Slow enough that nothing flows back while a row runs; `read` flows back in three seconds.
      create: { perMinute: 6, burst: 3 },
      upload: { perMinute: 6, burst: 3 },
      read: { perMinute: 20, burst: 3 },
      delete: { perMinute: 6, burst: 3 },
      authentication: { perMinute: 6, burst: 3 },
      pages: { perMinute: 6, burst: 3 },
    },
  },
} as const

export const defaultLimitSettings = { oneProcess: true, http: { rateLimits: defaultRateLimits } } as const

export const proxySettings = {
  oneProcess: true,
  http: { trustedProxies: ["127.0.0.1"], rateLimits: { ...noRateLimits, authentication: { perMinute: 6, burst: 3 } } },
} as const

const unknownJob = "job_00000000000000000000000000"
const groups: ReadonlyArray<{
  readonly name: string
  readonly perMinute: number
  readonly calls: ReadonlyArray<Call>
}> = [
  {
    name: "create",
    perMinute: 6,
    calls: [
      { method: "POST", path: "/v1/audio/speech", json: { input: "x" } },
      { method: "POST", path: "/v1/images/generations", json: { prompt: "x" } },
      { method: "POST", path: "/v1/audio/transcriptions", json: { upload_id: "x" } },
      { method: "POST", path: "/v1/voice/turns", json: { upload_id: "x", max_output_tokens: 1 } },
    ],
  },
  {
    name: "upload",
    perMinute: 6,
    calls: [{ method: "POST", path: "/v1/audio/uploads", json: { format: "wav", declared_seconds: 1 } }],
  },
  {
    name: "read",
    perMinute: 20,
    calls: [{ path: `/v1/jobs/${unknownJob}` }, { path: `/v1/images/jobs/${unknownJob}` }],
  },
  {
    name: "delete",
    perMinute: 6,
    calls: [
      { method: "DELETE", path: `/v1/jobs/${unknownJob}/data` },
      { method: "DELETE", path: `/v1/images/jobs/${unknownJob}/data` },
    ],
  },
]

/** `"name";r=remaining;t=seconds`, `"name";q=quota;w=seconds`: the fields of the IETF draft. */
const remainingOf = (answer: Answer) =>
  Number(/^"[^"]+"(?:;[a-z]+=\d+)*?;r=(\d+)/.exec(answer.header("ratelimit") ?? "")?.[1] ?? Number.NaN)
const expectPolicy = (answer: Answer, perMinute: number) => {
  expect(answer.header("ratelimit-policy")).toMatch(/^"[^"]+";(?:[a-z]+=\d+;)*q=\d+/)
  expect(answer.header("ratelimit-policy")).toMatch(new RegExp(`;q=${perMinute}(;|$)`))
  expect(answer.header("ratelimit")).toMatch(/;t=\d+/)
}

const buckets = [
  ...rows(
    groups,
    ({ name }) => `${name}: three at once, then 429 with Retry-After, for this key and this group alone`,
    async (api, { calls, name, perMinute }) => {
      const remaining: Array<number> = []
      for (let n = 0; n < 3; n++) {
        const answer = await api.quietly(calls[n % calls.length]!)
        expect(answer.status).not.toBe(429)
        expectPolicy(answer, perMinute)
        remaining.push(remainingOf(answer))
      }
      expect(remaining).toEqual([2, 1, 0])
      for (const call of calls) {
        const answer = await api.quietly(call)
        expect(answer.code).toBe("rate_limited")
        expectPolicy(answer, perMinute)
        expect(remainingOf(answer)).toBe(0)
        expect(Number(answer.header("retry-after"))).toBeLessThanOrEqual(60 / perMinute)
      }
      const other = await api.newKey({ besides: await api.key() })
      expect((await api.quietly({ ...calls[0]!, key: other })).status).not.toBe(429)
      for (const group of groups)
        if (group.name !== name) expect((await api.quietly(group.calls[0]!)).status).not.toBe(429)
    },
  ),
  row("after Retry-After the key is served again", async (api) => {
    const call = { path: `/v1/jobs/${unknownJob}` }
    const refused = await api.until(call, (answer) => answer.code === "rate_limited")
    await new Promise((resolve) => setTimeout(resolve, 1_000 * Number(refused.header("retry-after"))))
    expect((await api.quietly(call)).code).toBe("job_not_found")
  }),
  row("a refused request creates nothing and binds no key", async (api) => {
    const headers = { "idempotency-key": "limited" }
    const [key, busy] = [await api.key(), { method: "POST", path: "/v1/audio/speech", json: {} }]
    await api.until(busy, (answer) => answer.code === "rate_limited")
    expect((await api.post("/v1/audio/speech", { input: "x" }, { key, headers })).code).toBe("rate_limited")
  }),
]

const signed = row("signed URLs have no key to be limited by", async (api) => {
  const { upload_url } = await api.upload()
  const answers = await Promise.all(
    Array.from({ length: 8 }, () =>
      api.quietly({
        method: "PUT",
        path: upload_url,
        key: null,
        body: wav(1),
        headers: { "content-type": "text/plain" },
      }),
    ),
  )
  expect(answers.map(({ code }) => code)).toEqual(Array.from({ length: 8 }, () => "unsupported_content_type"))
})

const probe = (api: Api, authorization: string | null, headers = {}) =>
  api.quietly({ path: `/v1/jobs/${unknownJob}`, headers: { authorization, ...headers } })

export const rateLimits = table("rate limits", buckets, signed)

/** After the others: from here on this address has failed too often. */
export const failedAuthentications = tableInTurn(
  "failed authentications",
  row("beyond the limit an invalid key gets 429 in place of 401; a valid one is served", async (api) => {
    for (let n = 0; n < 3; n++) expect((await probe(api, `Bearer x${n}`)).code).toBe("invalid_api_key")
    for (const authorization of ["Bearer y", "Basic eDp5", "Bearer x0"])
      expect((await probe(api, authorization)).code).toBe("rate_limited")
    // An untrusted proxy cannot state the client's address.
    expect((await probe(api, "Bearer z", { "x-forwarded-for": "203.0.113.9" })).code).toBe("rate_limited")
    expect((await probe(api, "Bearer z", { forwarded: "for=203.0.113.9", "x-real-ip": "203.0.113.9" })).code).toBe(
      "rate_limited",
    )
    for (let n = 0; n < 3; n++) expect((await api.get(`/v1/jobs/${unknownJob}`)).code).toBe("job_not_found")
  }),
  row("the limit does not distinguish keys that exist from keys that do not", async (api) => {
    const key = await api.newKey({ expiresAt: Date.now() - 1_000 })
    expect((await probe(api, `Bearer ${key.secret}`)).code).toBe("rate_limited")
  }),
)

export const proxies = tableInTurn(
  "trusted proxies",
  row("behind a trusted proxy each client has its own limit", async (api) => {
    const from = (address: string, n = 0) => probe(api, `Bearer x${n}`, { "x-forwarded-for": address })
    for (let n = 0; n < 3; n++) expect((await from("203.0.113.1", n)).code).toBe("invalid_api_key")
    expect((await from("203.0.113.1")).code).toBe("rate_limited")
    expect((await from("203.0.113.2")).code).toBe("invalid_api_key")
    // What a client wrote in front of what the proxy added does not count.
    expect((await from("198.51.100.7, 203.0.113.1")).code).toBe("rate_limited")
    expect((await from("203.0.113.1, 198.51.100.7")).code).toBe("invalid_api_key")
  }),
)

/** Runs with the limits of an installation nobody configured. */
export const defaultLimits = tableInTurn(
  "default limits",
  ...rows<readonly [string, Call, perMinute: number, burst: number | undefined]>(
    [
      ["create", groups[0]!.calls[0]!, 60, 30],
      ["upload", groups[1]!.calls[0]!, 60, 30],
      ["read", groups[2]!.calls[0]!, 3_000, 300],
      ["delete", groups[3]!.calls[0]!, 300, undefined],
    ],
    ([name, , perMinute, burst]) => `${name}: ${perMinute} a minute${burst === undefined ? "" : `, ${burst} at once`}`,
    async (api, [, call, perMinute, burst]) => {
      const answer = await api.quietly(call)
      expectPolicy(answer, perMinute)
      if (burst !== undefined) expect(remainingOf(answer)).toBe(burst - 1)
    },
  ),
  row("thirty concurrent creations are accepted, not fifty", async (api) => {
    const answers = await Promise.all(Array.from({ length: 50 }, () => api.quietly(groups[0]!.calls[0]!)))
    const served = answers.filter(({ status }) => status === 202).length
    expect(served).toBeGreaterThanOrEqual(30)
    // One more for each second this took.
    expect(served).toBeLessThan(36)
    expect(answers.filter(({ code }) => code === "rate_limited")).toHaveLength(50 - served)
  }),
  row("thirty failed authentications are 401, not fifty", async (api) => {
    const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => probe(api, `Bearer x${n}`)))
    const served = answers.filter(({ status }) => status === 401).length
    expect(served).toBeGreaterThanOrEqual(30)
    expect(served).toBeLessThan(36)
    expect((await api.get(`/v1/jobs/${unknownJob}`)).code).toBe("job_not_found")
  }),
)

/** Runs where a project may have two unfinished jobs. */
const speech = "/v1/audio/speech"
export const queue = table(
  "queue",
  row("the cap is the project's: another key of it is refused, another project is not", async (api) => {
    const key = await api.key()
    await api.job(speech, { input: "sandbox:delay:20" })
    const ending = await api.job("/v1/images/generations", { prompt: "sandbox:delay:2" })
    const refused = await api.post(speech, { input: "x" }, { headers: { "idempotency-key": "later" } })
    expect(refused.error).toMatchObject({ code: "queue_full", param: null })
    expect(
      (await api.post("/v1/images/generations", { prompt: "x" }, { key: await api.newKey({ besides: key }) })).code,
    ).toBe("queue_full")
    expect((await api.post(speech, { input: "x" }, { key: await api.newKey() })).status).toBe(202)
    await api.finished(ending.path)
    const accepted = await api.post(speech, { input: "x" }, { headers: { "idempotency-key": "later" } })
    expect([accepted.status, accepted.header("idempotency-replayed")]).toEqual([202, undefined])
  }),
  row("a job refused for the queue leaves its upload unused", async (api) => {
    const upload_id = await api.uploaded(wav(1))
    await api.job(speech, { input: "sandbox:delay:20" })
    const ending = await api.job(speech, { input: "sandbox:delay:2" })
    expect((await api.post("/v1/audio/transcriptions", { upload_id })).code).toBe("queue_full")
    await api.finished(ending.path)
    expect((await api.post("/v1/audio/transcriptions", { upload_id })).status).toBe(202)
  }),
  row("fifty concurrent creations fill it exactly", async (api) => {
    const key = await api.key()
    // Several keys, because each may create ten times only, and another process may hold three of them in advance.
    const besides = { besides: key }
    const callers = [key, await api.newKey(besides), await api.newKey(besides), await api.newKey(besides)]
    const answers = await Promise.all(
      callers.flatMap((key) =>
        Array.from({ length: 7 }, () =>
          api.quietly({ method: "POST", path: speech, json: { input: "sandbox:delay:20" }, key }),
        ),
      ),
    )
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(2)
    const refused = answers.flatMap(({ code, status }) => (status === 202 ? [] : [code]))
    expect(refused).toEqual(Array.from({ length: 26 }, () => "queue_full"))
  }),
)
