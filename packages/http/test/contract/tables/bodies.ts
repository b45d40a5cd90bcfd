import { gzipSync } from "node:zlib"
import { expect } from "vitest"
import type { Answer } from "../support/Answer.ts"
import type { Api, Headers } from "../support/Api.ts"
import { chunk, requestBytes } from "../support/Connection.ts"
import { row, rows, table } from "../support/tables.ts"

/** How bodies of JSON requests may come: media types, encodings, sizes, transfer codings. */

const speech = "/v1/audio/speech"
const valid = '{"input":"x"}'
const LIMIT = 65_536
const padded = (length: number) => valid + " ".repeat(length - valid.length)

const send = (api: Api, headers: Headers, body: string | Uint8Array = valid) =>
  api.send({ method: "POST", path: speech, headers, body })
const outcome = (answer: Answer) => answer.code ?? answer.status

const acceptedTypes = [
  "application/json",
  "application/json; charset=utf-8",
  "application/json;charset=UTF-8",
  'application/json; charset="utf-8"',
  "APPLICATION/JSON",
  "Application/Json; Charset=Utf-8",
  "application/json ; charset=utf-8",
  "application/json;  charset=utf-8",
]
const refusedTypes: ReadonlyArray<string | null> = [
  null,
  "",
  "text/plain",
  "text/json",
  "application/x-www-form-urlencoded",
  "multipart/form-data; boundary=x",
  "application/octet-stream",
  "application/vnd.api+json",
  "application/problem+json",
  "application/json5",
  "application/jsonp",
  "application/jso",
  "json",
  "*/*",
  "application/*",
  "application/json; charset=iso-8859-1",
  "application/json; charset=utf-16",
  "application/json; charset=utf8",
  'application/json; charset="latin1"',
  "application/json, application/json",
  "audio/wav",
]

const mediaTypes = [
  ...rows(
    acceptedTypes,
    (type) => `Content-Type ${type} is accepted`,
    async (api, type) => {
      expect(outcome(await send(api, { "content-type": type }))).toBe(202)
    },
  ),
  ...rows(
    refusedTypes,
    (type) => `Content-Type ${type === null ? "missing" : JSON.stringify(type)} is 415`,
    async (api, type) => {
      expect(outcome(await send(api, { "content-type": type }))).toBe("unsupported_content_type")
    },
  ),
  ...rows(
    ["/v1/audio/uploads", "/v1/audio/transcriptions", "/v1/voice/turns", "/v1/images/generations"],
    (path) => `${path} wants JSON too`,
    async (api, path) => {
      const answer = await api.send({ method: "POST", path, body: "{}", headers: { "content-type": "text/plain" } })
      expect(outcome(answer)).toBe("unsupported_content_type")
    },
  ),
]

const encodings = [
  ...rows(
    ["identity", "Identity", "IDENTITY"],
    (coding) => `Content-Encoding: ${coding} is accepted`,
    async (api, coding) => {
      expect(outcome(await send(api, { "content-encoding": coding }))).toBe(202)
    },
  ),
  ...rows(
    ["gzip", "GZIP", "x-gzip", "deflate", "br", "zstd", "gzip, identity", "identity, gzip", "unheard-of"],
    (coding) => `Content-Encoding: ${coding} is 415`,
    async (api, coding) => {
      expect(outcome(await send(api, { "content-encoding": coding }, gzipSync(valid)))).toBe("unsupported_content_type")
    },
  ),
  row("two Content-Encodings are 415, in any order", async (api) => {
    for (const codings of [
      ["identity", "gzip"],
      ["gzip", "identity"],
    ])
      expect(outcome(await send(api, { "content-encoding": codings }))).toBe("unsupported_content_type")
  }),
  row("gzip without a Content-Encoding is no JSON", async (api) => {
    expect(outcome(await send(api, {}, gzipSync(valid)))).toBe("invalid_json")
  }),
]

const sizes = [
  ...rows(
    [LIMIT - 1, LIMIT],
    (length) => `${length} bytes are accepted`,
    async (api, length) => {
      expect(outcome(await send(api, {}, padded(length)))).toBe(202)
    },
  ),
  ...rows(
    [LIMIT + 1, LIMIT + 20_000, 2 * LIMIT],
    (length) => `${length} bytes are 413, after all of them were sent`,
    async (api, length) => {
      expect(outcome(await send(api, {}, padded(length)))).toBe("body_too_large")
    },
  ),
  row("what is too large need not be JSON", async (api) => {
    expect(outcome(await send(api, {}, "x".repeat(LIMIT + 1)))).toBe("body_too_large")
  }),
]

/** Sends chunks by hand on a request that says it is chunked. */
const chunked = async (api: Api, chunks: ReadonlyArray<string | Uint8Array>): Promise<Answer> => {
  const call = {
    method: "POST",
    path: speech,
    body: valid,
    headers: { "transfer-encoding": "chunked", "content-length": null },
  }
  const request = await api.request(call)
  const connection = await api.connect()
  connection.send(requestBytes({ ...request, body: undefined }))
  for (const data of chunks) connection.send(chunk(data))
  const answer = await api.answerOn(connection.send(chunk("")), "POST")
  connection.destroy()
  return answer
}

const chunkedBodies = [
  row("a chunked body is accepted, wherever it is cut", async (api) => {
    const bytes = Buffer.from('{"input":"😀é"}')
    expect(
      outcome(
        await chunked(
          api,
          [...bytes].map((byte) => Buffer.from([byte])),
        ),
      ),
    ).toBe(202)
  }),
  row("a chunked body may be as long as the limit", async (api) => {
    const text = padded(LIMIT)
    expect(outcome(await chunked(api, [text.slice(0, 1_000), text.slice(1_000)]))).toBe(202)
  }),
  row("one byte more is 413", async (api) => {
    const text = padded(LIMIT + 1)
    expect(outcome(await chunked(api, [text.slice(0, 40_000), text.slice(40_000)]))).toBe("body_too_large")
  }),
  row("an empty chunked body is no JSON", async (api) => {
    expect(outcome(await chunked(api, []))).toBe("invalid_json")
  }),
  row("an endless body gets 413 once it exceeds twice the limit", async (api) => {
    const request = await api.request({
      method: "POST",
      path: speech,
      body: valid,
      headers: { "transfer-encoding": "chunked", "content-length": null },
    })
    const connection = await api.connect()
    connection.send(requestBytes({ ...request, body: undefined }))
    for (let sent = 0; sent <= 2 * LIMIT; sent += 8_192) connection.send(chunk(" ".repeat(8_192)))
    expect(outcome(await api.answerOn(connection, "POST"))).toBe("body_too_large")
    connection.destroy()
  }),
]

/** Sends the head of a request that waits for permission, and returns what comes before any byte of the body. */
const expectContinue = async (api: Api, body: string, headers: Headers = {}) => {
  const request = await api.request({
    method: "POST",
    path: speech,
    body,
    headers: { expect: "100-continue", ...headers },
  })
  const connection = await api.connect()
  connection.send(requestBytes({ ...request, body: undefined }))
  return { connection, body }
}

const refusedEarly: ReadonlyArray<readonly [code: string, headers: Headers, body: string]> = [
  ["body_too_large", {}, padded(LIMIT + 1)],
  ["unsupported_content_type", { "content-type": "text/plain" }, valid],
  ["unsupported_content_type", { "content-encoding": "gzip" }, valid],
  ["missing_api_key", { authorization: null }, valid],
  ["invalid_api_key", { authorization: "Bearer nonsense" }, valid],
]

const expectations = [
  ...rows(
    refusedEarly,
    ([code, headers]) => `Expect: 100-continue is refused with ${code} and no 100 (${JSON.stringify(headers)})`,
    async (api, [code, headers, body]) => {
      const { connection } = await expectContinue(api, body, headers)
      const answer = await api.answerOn(connection, "POST")
      expect({ code: answer.code, interim: answer.wire.interim }).toEqual({ code, interim: [] })
      connection.destroy()
    },
  ),
  row("Expect: 100-continue of a good request gets 100, then 202", async (api) => {
    const { body, connection } = await expectContinue(api, valid)
    // The body is sent as real clients do it: after a moment, whatever came.
    await new Promise((resolve) => setTimeout(resolve, 50))
    const answer = await api.answerOn(connection.send(body), "POST")
    expect({ status: answer.status, interim: answer.wire.interim }).toEqual({ status: 202, interim: [100] })
    connection.destroy()
  }),
  row("another expectation is no server error and no bare answer", async (api) => {
    expect((await send(api, { expect: "200-maybe" })).status).toBeLessThan(500)
  }),
]

const aborted = row("a body that breaks off binds nothing and creates nothing", async (api) => {
  const headers = { "idempotency-key": "cut", "content-length": "100" }
  const request = await api.request({ method: "POST", path: speech, body: valid, headers })
  const connection = await api.connect()
  connection.send(requestBytes(request)).destroy()
  const answer = await send(api, { "idempotency-key": "cut" }, '{"input":"something else"}')
  expect({ status: answer.status, replayed: answer.header("idempotency-replayed") }).toEqual({
    status: 202,
    replayed: undefined,
  })
})

export const bodies = table("bodies", mediaTypes, encodings, sizes, chunkedBodies, expectations, aborted)
