import { expect } from "vitest"
import type { Answer } from "./Answer.ts"
import { catalogue, parserErrors } from "./catalogue.ts"

/** A generated one, or one of the caller's. */
const REQUEST_ID = /^[0-9A-Za-z][0-9A-Za-z._-]{6,126}[0-9A-Za-z]$/
const ENVELOPE_KEYS = ["code", "details", "message", "param", "request_id", "type"]
const KNOWN_TYPES = new Set(Object.values(catalogue).flatMap(({ type }) => type))

/** Headers that accompany a code in every response. */
const headersOfCode: Readonly<Record<string, (answer: Answer) => void>> = {
  job_processing: (answer) => expect(answer.header("retry-after")).toBe("2"),
  upload_not_ready: (answer) => expect(answer.header("retry-after")).toBe("2"),
  upload_already_used: (answer) => expect(answer.header("x-should-retry")).toBe("false"),
  upload_in_progress: (answer) => expect(answer.header("retry-after")).toBe("5"),
  service_unavailable: (answer) => expect(answer.header("retry-after")).toBe("5"),
  rate_limited: (answer) => expect(answer.header("retry-after")).toMatch(/^[1-9][0-9]*$/),
  uploads_full: (answer) => {
    expect([answer.header("retry-after"), answer.header("x-should-retry")]).toEqual(["60", "false"])
    expect(answer.error.details).toEqual({ uploads: expect.any(Number), bytes: expect.any(Number) })
  },
  storage_full: (answer) => {
    expect([answer.header("retry-after"), answer.header("x-should-retry")]).toEqual(["60", "false"])
    expect(answer.error.details).toEqual({
      max_bytes: expect.any(Number),
      upload_bytes: expect.any(Number),
      result_bytes: expect.any(Number),
    })
  },
  queue_full: (answer) => expect(answer.header("retry-after")).toMatch(/^[1-9][0-9]*$/),
  method_not_allowed: (answer) => expect(answer.header("allow")).toMatch(/^[A-Z]+(, ?[A-Z]+)*$/),
  missing_api_key: (answer) => expect(answer.header("www-authenticate")).toBe('Bearer realm="api"'),
  invalid_api_key: (answer) => expect(answer.header("www-authenticate")).toMatch(/^Bearer .*error="invalid_token"/),
  insufficient_scope: (answer) =>
    expect(answer.header("www-authenticate")).toMatch(/^Bearer .*error="insufficient_scope".*scope="[a-z.]+"/),
}

/**
 * Checks every response: the request id, the required headers, the envelope on errors only, and status and type of the
 * catalogue. Only rows that break a port expect a 5xx.
 */
export const checkEveryAnswer = (
  answer: Answer,
  method: string,
  options: { readonly serverErrors: boolean; readonly fromParser?: boolean },
): void => {
  const { status } = answer
  expect(answer.header("x-request-id")).toMatch(REQUEST_ID)
  expect(answer.header("x-content-type-options")).toBe("nosniff")
  if (!options.serverErrors) expect(status, `a 5xx: ${answer.text}`).toBeLessThan(500)
  if (answer.isJson) expect(answer.header("cache-control")).toBe("no-store")
  if (status === 204) expect(answer.header("content-length") ?? "0").toBe("0")
  if (method === "HEAD") return
  if (status < 400) {
    if (answer.isJson) expect(Object.keys(answer.json)).not.toContain("error")
    return
  }
  checkEnvelope(answer, options.fromParser === true)
}

const checkEnvelope = (answer: Answer, fromParser: boolean): void => {
  expect(answer.header("content-type")).toBe("application/json; charset=utf-8")
  expect(Object.keys(answer.json)).toEqual(["error"])
  const { error } = answer
  expect(Object.keys(error).toSorted()).toEqual(ENVELOPE_KEYS)
  expect(error.request_id).toBe(answer.header("x-request-id"))
  expect(error.message).toMatch(/\S/)
  expect(error.param === null || typeof error.param === "string", "param is a string or null").toBe(true)
  expect(error.details === null || typeof error.details === "object", "details is an object or null").toBe(true)
  const entry = catalogue[error.code]
  if (entry === undefined) {
    expect(fromParser, `the catalogue has no ${error.code}`).toBe(true)
    expect({ code: error.code, status: answer.status }).toEqual({ code: error.code, status: parserErrors[error.code] })
    expect(KNOWN_TYPES).toContain(error.type)
    return
  }
  expect({ code: error.code, status: answer.status, type: error.type }).toEqual({ code: error.code, ...entry })
  headersOfCode[error.code]?.(answer)
}
