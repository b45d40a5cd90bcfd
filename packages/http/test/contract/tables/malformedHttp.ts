import { expect } from "vitest"
import { Answer } from "../support/Answer.ts"
import { type Api, type Call, putCall } from "../support/Api.ts"
import { chunk, requestBytes } from "../support/Connection.ts"
import { row, rows, table } from "../support/tables.ts"

/** Bytes that are hardly HTTP: an envelope or a clean close, never a hang, never a 5xx, never a job. */

const HOST = "Host: 127.0.0.1\r\n"
const valid = '{"input":"x"}'

/** Sends bytes, reads as many answers as there must be, and whatever else comes until the server closes. */
const sendBytes = async (api: Api, bytes: string, expected: number): Promise<ReadonlyArray<Answer>> => {
  const connection = await api.connect()
  connection.send(Buffer.from(bytes, "latin1"))
  try {
    const wires = []
    for (let n = 0; n < expected; n++) wires.push(await connection.read("GET"))
    await connection.quiet(expected === 0 ? 400 : 100)
    // Only now, so that nothing is answered less because we seem to be gone.
    wires.push(...(await connection.finish().readToEnd(8_000)))
    return wires.map((wire) => api.check(new Answer(wire), "GET", { fromParser: true }))
  } finally {
    connection.destroy()
  }
}

/** The head of a POST that would be accepted, with the given lines for the length of its body. */
const post = async (api: Api, ...lines: ReadonlyArray<string>) =>
  `POST /v1/audio/speech HTTP/1.1\r\n${HOST}Authorization: Bearer ${(await api.key()).secret}\r\nContent-Type: application/json\r\nIdempotency-Key: raw\r\n${lines.map((line) => `${line}\r\n`).join("")}\r\n`

const get = (target: string, version = "HTTP/1.1") => `GET ${target} ${version}\r\n${HOST}\r\n`
const many = (count: number, line: (n: number) => string) =>
  Array.from({ length: count }, (_, n) => `${line(n)}\r\n`).join("")

/** Refused by what reads the bytes: the code it must be, or `any` where a close or an ordinary refusal will do. */
const raw: ReadonlyArray<
  readonly [name: string, bytes: string | ((api: Api) => string | Promise<string>), code?: string]
> = [
  ["no HTTP at all", "hello\r\n\r\n", "malformed_request"],
  ["binary noise", "\x00\x01\x02\xff\xfe\r\n\r\n", "malformed_request"],
  ["a TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "malformed_request"],
  ["the HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
  ["an unheard-of method", `FOO /v1/jobs/x HTTP/1.1\r\n${HOST}\r\n`, "malformed_request"],
  ["a lower-case method", `get /v1/jobs/x HTTP/1.1\r\n${HOST}\r\n`, "malformed_request"],
  ["no version", "GET /v1/jobs/x\r\n\r\n"],
  ["HTTP/0.9", get("/v1/jobs/x", "HTTP/0.9")],
  ["HTTP/3.0", get("/v1/jobs/x", "HTTP/3.0")],
  ["a bad version", get("/v1/jobs/x", "HTTP/x.y"), "malformed_request"],
  ["two spaces in the request line", `GET  /v1/jobs/x HTTP/1.1\r\n${HOST}\r\n`],
  ["a space in the target", get("/v1/jobs/x y")],
  ["a control character in the target", get("/v1/jobs/\x01")],
  ["bytes beyond ASCII in the target", get("/v1/jobs/\xc3\xa9")],
  ["an empty target", `GET  HTTP/1.1\r\n${HOST}\r\n`],
  ["no Host", "GET /v1/jobs/x HTTP/1.1\r\n\r\n"],
  ["two Hosts", `GET /v1/jobs/x HTTP/1.1\r\n${HOST}Host: other\r\n\r\n`],
  ["a header without a colon", `GET /v1/jobs/x HTTP/1.1\r\n${HOST}nonsense\r\n\r\n`, "malformed_request"],
  ["a space before the colon", `GET /v1/jobs/x HTTP/1.1\r\n${HOST}X-A : b\r\n\r\n`, "malformed_request"],
  ["an empty header name", `GET /v1/jobs/x HTTP/1.1\r\n${HOST}: b\r\n\r\n`, "malformed_request"],
  ["a control character in a header", `GET /v1/jobs/x HTTP/1.1\r\n${HOST}X-A: \x01\r\n\r\n`, "malformed_request"],
  ["U+0000 in a header", `GET /v1/jobs/x HTTP/1.1\r\n${HOST}X-A: a\0b\r\n\r\n`, "malformed_request"],
  ["a folded header", `GET /v1/jobs/x HTTP/1.1\r\n${HOST}X-A: a\r\n b\r\n\r\n`],
  [
    "a folded header that hides a length",
    (api) => post(api, "X-A: a", " Content-Length: 13").then((head) => head + valid),
  ],
  ["bare line feeds", "GET /v1/jobs/x HTTP/1.1\nHost: x\n\n"],
  ["a bare line feed in the headers", `GET /v1/jobs/x HTTP/1.1\r\n${HOST}X-A: b\nX-B: c\r\n\r\n`],
  ["a bare carriage return", `GET /v1/jobs/x HTTP/1.1\r\n${HOST}X-A: b\rX-B: c\r\n\r\n`],
  ["headers past 16 KB", `GET /v1/jobs/x HTTP/1.1\r\n${HOST}X-A: ${"a".repeat(20_000)}\r\n\r\n`, "headers_too_large"],
  ["a target past 16 KB", get(`/v1/jobs/${"a".repeat(20_000)}`), "headers_too_large"],
  [
    "many small headers past 16 KB",
    `GET /v1/jobs/x HTTP/1.1\r\n${HOST}${many(1_500, (n) => `X-${n}: aaaaaaaa`)}\r\n`,
    "headers_too_large",
  ],
  ["thousands of headers of nothing", `GET /v1/jobs/x HTTP/1.1\r\n${HOST}${many(3_000, () => "a:")}\r\n`],
  [
    "a length and a coding",
    (api) => post(api, "Content-Length: 13", "Transfer-Encoding: chunked").then((head) => `${head}0\r\n\r\n`),
  ],
  [
    "two lengths that differ",
    (api) => post(api, "Content-Length: 13", "Content-Length: 14").then((head) => head + valid),
    "malformed_request",
  ],
  [
    "two lengths that agree",
    (api) => post(api, "Content-Length: 13", "Content-Length: 13").then((head) => head + valid),
  ],
  ["a list of lengths", (api) => post(api, "Content-Length: 13, 13").then((head) => head + valid), "malformed_request"],
  ["a negative length", (api) => post(api, "Content-Length: -1").then((head) => head + valid), "malformed_request"],
  ["a length with a sign", (api) => post(api, "Content-Length: +13").then((head) => head + valid), "malformed_request"],
  [
    "a length in hexadecimal",
    (api) => post(api, "Content-Length: 0xd").then((head) => head + valid),
    "malformed_request",
  ],
  ["a length past 2^64", (api) => post(api, "Content-Length: 99999999999999999999999").then((head) => head + valid)],
  ["an empty length", (api) => post(api, "Content-Length: ").then((head) => head + valid)],
  ["an unknown coding", (api) => post(api, "Transfer-Encoding: nonsense").then((head) => head + valid)],
  ["a coding after chunked", (api) => post(api, "Transfer-Encoding: chunked, gzip").then((head) => `${head}0\r\n\r\n`)],
  [
    "a coding before chunked",
    (api) => post(api, "Transfer-Encoding: gzip, chunked").then((head) => `${head}d\r\n${valid}\r\n0\r\n\r\n`),
    "unsupported_content_type",
  ],
  [
    "chunked twice",
    (api) => post(api, "Transfer-Encoding: chunked", "Transfer-Encoding: chunked").then((head) => `${head}0\r\n\r\n`),
  ],
  [
    "a coding with a vertical tab",
    (api) => post(api, "Transfer-Encoding: \x0bchunked").then((head) => `${head}0\r\n\r\n`),
  ],
  [
    "a bad chunk size",
    (api) => post(api, "Transfer-Encoding: chunked").then((head) => `${head}zz\r\n${valid}\r\n0\r\n\r\n`),
  ],
  [
    "a negative chunk size",
    (api) => post(api, "Transfer-Encoding: chunked").then((head) => `${head}-1\r\n${valid}\r\n0\r\n\r\n`),
  ],
  [
    "an endless chunk size",
    (api) => post(api, "Transfer-Encoding: chunked").then((head) => `${head}fffffffffffffffffffff\r\n${valid}`),
  ],
  [
    "a chunk without its end",
    (api) => post(api, "Transfer-Encoding: chunked").then((head) => `${head}d\r\n${valid}xx0\r\n\r\n`),
  ],
  [
    "a long chunk extension",
    (api) =>
      post(api, "Transfer-Encoding: chunked").then((head) => `${head}d;${"x".repeat(30_000)}\r\n${valid}\r\n0\r\n\r\n`),
  ],
  ["a body that is cut short", (api) => post(api, "Content-Length: 100").then((head) => head + valid)],
  ["a request cut in its headers", "GET /v1/jobs/x HTTP/1.1\r\nHost: x\r\nX-"],
  ["a request cut in its first line", "GET /v1/jo"],
  ["nothing at all", ""],
  ["line breaks only", "\r\n\r\n\r\n"],
  [
    "an upgrade to another protocol",
    `GET /v1/jobs/x HTTP/1.1\r\n${HOST}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n`,
  ],
  [
    "an upgrade to HTTP/2",
    `GET /v1/jobs/x HTTP/1.1\r\n${HOST}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n`,
  ],
  ["CONNECT", "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n"],
  ["OPTIONS *", `OPTIONS * HTTP/1.1\r\n${HOST}\r\n`],
  ["an absolute target", get("http://other.example/v1/jobs/x")],
  ["an absolute target of another scheme", get("ftp://other.example/v1/jobs/x")],
  ["a target that is a host", get("//other.example/v1/jobs/x")],
  ["a body on a GET", `GET /v1/jobs/x HTTP/1.1\r\n${HOST}Content-Length: 5\r\n\r\nhello`],
  ["HTTP/1.0", `GET /v1/jobs/x HTTP/1.0\r\n\r\n`],
]

const refused = rows(
  raw,
  ([name, , code]) => `${name}${code === undefined ? " ends cleanly" : ` is ${code}`}`,
  async (api, [, bytes, code]) => {
    const text = typeof bytes === "string" ? bytes : await bytes(api)
    const answers = await sendBytes(api, text, code === undefined ? 0 : 1)
    for (const answer of answers) expect(answer.status).toBeLessThan(500)
    if (code !== undefined) expect(answers[0]?.code).toBe(code)
  },
)

/** Which of the doubtful ones could have made a job, and must not have: two readers could disagree about them. */
const smuggling: ReadonlyArray<readonly [name: string, lines: ReadonlyArray<string>, body: string]> = [
  ["a length and a coding", ["Content-Length: 13", "Transfer-Encoding: chunked"], `d\r\n${valid}\r\n0\r\n\r\n`],
  ["a coding and a length", ["Transfer-Encoding: chunked", "Content-Length: 13"], `d\r\n${valid}\r\n0\r\n\r\n`],
  ["two lengths", ["Content-Length: 13", "Content-Length: 5"], valid],
  ["a coding that is not chunked", ["Transfer-Encoding: identity", "Content-Length: 13"], valid],
]

const smuggled = rows(
  smuggling,
  ([name]) => `${name}: refused, and nothing behind it is read as a request`,
  async (api, [, lines, body]) => {
    const head = await post(api, ...lines)
    const answers = await sendBytes(api, `${head}${body}${get("/healthz")}`, 0)
    expect(answers.map(({ status }) => status).filter((status) => status < 400)).toEqual([])
  },
)

const pipelined = row("requests sent in one go are answered one by one, in order", async (api) => {
  const answers = await sendBytes(api, `${get("/nowhere")}${get("/healthz")}${get("/v1/jobs/x")}`, 3)
  expect(answers.map((answer) => answer.code ?? answer.status)).toEqual(["not_found", 200, "missing_api_key"])
  expect(new Set(answers.map((answer) => answer.header("x-request-id"))).size).toBe(3)
})

const keptAlive = row("a refusal does not spoil the connection for the next request", async (api) => {
  const connection = await api.connect()
  const call = { method: "POST", path: "/v1/audio/speech", body: "{", key: await api.key() }
  for (const [body, outcome] of [
    ["{", "invalid_json"],
    ["{}", "invalid_request"],
    [valid, undefined],
  ] as const) {
    const answer = await api.answerOn(connection.send(requestBytes(await api.request({ ...call, body }))), "POST")
    expect(answer.code).toBe(outcome)
  }
  connection.destroy()
})

/** Refusals that come before the body is looked at, and a body that looks like a request. */
const unread: ReadonlyArray<readonly [name: string, call: (api: Api) => Promise<Call>]> = [
  ["413", () => Promise.resolve({ method: "POST", path: "/v1/audio/speech", body: get("/healthz").repeat(2_000) })],
  [
    "415",
    () =>
      Promise.resolve({
        method: "POST",
        path: "/v1/audio/speech",
        body: get("/healthz"),
        headers: { "content-type": "text/plain" },
      }),
  ],
  ["401", () => Promise.resolve({ method: "POST", path: "/v1/audio/speech", body: get("/healthz"), key: null })],
  ["404", () => Promise.resolve({ method: "POST", path: "/elsewhere", body: get("/healthz") })],
  ["405", () => Promise.resolve({ method: "DELETE", path: "/v1/audio/speech", body: get("/healthz") })],
  ["403 of a PUT", async (api) => putCall(`${(await api.upload()).upload_url}x`, Buffer.from(get("/healthz")))],
  [
    "415 of a PUT",
    async (api) =>
      putCall((await api.upload()).upload_url, Buffer.from(get("/healthz")), { "content-type": "text/plain" }),
  ],
  ["422 of a PUT", async (api) => putCall((await api.upload()).upload_url, Buffer.from(get("/healthz")))],
]

const desynchronized = rows(
  unread,
  ([name]) => `a body refused with ${name} is never read as the next request`,
  async (api, [, makeCall]) => {
    const request = await api.request(await makeCall(api))
    const connection = await api.connect()
    const refused = await api.answerOn(connection.send(requestBytes(request)), request.method)
    expect(refused.status).toBeGreaterThanOrEqual(400)
    // Either the connection has ended, or it continues with the real next request.
    const wire = await connection
      .send(get("/really-next"))
      .read("GET")
      .catch(() => undefined)
    connection.destroy()
    const next = wire && api.check(new Answer(wire), "GET")
    expect(["not_found", "closed"]).toContain(next === undefined ? "closed" : (next.code ?? next.status))
  },
)

const trailers = row("trailers are nothing to us", async (api) => {
  const head = await post(api, "Transfer-Encoding: chunked", "Trailer: Authorization")
  const answers = await sendBytes(api, `${head}${chunk(valid).toString()}0\r\nAuthorization: Bearer x\r\n\r\n`, 1)
  expect(answers.map(({ status }) => status)).toEqual([202])
})

const still = row("after all that the service answers", async (api) => {
  expect((await api.get("/healthz", { key: null })).status).toBe(200)
  expect((await api.job("/v1/audio/speech", { input: "x" })).answer.status).toBe(202)
})

export const malformedHttp = table(
  "malformed HTTP",
  refused,
  smuggled,
  pipelined,
  keptAlive,
  desynchronized,
  trailers,
  still,
)
