import { expect } from "vitest"
import type { Api } from "../support/Api.ts"
import { type EndpointName, endpoints, expectProblems } from "../support/requests.ts"
import { type Row, rows, table } from "../support/tables.ts"

/** Texts that some stores refuse or change, wherever a client may put a text: none of them reaches a store. */

/** As JSON texts. */
const odd = [
  { name: "U+0000 behind it", text: (valid: string) => `"${valid}\\u0000"` },
  { name: "U+0000 alone", text: () => `"\\u0000"` },
  { name: "a lone high surrogate", text: (valid: string) => `"${valid}\\ud800"` },
  { name: "a lone low surrogate", text: (valid: string) => `"\\udc00${valid}"` },
  { name: "almost 64 KiB of it", text: (valid: string) => JSON.stringify(valid.repeat(60_000 / valid.length)) },
] as const

const members = (endpoint: EndpointName): ReadonlyArray<readonly [string, string]> =>
  Object.entries(endpoints[endpoint].valid).map(([name, value]) => [name, JSON.stringify(value)])

/** Every field that takes a text. */
const fields: ReadonlyArray<readonly [EndpointName, string, valid: string]> = [
  ["uploads", "format", "wav"],
  ["transcriptions", "upload_id", "upl_0"],
  ["speech", "input", "Hello"],
  ["speech", "voice", "alloy"],
  ["turns", "upload_id", "upl_00000000000000000000000000"],
  ["turns", "instructions", "Answer."],
  ["turns", "voice", "alloy"],
  ["images", "prompt", "A fox"],
]

const send = (api: Api, endpoint: EndpointName, fields: ReadonlyArray<readonly [string, string]>) =>
  api.send({
    method: "POST",
    path: endpoints[endpoint].path,
    body: `{${fields.map(([name, text]) => `${name}:${text}`).join(",")}}`,
  })

const quoted = (fields: ReadonlyArray<readonly [string, string]>): ReadonlyArray<readonly [string, string]> =>
  fields.map(([name, text]) => [JSON.stringify(name), text])

const fieldRows = fields.flatMap(([endpoint, field, valid]) =>
  rows(
    odd,
    ({ name }) => `${endpoint}: ${field} with ${name} is refused`,
    async (api, { text }) => {
      const others = members(endpoint).filter(([name]) => name !== field)
      const answer = await send(api, endpoint, quoted([...others, [field, text(valid)]]))
      if (field !== "upload_id") return expect([answer.status, answer.code]).toEqual([400, "invalid_request"])
      expect([answer.status, answer.code, answer.error.param]).toEqual([400, "upload_not_found", "upload_id"])
    },
  ),
)

const nameRows = rows(
  Object.keys(endpoints) as ReadonlyArray<EndpointName>,
  (endpoint) => `${endpoint}: the name of a field with U+0000 or a lone surrogate is unknown`,
  async (api, endpoint) => {
    for (const name of ["\\u0000", "input\\u0000", "\\ud800"]) {
      const answer = await send(api, endpoint, [...quoted(members(endpoint)), [`"${name}"`, "1"]])
      const param = (JSON.parse(`"${name}"`) as string).toWellFormed()
      expectProblems(answer, [{ param, reason: "unknown_field" }])
    }
  },
)

const malformedIds = [
  "job_%00",
  "job_00000000000000000000000000%00",
  "%00",
  "job_%ed%a0%80",
  "%ff",
  `job_${"0".repeat(6_000)}`,
]

const pathRows: ReadonlyArray<Row> = rows(
  [
    ["GET", (id: string) => `/v1/jobs/${id}`],
    ["GET", (id: string) => `/v1/images/jobs/${id}`],
    ["DELETE", (id: string) => `/v1/jobs/${id}/data`],
    ["GET", (id: string) => `/v1/files/${id}`],
    ["PUT", (id: string) => `/v1/audio/uploads/${id}/file`],
  ] as const,
  ([method, path]) => `${method} ${path("{id}")}: a malformed id is not found`,
  async (api, [method, path]) => {
    for (const id of malformedIds) {
      const answer = await api.send({ method, path: path(id) })
      expect([400, 403, 404, 405, 414, 431], `${id}: ${answer.text}`).toContain(answer.status)
    }
  },
)

const keyRows = rows(
  ["\u00e9", "a b", "a".repeat(256)],
  (key) => `an idempotency key ${JSON.stringify(key.slice(0, 9))} is malformed`,
  async (api, key) => {
    const headers = { "idempotency-key": key }
    const answer = await api.send({ method: "POST", path: "/v1/audio/speech", body: `{"input":"x"}`, headers })
    expect(answer.status, answer.text).toBe(400)
  },
)

export const oddTexts = table("texts that stores disagree about", fieldRows, nameRows, pathRows, keyRows)
