import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { startServer, type TestServer } from "../server/startServer.ts"
import { wav } from "../openai/support.ts"
import { noRateLimits } from "./support/Service.ts"

// Mistakes that people make. Many clients show the message alone, so it has to say what to change.

let server: TestServer
let openAiServer: TestServer
let openAiKey: string
let test: string
let imagesOnly: string
let live: string
beforeAll(async () => {
  server = await startServer({ http: { rateLimits: noRateLimits } })
  openAiServer = await startServer({ http: { rateLimits: noRateLimits, openAi: { waitMs: 100 } } })
  openAiKey = (await openAiServer.createKey()).secret
  test = (await server.createKey()).secret
  imagesOnly = (await server.createKey({ scopes: ["images.create"] })).secret
  live = (await server.createKey({ mode: "live" })).secret
})
afterAll(async () => {
  await server.stop()
  await openAiServer.stop()
})

type Headers = Readonly<Record<string, string>>
interface Asked {
  readonly headers?: Headers
  readonly body?: string | Uint8Array<ArrayBuffer> | FormData | object | undefined
}

const ask = async (method: string, path: string, { body, headers = {} }: Asked = {}): Promise<Response> => {
  const isPlain = typeof body === "object" && !(body instanceof Uint8Array) && !(body instanceof FormData)
  return fetch(path.startsWith("http") ? path : server.url + path, {
    method,
    headers: {
      authorization: `Bearer ${test}`,
      "idempotency-key": crypto.randomUUID(),
      ...(isPlain && { "content-type": "application/json" }),
      ...headers,
    },
    ...(body !== undefined && { body: isPlain ? JSON.stringify(body) : (body as string) }),
  })
}
const speech = "/v1/audio/speech"
const say = (body: Asked["body"], headers: Headers = {}) => ask("POST", speech, { body, headers })
const sayAs = (authorization: string) => say({ input: "x" }, { authorization })
const typed = (body: string) => say(body, { "content-type": "application/json" })
const announce = (body: object) => ask("POST", "/v1/audio/uploads", { body })
const upload = async (format = "wav") => (await announce({ format, declared_seconds: 3 })).json()
const put = async (body: Asked["body"], type = "audio/wav", change = (url: string) => url, format = "wav") =>
  ask("PUT", change((await upload(format)).upload_url), { body: body ?? "", headers: { "content-type": type } })
const text = (content: string) => new TextEncoder().encode(content)
const turn = (body: object) =>
  ask("POST", "/v1/voice/turns", { body: { upload_id: "upl_x", max_output_tokens: 5, ...body } })
const draw = (body: object, headers: Headers = {}) =>
  ask("POST", "/v1/images/generations", { body: { prompt: "x", ...body }, headers })
const openAi = (method: string, path: string, body?: object) =>
  ask(method, openAiServer.url + path, { body, headers: { authorization: `Bearer ${openAiKey}` } })
const form = () => {
  const data = new FormData()
  data.set("file", new File([new Uint8Array(wav())], "a.wav"))
  return data
}

type Mistake = readonly [mistake: string, make: () => Promise<Response>, answer: string, ...says: RegExp[]]

const mistakes: ReadonlyArray<Mistake> = [
  ["no key", () => fetch(server.url + speech, { method: "POST" }), "401 missing_api_key", /Authorization: Bearer/],
  [
    "the key in another header",
    () => fetch(server.url + speech, { method: "POST", headers: { "x-api-key": test } }),
    "401 missing_api_key",
    /Authorization: Bearer/,
  ],
  ["the key without a scheme", () => sayAs(test), "401 invalid_api_key", /Authorization: Bearer kiln_test_/],
  ["another scheme", () => sayAs(`Token ${test}`), "401 invalid_api_key", /Authorization: Bearer kiln_test_/],
  ["basic authentication", () => sayAs(`Basic ${btoa(`${test}:`)}`), "401 invalid_api_key", /Bearer kiln_test_/],
  ["quotes around the key", () => sayAs(`Bearer "${test}"`), "401 invalid_api_key", /quotes/],
  ["a variable in single quotes", () => sayAs("Bearer $KILN_API_KEY"), "401 invalid_api_key", /variable/],
  ["a template that is not expanded", () => sayAs("Bearer {{kiln_key}}"), "401 invalid_api_key", /variable/],
  ["a variable that is not set", () => sayAs("Bearer undefined"), "401 invalid_api_key", /variable/],
  ["an empty key", () => sayAs("Bearer "), "401 invalid_api_key", /Bearer kiln_test_/],
  ["a key that was cut off", () => sayAs(`Bearer ${test.slice(0, -3)}`), "401 invalid_api_key", /complete/],
  ["a key of another service", () => sayAs("Bearer sk-proj-abc"), "401 invalid_api_key", /kiln_test_/],
  ["two keys", () => sayAs(`Bearer ${test}, Bearer ${test}`), "401 invalid_api_key", /once/],
  [
    "a key without the scope",
    () => say({ input: "x" }, { authorization: `Bearer ${imagesOnly}` }),
    "403 insufficient_scope",
    /audio\.create/,
  ],
  [
    "a live key before anything is activated",
    () => say({ input: "x" }, { authorization: `Bearer ${live}` }),
    "403 live_not_active",
    /price:svc-audio/,
    /switch:ai/,
  ],

  ["no /v1", () => ask("POST", "/audio/speech", { body: { input: "x" } }), "404 not_found", /\/v1\/audio\/speech/],
  [
    "/v1 twice",
    () => ask("POST", "/v1/v1/audio/speech", { body: { input: "x" } }),
    "404 not_found",
    /\/v1\/audio\/speech/,
  ],
  [
    "a prefix that is not there",
    () => ask("POST", "/api/v1/audio/speech", { body: {} }),
    "404 not_found",
    /\/v1\/audio\/speech/,
  ],
  [
    "a slash at the end",
    () => ask("POST", `${speech}/`, { body: { input: "x" } }),
    "404 not_found",
    /\/v1\/audio\/speech/,
  ],
  ["two slashes", () => ask("POST", `/${speech}`, { body: { input: "x" } }), "404 not_found", /\/v1\/audio\/speech/],
  ["capital letters", () => ask("POST", "/V1/Audio/Speech", { body: {} }), "404 not_found", /\/v1\/audio\/speech/],
  [
    "singular for plural",
    () => ask("POST", "/v1/audio/transcription", { body: {} }),
    "404 not_found",
    /\/v1\/audio\/transcriptions/,
  ],
  ["a job under another name", () => ask("GET", "/v1/job/job_1"), "404 not_found", /\/v1\/jobs\/\{id\}/],
  ["a list of jobs", () => ask("GET", "/v1/jobs"), "404 not_found", /\/docs/],
  [
    "an endpoint of another service",
    () => ask("POST", "/v1/chat/completions", { body: {} }),
    "404 not_found",
    /\/docs/,
  ],
  ["OpenAI's API, which is off", () => ask("GET", "/openai/v1/models"), "404 not_found", /KILN_OPENAI_API=on/],
  [
    "OpenAI's API without /v1",
    () => openAi("POST", "/openai/audio/speech", {}),
    "404 not_found",
    /\/openai\/v1\/audio\/speech/,
  ],
  ["OpenAI's API at the root", () => openAi("GET", "/v1/models"), "404 not_found", /\/openai\/v1\/models/],
  [
    "an endpoint of OpenAI that there is not",
    () => openAi("POST", "/openai/v1/chat/completions", {}),
    "404 not_found",
    /has .*\/openai\/v1\/audio\/speech, .*\/openai\/v1\/models/,
    /\/docs/,
  ],
  [
    "a client of OpenAI with the address of the service alone",
    () => openAi("POST", "/audio/speech", {}),
    "404 not_found",
    /base URL \/openai\/v1\./,
  ],
  ["GET where POST creates", () => ask("GET", speech), "405 method_not_allowed", /POST/],
  ["DELETE of a job", () => ask("DELETE", "/v1/jobs/job_1"), "405 method_not_allowed", /GET/],
  [
    "POST of a file",
    async () => ask("POST", (await upload()).upload_url, { body: "x" }),
    "405 method_not_allowed",
    /PUT/,
  ],
  [
    "an image job at the path of audio jobs",
    async () => ask("GET", `/v1/jobs/${(await (await draw({})).json()).id}`),
    "404 job_not_found",
    /\/v1\/images\/jobs/,
  ],
  ["a job of another key", () => ask("GET", "/v1/jobs/job_1"), "404 job_not_found", /key that created/],

  ["no content type", () => say('{"input":"x"}'), "415 unsupported_content_type", /Content-Type: application\/json/],
  [
    "curl -d without a header",
    () => say('{"input":"x"}', { "content-type": "application/x-www-form-urlencoded" }),
    "415 unsupported_content_type",
    /Content-Type: application\/json/,
  ],
  [
    "a form with the file",
    () => ask("POST", "/v1/audio/transcriptions", { body: form() }),
    "415 unsupported_content_type",
    /\/v1\/audio\/uploads/,
  ],
  [
    "JSON where OpenAI's API has a form",
    () => openAi("POST", "/openai/v1/audio/transcriptions", { file: "a.wav" }),
    "415 unsupported_content_type",
    /multipart\/form-data/,
  ],
  [
    "another charset",
    () => say('{"input":"x"}', { "content-type": "application/json; charset=latin1" }),
    "415 unsupported_content_type",
    /UTF-8/,
  ],
  [
    "a compressed body",
    () => say('{"input":"x"}', { "content-type": "application/json", "content-encoding": "gzip" }),
    "415 unsupported_content_type",
    /Content-Encoding/,
  ],

  ["single quotes", () => typed("{'input': 'x'}"), "400 invalid_json", /line 1, column 2/],
  ["a comma at the end", () => typed('{\n  "input": "x",\n}'), "400 invalid_json", /line 3, column 1/],
  ["names without quotes", () => typed('{input: "x"}'), "400 invalid_json", /line 1, column 2/],
  ["a body that was cut off", () => typed('{"input": "x"'), "400 invalid_json", /ends/],
  ["a line break in a string", () => typed('{"input": "a\nb"}'), "400 invalid_json", /line 1, column 13/],
  ["an undefined value", () => typed('{"input": undefined}'), "400 invalid_json", /line 1, column 11/],
  ["text after the object", () => typed('{"input": "x"}}'), "400 invalid_json", /line 1, column 15/],
  ["an empty body", () => typed(""), "400 invalid_json", /empty/],
  ["a list", () => typed('[{"input": "x"}]'), "400 invalid_json", /object/],
  ["a body encoded twice", () => typed(JSON.stringify('{"input": "x"}')), "400 invalid_json", /object/],
  ["a name twice", () => typed('{"input": "x", "input": "y"}'), "400 invalid_json", /duplicate key/],

  [
    "no idempotency key",
    () =>
      fetch(server.url + speech, {
        method: "POST",
        headers: { authorization: `Bearer ${test}`, "content-type": "application/json" },
        body: "{}",
      }),
    "400 idempotency_key_missing",
    /Idempotency-Key/,
  ],
  [
    "an idempotency key with spaces",
    () => say({ input: "x" }, { "idempotency-key": "order 17" }),
    "400 idempotency_key_invalid",
    /spaces/,
  ],
  [
    "one idempotency key for two requests",
    async () => {
      await say({ input: "x" }, { "idempotency-key": "one" })
      return say({ input: "y" }, { "idempotency-key": "one" })
    },
    "422 idempotency_key_reused",
    /new key/,
  ],

  ["another name for a field", () => say({ text: "x" }), "400 invalid_request", /input/],
  [
    "a misspelled field",
    () => say({ input: "x", voise: "nova" }),
    "400 invalid_request",
    /"voise"/,
    /did you mean "voice"/,
  ],
  ["camelCase", () => turn({ maxOutputTokens: 5 }), "400 invalid_request", /did you mean "max_output_tokens"/],
  ["capitals", () => say({ input: "x", Voice: "nova" }), "400 invalid_request", /did you mean "voice"/],
  ["a field that there is not", () => draw({ size: "512x512" }), "400 invalid_request", /"size"/, /prompt, model/],
  ["a number as text", () => turn({ max_output_tokens: "5" }), "400 invalid_request", /max_output_tokens must be/],
  ["a number that is too large", () => turn({ max_output_tokens: 5_000 }), "400 invalid_request", /1024/],
  ["an empty text", () => say({ input: " " }), "400 invalid_request", /input/],
  ["a text that is too long", () => say({ input: "x".repeat(5_000) }), "400 invalid_request", /4096/],
  ["an unknown voice", () => say({ input: "x", voice: "nobody" }), "400 invalid_request", /alloy, echo, fable/],
  ["a model of another service", () => draw({ model: "dall-e-3" }), "400 invalid_request", /svc-image/],
  [
    "a media type as format",
    () => announce({ format: "audio/wav", declared_seconds: 1 }),
    "400 invalid_request",
    /mp3, mp4, wav/,
  ],
  ["no length", () => announce({ format: "wav" }), "400 invalid_request", /declared_seconds is required/],
  ["milliseconds", () => announce({ format: "wav", declared_seconds: 4_100 }), "400 invalid_request", /900/],
  [
    "a field of OpenAI that is not served",
    () => openAi("POST", "/openai/v1/audio/speech", { input: "x", voice: "nova", model: "tts-1", speed: 2 }),
    "400 invalid_request",
    /speed must be 1, or left out/,
  ],
  [
    "a misspelled field of OpenAI",
    () => openAi("POST", "/openai/v1/images/generations", { promt: "x" }),
    "400 invalid_request",
    /did you mean "prompt"/,
  ],
  ["null", () => say({ input: "x", voice: null }), "400 invalid_request", /voice must be/],

  ["an upload that is not there", () => turn({ upload_id: "upl_x" }), "400 upload_not_found", /\/v1\/audio\/uploads/],
  ["a job before its file", async () => turn({ upload_id: (await upload()).id }), "409 upload_not_ready", /upload_url/],
  [
    "one file for two jobs",
    async () => {
      const { id, upload_url } = await upload()
      await ask("PUT", upload_url, { body: new Uint8Array(wav()), headers: { "content-type": "audio/wav" } })
      await turn({ upload_id: id })
      return turn({ upload_id: id })
    },
    "409 upload_already_used",
    /new upload/,
  ],

  ["a file as JSON", () => put("{}", "application/json"), "415 unsupported_content_type", /Content-Type: audio\/wav/],
  [
    "a file without a type",
    () => put(new Uint8Array(wav()), "application/octet-stream"),
    "415 unsupported_content_type",
    /audio\/wav/,
  ],
  [
    "a form as file",
    () => put("--x", "multipart/form-data; boundary=x"),
    "415 unsupported_content_type",
    /raw bytes/,
    /audio\/wav/,
  ],
  [
    "an error page as file",
    () => put(text("<!doctype html><p>Not found</p>".repeat(3))),
    "422 audio_format_mismatch",
    /looks like text/,
  ],
  ["a file in base64", () => put(text(wav().toString("base64"))), "422 audio_format_mismatch", /looks like text/],
  [
    "another format than declared",
    () => put(new Uint8Array(wav()), "audio/mpeg", undefined, "mp3"),
    "422 audio_format_mismatch",
    /declared as mp3/,
    /wav/,
  ],
  [
    "a format that is not accepted",
    () => put(text("OggS\0\u0002\0\0\0\0\0")),
    "422 audio_format_mismatch",
    /mp3, mp4, wav, webm, m4a/,
  ],
  ["an empty file", () => put(new Uint8Array(0)), "422 empty_file", /empty/],
  ["a file that is too large", () => put(new Uint8Array(26_214_401)), "413 file_too_large", /26214400/],
  [
    "a file that is sent twice",
    async () => {
      const { upload_url } = await upload()
      const send = () =>
        ask("PUT", upload_url, { body: new Uint8Array(wav()), headers: { "content-type": "audio/wav" } })
      await send()
      return send()
    },
    "409 upload_already_completed",
    /already arrived/,
  ],
  [
    "a URL that was changed",
    () => put(new Uint8Array(wav()), "audio/wav", (url) => url.replace(/&s=.*/, "")),
    "403 upload_url_invalid",
    /without changes/,
  ],
  [
    "data of a job that runs",
    async () => ask("DELETE", `/v1/jobs/${(await (await say({ input: "x" })).json()).id}/data`),
    "409 job_processing",
    /Poll/,
  ],
]

describe("the common mistakes", () => {
  it("are fifty at least", () => expect(mistakes.length).toBeGreaterThanOrEqual(50))

  for (const [mistake, make, answer, ...says] of mistakes)
    it(`${mistake}: the message says what to change`, async () => {
      const response = await make()
      const { code, message } = (await response.json()).error
      expect(`${response.status} ${code}`).toBe(answer)
      for (const words of says) expect(message).toMatch(words)
    })
})
