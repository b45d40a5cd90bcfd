import { expect } from "vitest"
import { rows, table } from "../support/tables.ts"

/** The route table: which paths there are, which methods they know, and that nothing else leads anywhere. */

const id = "job_00000000000000000000000000"
export const upload = "/v1/audio/uploads/upl_00000000000000000000000000/file"
export const file = "/v1/files/fil_00000000000000000000000000"

export const routes: ReadonlyArray<readonly [path: string, methods: ReadonlyArray<string>]> = [
  ["/v1/audio/uploads", ["POST"]],
  ["/v1/audio/transcriptions", ["POST"]],
  ["/v1/audio/speech", ["POST"]],
  ["/v1/voice/turns", ["POST"]],
  [`/v1/jobs/${id}`, ["GET"]],
  [`/v1/jobs/${id}/data`, ["DELETE"]],
  ["/v1/images/generations", ["POST"]],
  [`/v1/images/jobs/${id}`, ["GET"]],
  [`/v1/images/jobs/${id}/data`, ["DELETE"]],
  [upload, ["PUT"]],
  [file, ["GET", "HEAD"]],
]

const methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "PURGE"]

/** HEAD may be answered wherever GET is, and OPTIONS wherever the contract has a preflight; `Allow` may say so. */
const allowOf = (header: string | undefined) =>
  (header ?? "")
    .split(",")
    .map((method) => method.trim())
    .filter((method) => !["HEAD", "OPTIONS"].includes(method))

const wrongMethods = routes.flatMap(([path, known]) =>
  rows(
    methods.filter((method) => !known.includes(method) && !(method === "OPTIONS" && [upload, file].includes(path))),
    (method) => `${method} ${path} is 405 and says what is allowed`,
    async (api, method) => {
      for (const key of [await api.key(), null]) {
        const answer = await api.send({ method, path, key })
        expect(answer.code).toBe("method_not_allowed")
        expect(allowOf(answer.header("allow"))).toEqual(known.filter((method) => method !== "HEAD"))
        expect(answer.header("access-control-allow-methods")).toBeUndefined()
      }
    },
  ),
)

const bodiless = rows(
  routes,
  ([path]) => `HEAD and TRACE of ${path} have no body of ours to show`,
  async (api, [path]) => {
    const head = await api.send({ method: "HEAD", path, key: null })
    expect(head.wire.body.length).toBe(0)
    expect(head.status).toBeGreaterThanOrEqual(400)
    const trace = await api.send({ method: "TRACE", path, key: null, headers: { "x-secret": "canary-trace" } })
    expect(trace.code).toBe("method_not_allowed")
    expect(trace.text).not.toContain("canary-trace")
  },
)

const nowhere = [
  "/v1",
  "/v1/",
  "/v2/audio/uploads",
  "/audio/uploads",
  "/v1/audio",
  "/v1/audio/",
  "/v1/jobs",
  "/v1/jobs/",
  "/v1/images",
  "/v1/images/jobs",
  "/v1/images/jobs/",
  "/v1/files",
  "/v1/files/",
  "/v1/audio/uploads/",
  "/v1/audio/transcriptions/",
  "/v1/audio/speech/",
  "/v1/voice/turns/",
  "/v1/images/generations/",
  `/v1/jobs/${id}/`,
  `/v1/jobs/${id}/data/`,
  `/v1/images/jobs/${id}/`,
  `/v1/images/jobs/${id}/data/`,
  `${upload}/`,
  `${file}/`,
  "/V1/audio/uploads",
  "/v1/Audio/uploads",
  "/v1/audio/UPLOADS",
  `/v1/JOBS/${id}`,
  `/v1/jobs/${id}/DATA`,
  "/v1/Images/generations",
  "//v1/audio/uploads",
  "/v1//audio/uploads",
  "/v1/audio//speech",
  `/v1/jobs//${id}`,
  `/v1/jobs/${id}//data`,
  "//",
  "///v1/jobs",
  "/v1/audio/speech/x",
  `/v1/jobs/${id}/output`,
  `/v1/jobs/${id}/data/x`,
  `/v1/images/${id}`,
  "/v1/audio/uploads/upl_00000000000000000000000000",
  "/v1/audio/transcription",
  "/v1/speech",
  "/v1/voice/turn",
  "/v1/audio/speech.json",
  "/v1/audio/speech;x=1",
  "/v1\\audio\\uploads",
  `/v1/jobs\\${id}`,
  "/v1/audio\\speech",
  "/favicon.ico",
  "/robots.txt",
  "/.env",
  "/admin",
  "/metrics",
  "/v1/models",
  "/v1/openapi.json",
]

const unknownPaths = rows(
  nowhere,
  (path) => `${path} is nowhere, with every method and without a key`,
  async (api, path) => {
    for (const method of ["GET", "POST", "DELETE"]) {
      const answer = await api.send({ method, path, key: null })
      expect(answer.code, method).toBe("not_found")
      expect(answer.text).not.toContain(id)
    }
  },
)

/** Names no job can have; where they are decoded, they are unknown ones. */
const strangeIds = [
  "x",
  "job_",
  "0",
  "-1",
  "null",
  "undefined",
  "job_0000000000000000000000000",
  "job_000000000000000000000000000",
  "job_8zzzzzzzzzzzzzzzzzzzzzzzzz",
  "job_0000000000000000000000000i",
  "upl_00000000000000000000000000",
  "fil_00000000000000000000000000",
  "JOB_00000000000000000000000000",
  "%6Aob_0000000000000000000000000x",
  "%20",
  `${id}%20`,
  `%20${id}`,
  `${id}%00`,
  `${id}%0A`,
  "%00",
  "%2e%2e",
  "..%2f..%2fetc%2fpasswd",
  "%2F",
  "a%2Fb",
  "%25",
  "%ff",
  "%c0%af",
  "%ed%a0%80",
  "%zz",
  "%",
  "%u0000",
  "'",
  "*",
  "{id}",
  ":id",
  "$ne",
  "__proto__",
  "constructor",
  "a".repeat(101),
  "a".repeat(1_025),
  "a".repeat(8_000),
  "%61".repeat(2_000),
  `${id}?x=1`,
  `${id}#x`,
]

const strange = rows(
  strangeIds,
  (name) => `${name.slice(0, 40)} (${name.length}) is no job, on any route`,
  async (api, name) => {
    for (const [method, path] of [
      ["GET", `/v1/jobs/${name}`],
      ["DELETE", `/v1/jobs/${name}/data`],
      ["GET", `/v1/images/jobs/${name}`],
      ["DELETE", `/v1/images/jobs/${name}/data`],
    ] as const) {
      const answer = await api.send({ method, path })
      // A query or a fragment cuts the path short, and what is left of a DELETE is a GET's path.
      expect(
        ["job_not_found", "not_found", ...(/[?#]/.test(name) ? ["method_not_allowed"] : [])],
        `${method} ${path}`,
      ).toContain(answer.code)
      if (name.length > 10) expect(answer.text).not.toContain(name)
    }
  },
)

const malformed = rows(
  [
    "x",
    "job_",
    "upl_00000000000000000000000000",
    "job_8zzzzzzzzzzzzzzzzzzzzzzzzz",
    "%00",
    "JOB_00000000000000000000000000",
  ],
  (name) => `the malformed id ${name} is answered like an unknown one`,
  async (api, name) => {
    const pairs = [
      ["GET", "/v1/jobs/#"],
      ["DELETE", "/v1/jobs/#/data"],
      ["GET", "/v1/images/jobs/#"],
      ["DELETE", "/v1/images/jobs/#/data"],
    ] as const
    for (const [method, path] of pairs) {
      const [strange, unknown] = await Promise.all(
        [name, id].map((one) => api.quietly({ method, path: path.replace("#", one) })),
      )
      expect(strange?.code).toBe("job_not_found")
      expect(strange?.comparable).toBe(unknown?.comparable)
    }
  },
)

const dotSegments = rows(
  [
    "/v1/jobs/../audio/speech",
    "/v1/./audio/speech",
    "/./v1/audio/speech",
    "/v1/audio/speech/..",
    "/v1/audio/%2e%2e/audio/speech",
    "/v1/audio%2fspeech",
    "/%76%31/audio/speech%00",
  ],
  (path) => `${path} makes no job`,
  async (api, path) => {
    const answer = await api.send({ method: "POST", path, json: { input: "x" }, headers: { "idempotency-key": "k" } })
    expect(answer.status, "one route has one spelling").toBeGreaterThanOrEqual(400)
  },
)

export const routing = table("routes", wrongMethods, bodiless, unknownPaths, strange, malformed, dotSegments)
