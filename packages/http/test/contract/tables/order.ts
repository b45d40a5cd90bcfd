import { expect } from "vitest"
import { type Api, type Call, imagePath } from "../support/Api.ts"
import type { Key } from "@kiln/service-lab"
import { row, rows, table } from "../support/tables.ts"

/** The order of checks: a request that is wrong in two ways gets the answer of the earlier check. */

/** The service these rows run against. A project may have two unfinished jobs, a key ten creations. */
export const orderSettings = {
  engine: { queueCap: 2 },
  http: {
    rateLimits: {
      create: { perMinute: 1, burst: 10 },
      upload: { perMinute: 0, burst: 0 },
      read: { perMinute: 0, burst: 0 },
      delete: { perMinute: 0, burst: 0 },
      authentication: { perMinute: 0, burst: 0 },
      pages: { perMinute: 0, burst: 0 },
    },
  },
} as const

const speech = "/v1/audio/speech"
const turns = "/v1/voice/turns"
const audioOnly = ["audio.create"]
const unknownUpload = "upl_00000000000000000000000000"

type Keyed = Call & { readonly key: Key }

/** Part of a request, or of the world around it, that violates one check. */
interface Violation {
  /** Its place in the order, with a fraction where a step has several. */
  readonly step: number
  readonly code: string
  readonly change?: (call: Keyed, api: Api) => Keyed | Promise<Keyed>
  /** What happens to the world once the request is written. */
  readonly arrange?: (call: Keyed, api: Api) => Promise<unknown>
}

const withHeaders = (call: Keyed, headers: Call["headers"]): Keyed => ({
  ...call,
  headers: { ...call.headers, ...headers },
})
const withBody = (call: Keyed, change: (body: string) => string): Keyed => ({
  ...call,
  body: change(String(call.body)),
})

/** Uses up the call's key's bucket in every process, with requests that make nothing. */
const exhaust = ({ key }: Keyed, api: Api) =>
  api.untilEverywhere({ method: "POST", path: speech, key, body: "{}" }, (answer) => answer.code === "rate_limited")

/** Fills the project's queue, by another key, so that the bucket of the call's own key stays untouched. */
const fillQueue = async (call: Keyed, api: Api) => {
  const key = await api.newKey({ besides: call.key })
  for (const input of ["sandbox:delay:20", "sandbox:delay:21"]) await api.job(speech, { input }, { key })
}

/** Binds an idempotency key to a job that has ended: it must not fill the queue. */
const bind = async (api: Api, key: Key) => {
  const job = await api.job(speech, { input: "bound" }, { key, headers: { "idempotency-key": "bound" } })
  await api.finished(job.path, key)
}

/** Violations that may meet in one request, in order. */
const violations: ReadonlyArray<Violation> = [
  { step: 1, code: "not_found", change: (call) => ({ ...call, path: `${call.path}/nowhere` }) },
  { step: 1, code: "method_not_allowed", change: (call) => ({ ...call, method: "PUT" }) },
  { step: 2, code: "missing_api_key", change: (call) => withHeaders(call, { authorization: null }) },
  { step: 2, code: "invalid_api_key", change: (call) => withHeaders(call, { authorization: "Bearer x" }) },
  // The keys of these rows are for audio only.
  { step: 3, code: "insufficient_scope", change: (call) => ({ ...call, path: imagePath }) },
  { step: 4, code: "rate_limited", arrange: exhaust },
  {
    step: 5.1,
    code: "unsupported_content_type",
    change: (call) => withHeaders(call, { "content-type": "text/plain" }),
  },
  { step: 5.2, code: "body_too_large", change: (call) => withBody(call, (body) => body + " ".repeat(70_000)) },
  { step: 5.3, code: "invalid_json", change: (call) => withBody(call, (body) => `${body}}`) },
  { step: 6, code: "idempotency_key_missing", change: (call) => withHeaders(call, { "idempotency-key": null }) },
  { step: 6, code: "idempotency_key_invalid", change: (call) => withHeaders(call, { "idempotency-key": "a b" }) },
  {
    step: 7,
    code: "invalid_request",
    change: (call) => withBody(call, (body) => body.replace(/^\{/, '{"unknown":1,')),
  },
  {
    step: 8,
    code: "idempotency_key_reused",
    change: async (call, api) => {
      await bind(api, call.key)
      return withHeaders(call, { "idempotency-key": "bound" })
    },
  },
  {
    step: 9,
    code: "live_not_active",
    change: async (call, api) => ({ ...call, key: await api.newKey({ mode: "live", scopes: audioOnly }) }),
  },
  {
    step: 10,
    code: "upload_not_found",
    change: (call) => ({
      ...call,
      path: turns,
      body: JSON.stringify({ upload_id: unknownUpload, max_output_tokens: 1 }),
    }),
  },
  { step: 11, code: "queue_full", arrange: fillQueue },
]

/** Two answers of one step, two things about one header, and a live key that has a job although none is accepted. */
const cannotMeet = (first: Violation, second: Violation): boolean =>
  first.step === second.step ||
  (first.code.startsWith("idempotency_key_") && second.code.startsWith("idempotency_key_")) ||
  (first.code === "idempotency_key_reused" && second.code === "live_not_active")

const pairs = violations.flatMap((first, index) =>
  violations
    .slice(index + 1)
    .filter((second) => !cannotMeet(first, second))
    .map((second) => [first, second] as const),
)

const violate = async (api: Api, ...chosen: ReadonlyArray<Violation>) => {
  const key = await api.newKey({ scopes: audioOnly })
  let call: Keyed = { method: "POST", path: speech, body: JSON.stringify({ input: "x" }), key }
  for (const { change } of chosen) call = (await change?.(call, api)) ?? call
  for (const { arrange } of chosen) await arrange?.(call, api)
  return api.send(call)
}

// The later violation is arranged first: it may replace the path or the body, which the earlier one then changes.
const pairRows = rows(
  pairs,
  ([first, second]) => `${first.code} comes before ${second.code}`,
  async (api, [first, second]) => {
    expect((await violate(api, second, first)).code).toBe(first.code)
  },
)

/** Each violation on its own is what it claims to be: else the pairs would prove nothing. */
const single = rows(
  violations,
  ({ code }) => `${code} by itself`,
  async (api, violation) => {
    expect((await violate(api, violation)).code).toBe(violation.code)
  },
)

const replays = [
  row("a replay comes before a full queue", async (api) => {
    const key = await api.key()
    await bind(api, key)
    await fillQueue({ path: speech, key }, api)
    expect((await api.post(speech, { input: "x" })).code).toBe("queue_full")
    const replay = await api.post(speech, { input: "bound" }, { headers: { "idempotency-key": "bound" } })
    expect([replay.status, replay.header("idempotency-replayed")]).toEqual([202, "true"])
  }),
  row("a replay comes after the fields", async (api) => {
    await bind(api, await api.key())
    const answer = await api.post(speech, { input: "bound", extra: 1 }, { headers: { "idempotency-key": "bound" } })
    expect(answer.code).toBe("invalid_request")
  }),
  row("a replay comes after the rate limit", async (api) => {
    const key = await api.key()
    await bind(api, key)
    await exhaust({ path: speech, key }, api)
    expect((await api.post(speech, { input: "bound" }, { headers: { "idempotency-key": "bound" } })).code).toBe(
      "rate_limited",
    )
  }),
]

export const order = table("order of checks", single, pairRows, replays)
