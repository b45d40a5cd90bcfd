import fc from "fast-check"
import { expect } from "vitest"
import type { Api } from "../support/Api.ts"
import type { WireRequest } from "../support/Connection.ts"
import { row, type Row, table } from "../support/tables.ts"
import { endpoints } from "../support/requests.ts"

/** Requests nobody would write: never a 5xx, and every refusal has the envelope. The same seed goes to every store. */

const runs = Number(process.env.KILN_FUZZ_RUNS ?? 150)
const seed = Number(process.env.KILN_FUZZ_SEED ?? 20_250)

const paths = Object.values(endpoints).map(({ path }) => path)
const fieldNames = [
  "format",
  "declared_seconds",
  "upload_id",
  "input",
  "voice",
  "max_output_tokens",
  "instructions",
  "prompt",
  "model",
  "__proto__",
  "constructor",
  "toString",
  "",
]
const oddText = fc.oneof(
  fc.constantFrom(
    "",
    " ",
    "\u0000",
    "\ud800",
    "__proto__",
    "wav",
    "alloy",
    "svc-image",
    "upl_00000000000000000000000000",
    "sandbox:fail:internal_error",
    "a".repeat(4_097),
    "😀".repeat(4_096),
  ),
  fc.string({ unit: "binary", maxLength: 40 }),
)
const oddNumber = fc.oneof(
  fc.constantFrom(0, -0, 1, 900, 901, 1024, 1025, 2 ** 53, 1e308, 5e-324, -1, 0.5),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.integer(),
)
const oddValue = fc.oneof(oddText, oddNumber, fc.boolean(), fc.constant(null), fc.jsonValue({ maxDepth: 4 }))
const oddBody = fc
  .array(
    fc.tuple(
      fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...fieldNames) }, { weight: 1, arbitrary: oddText }),
      oddValue,
    ),
    { maxLength: 6 },
  )
  .map((members) => `{${members.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(",")}}`)

/** A JSON text with some of its characters changed. */
const mutilated = fc
  .tuple(
    oddBody,
    fc.array(fc.tuple(fc.nat(), fc.constantFrom("", "{", "}", "[", '"', ":", ",", "\\", "0", "\u0000", "é")), {
      maxLength: 4,
    }),
  )
  .map(([text, changes]) =>
    changes.reduce(
      (rest, [at, by]) => rest.slice(0, at % (rest.length + 1)) + by + rest.slice((at % (rest.length + 1)) + 1),
      text,
    ),
  )

/** Header text of any byte but line breaks and U+0000, which would be another request. */
const headerText = fc
  .array(
    fc.oneof(
      { weight: 9, arbitrary: fc.integer({ min: 0x20, max: 0x7e }) },
      { weight: 1, arbitrary: fc.constantFrom(0x09, 0x80, 0xe9, 0xff) },
    ),
    { maxLength: 60 },
  )
  .map((codes) => String.fromCharCode(...codes))
const headerNames = [
  "authorization",
  "idempotency-key",
  "content-type",
  "content-encoding",
  "range",
  "origin",
  "x-forwarded-for",
  "x-request-id",
  "accept",
  "cookie",
  "if-range",
  "access-control-request-method",
]
const oddHeaders = fc.array(fc.tuple(fc.constantFrom(...headerNames), headerText), { maxLength: 5 })

const segment = fc.oneof(
  fc.constantFrom(
    "v1",
    "audio",
    "uploads",
    "speech",
    "transcriptions",
    "voice",
    "turns",
    "jobs",
    "images",
    "generations",
    "data",
    "file",
    "files",
    "",
    ".",
    "..",
    "%00",
    "%2f",
    "%ff",
    "%",
    "job_00000000000000000000000000",
    "upl_00000000000000000000000000",
    "fil_00000000000000000000000000",
  ),
  fc.array(fc.integer({ min: 0x21, max: 0x7e }), { maxLength: 20 }).map((codes) => String.fromCharCode(...codes)),
)
const oddTarget = fc.array(segment, { minLength: 1, maxLength: 7 }).map((segments) => `/${segments.join("/")}`)
const oddQuery = fc
  .array(
    fc.tuple(
      fc.constantFrom("e", "k", "s", "x"),
      fc.oneof(
        fc.constantFrom("1", "9999999999", "k1", "A".repeat(43)),
        fc.string({ maxLength: 10 }).map(encodeURIComponent),
      ),
    ),
    { maxLength: 4 },
  )
  .map((pairs) => pairs.map(([name, value]) => `${name}=${value}`).join("&"))
const methods = fc.constantFrom("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE")

const send = async (api: Api, request: WireRequest): Promise<string> => {
  const answer = api.check(await api.exchange(request), request.method, { fromParser: true })
  expect(answer.status).toBeLessThan(500)
  return `${answer.status} ${request.method === "HEAD" ? "" : answer.code}`
}

const property = <T>(
  name: string,
  arbitrary: fc.Arbitrary<T>,
  write: (api: Api, value: T) => Promise<WireRequest>,
): Row =>
  row(name, async (api) => {
    const outcomes: Array<string> = []
    await fc.assert(
      fc.asyncProperty(arbitrary, async (value) => void outcomes.push(await send(api, await write(api, value)))),
      { seed, numRuns: runs },
    )
    api.note("outcomes", outcomes)
  })

export const fuzz = table(
  "fuzz",
  property("JSON objects of odd fields", fc.tuple(fc.constantFrom(...paths), oddBody), (api, [path, body]) =>
    api.request({ method: "POST", path, body }),
  ),
  property("JSON that is mutilated", fc.tuple(fc.constantFrom(...paths), mutilated), (api, [path, body]) =>
    api.request({ method: "POST", path, body }),
  ),
  property(
    "bodies of any bytes",
    fc.tuple(fc.constantFrom(...paths), fc.uint8Array({ maxLength: 300 })),
    (api, [path, body]) => api.request({ method: "POST", path, body }),
  ),
  property("odd headers on good requests", oddHeaders, async (api, headers) => {
    const request = await api.request({ method: "POST", path: "/v1/audio/speech", json: { input: "x" } })
    const replaced = new Set(headers.map(([name]) => name))
    return { ...request, headers: [...request.headers.filter(([name]) => !replaced.has(name)), ...headers] }
  }),
  property(
    "odd methods, paths and queries",
    fc.tuple(methods, oddTarget, oddQuery, fc.boolean()),
    async (api, [method, target, query, keyed]) =>
      api.request({
        method,
        path: `${target}${query === "" ? "" : "?"}${query}`,
        ...(keyed ? {} : { key: null }),
        ...(method === "POST" || method === "PUT" ? { body: "{}" } : {}),
      }),
  ),
  property(
    "odd queries on signed paths",
    fc.tuple(fc.boolean(), oddQuery, oddHeaders),
    async (api, [upload, query, headers]) => {
      const path = upload
        ? "/v1/audio/uploads/upl_00000000000000000000000000/file"
        : "/v1/files/fil_00000000000000000000000000"
      const request = await api.request({
        method: upload ? "PUT" : "GET",
        path: `${path}?${query}`,
        key: null,
        ...(upload ? { body: "RIFF" } : {}),
      })
      return { ...request, headers: [...request.headers, ...headers] }
    },
  ),
)
