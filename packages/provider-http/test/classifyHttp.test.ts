import { inspect } from "node:util"
import { describe, expect, it } from "vitest"
import { classifyHttp, readErrorCode } from "../src/index.ts"
import { classOf } from "./support/expectations.ts"

const unavailable = "retry provider_unavailable"
const input = "refuse provider_rejected"
const content = "refuse content_rejected"
const configuration = "broken configuration"
const quota = "broken quota"

const table: ReadonlyArray<readonly [status: number | undefined, code: unknown, type: unknown, meaning: string]> = [
  [undefined, undefined, undefined, unavailable],
  [408, null, null, unavailable],
  [409, null, null, unavailable],
  [425, null, null, unavailable],
  [429, null, null, unavailable],
  [429, "rate_limit_exceeded", "requests", unavailable],
  [429, "insufficient_quota", "insufficient_quota", quota],
  [429, null, "insufficient_quota", quota],
  [429, "billing_hard_limit_reached", null, quota],
  [400, "billing_hard_limit_reached", "invalid_request_error", quota],
  [401, "quota_exceeded", null, quota],
  [402, null, null, quota],
  [500, null, "server_error", unavailable],
  [502, null, null, unavailable],
  [503, "model_not_found", null, unavailable],
  [504, null, null, unavailable],
  [529, "overloaded_error", null, unavailable],
  [400, null, "invalid_request_error", input],
  [400, "unsupported_parameter", null, input],
  [400, "unsupported_value", null, input],
  [400, "context_length_exceeded", null, input],
  [400, "string_above_max_length", null, input],
  [413, null, null, input],
  [414, null, null, input],
  [415, null, null, input],
  [422, null, null, input],
  [431, null, null, input],
  [400, "content_policy_violation", "image_generation_user_error", content],
  [400, "Content_Filter", null, content],
  [400, "moderation_blocked", null, content],
  [400, "invalid_prompt", null, content],
  [400, "ResponsibleAIPolicyViolation", null, content],
  [403, "content_policy_violation", null, content],
  [500, "content_filter", null, content],
  // A content code takes precedence over codes that would pause the provider.
  [403, "permission_error", "content_policy_violation", content],
  [429, "insufficient_quota", "content_filter", content],
  [400, "invalid_api_key", null, configuration],
  [400, "model_not_found", null, configuration],
  [400, "account_deactivated", null, configuration],
  [401, null, null, configuration],
  [401, "invalid_api_key", "invalid_request_error", configuration],
  [403, "unsupported_country_region_territory", "request_forbidden", configuration],
  [403, null, "permission_error", configuration],
  // A firewall in front of the provider that rejects a text gives no code; one caller must not pause the provider for all.
  [403, null, null, unavailable],
  [404, null, null, configuration],
  [404, "model_not_found", null, configuration],
  [404, null, "NotFoundError", configuration],
  [404, "voice_not_found", null, input],
  [405, null, null, configuration],
  [407, null, null, configuration],
  [410, null, null, configuration],
  [301, null, null, configuration],
  [307, null, null, configuration],
  [406, null, null, unavailable],
  [418, null, null, unavailable],
  [451, null, null, unavailable],
  [200, null, null, "retry result_invalid"],
]

describe("an error response", () => {
  for (const [status, code, type, meaning] of table)
    it(`${String(status)} ${String(code)} ${String(type)}: ${meaning}`, () => {
      expect(classOf(classifyHttp({ status, code, type }))).toBe(meaning)
    })

  it("a 400 breaks the provider only if its code is about key, model or quota", () => {
    for (const code of [undefined, "invalid_value", "unknown_parameter", "unsupported_parameter", "x".repeat(64)])
      expect(classOf(classifyHttp({ status: 400, code })), code).toBe(input)
  })
})

const now = Date.parse("Fri, 20 Nov 2026 12:00:00 GMT")
const dayMs = 86_400_000

describe("the wait requested by a provider", () => {
  const waitOf = (headers: Record<string, string>, status = 429) =>
    classifyHttp({ status, headers, nowMs: now }).retryAfterMs

  const forms: ReadonlyArray<readonly [Record<string, string>, number | undefined]> = [
    [{ "retry-after": "7" }, 7000],
    [{ "Retry-After": "0" }, 0],
    [{ "retry-after": " 1.5 " }, 1500],
    [{ "retry-after-ms": "250" }, 250],
    [{ "retry-after-ms": "250", "retry-after": "9" }, 250],
    [{ "retry-after-ms": "soon", "retry-after": "9" }, 9000],
    [{ "retry-after": "Fri, 20 Nov 2026 12:00:30 GMT" }, 30_000],
    [{ "retry-after": "Friday, 20-Nov-26 12:00:30 GMT" }, 30_000],
    // The provider's clock is an hour ahead, and so is its date.
    [{ "retry-after": "Fri, 20 Nov 2026 13:00:30 GMT", date: "Fri, 20 Nov 2026 13:00:00 GMT" }, 30_000],
    [{ "retry-after": "Fri, 20 Nov 2026 11:00:00 GMT" }, 0],
    [{ "retry-after": "Fri, 20 Nov 2099 12:00:00 GMT" }, dayMs],
    [{ "retry-after": "9".repeat(400) }, dayMs],
    [{ "retry-after": "100000000" }, dayMs],
    [{ "retry-after": "-5" }, undefined],
    [{ "retry-after": "1e9" }, undefined],
    [{ "retry-after": "0x10" }, undefined],
    [{ "retry-after": "Infinity" }, undefined],
    [{ "retry-after": "later" }, undefined],
    [{ "retry-after": "2027-01-01" }, undefined],
    [{ "retry-after": "" }, undefined],
    [{}, undefined],
  ]
  for (const [headers, wait] of forms)
    it(JSON.stringify(headers).slice(0, 90), () => {
      expect(waitOf(headers)).toBe(wait)
    })

  it("applies to server errors and to quotas, but not to refusals", () => {
    expect(waitOf({ "retry-after": "7" }, 503)).toBe(7000)
    expect(waitOf({ "retry-after": "7" }, 402)).toBe(7000)
    expect(waitOf({ "retry-after": "7" }, 400)).toBeUndefined()
    expect(classifyHttp({ status: 429, headers: new Headers({ "retry-after": "7" }) }).retryAfterMs).toBe(7000)
  })

  it("ignores a date without a reference time", () => {
    const headers = { "retry-after": "Fri, 20 Nov 2026 12:00:30 GMT" }
    expect(classifyHttp({ status: 429, headers }).retryAfterMs).toBeUndefined()
  })
})

describe("the detail of an error", () => {
  it("contains the status and codes that are words, never a text or a key", () => {
    const secret = "sk-proj-4fGh29"
    const errors = [
      classifyHttp({ status: 401, code: secret, type: "invalid_request_error" }),
      classifyHttp({ status: 400, code: `the prompt was: ${secret}` }),
      classifyHttp({ status: 400, code: { secret }, type: [secret] }),
      classifyHttp({ status: 503, code: "a".repeat(65) }),
    ]
    for (const error of errors)
      expect(inspect(error, { depth: 9 }) + JSON.stringify(error) + String(error.stack)).not.toContain(secret)
    expect(errors.map((error) => error.detail)).toEqual([
      "HTTP 401 invalid_request_error",
      "HTTP 400",
      "HTTP 400",
      "HTTP 503",
    ])
  })
})

describe("the location of the error code", () => {
  const bodies: ReadonlyArray<readonly [string, unknown, unknown]> = [
    [`{"error":{"message":"m","type":"t","param":null,"code":"c"}}`, "c", "t"],
    [`{"object":"error","message":"m","type":"NotFoundError","code":404}`, undefined, "NotFoundError"],
    [`{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"m"}}`, "RESOURCE_EXHAUSTED", undefined],
    [`{"detail":{"status":"quota_exceeded","message":"m"}}`, "quota_exceeded", undefined],
    [
      `{"error":{"code":"c","innererror":{"code":"ResponsibleAIPolicyViolation"}}}`,
      "ResponsibleAIPolicyViolation",
      undefined,
    ],
    [`{"detail":"Not Found"}`, undefined, undefined],
    [`{"error":"text"}`, undefined, undefined],
    [`<html>`, undefined, undefined],
    [``, undefined, undefined],
    [`null`, undefined, undefined],
    [`[1]`, undefined, undefined],
  ]
  for (const [body, code, type] of bodies)
    it(body === "" ? "nothing" : body, () => {
      const found = readErrorCode(body)
      expect([found.code, found.type]).toEqual([code, type])
    })
})
