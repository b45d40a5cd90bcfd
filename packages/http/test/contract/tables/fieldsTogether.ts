import { expect } from "vitest"
import { row, rows, table } from "../support/tables.ts"
import { endpoints, type EndpointName, expectAccepted, expectProblems } from "../support/requests.ts"

/** Several problems in one request, and fields no request has. */

const voice = { param: "voice", reason: "enum", allowed: ["alloy", "echo", "fable", "nova", "onyx", "shimmer"] }
const unknown = (param: string) => ({ param, reason: "unknown_field" })
const required = (param: string) => ({ param, reason: "required" })
const type = (param: string) => ({ param, reason: "type" })

const together = rows<
  readonly [EndpointName, string, ReadonlyArray<{ param: string; reason: string; [bound: string]: unknown }>]
>(
  [
    ["uploads", "{}", [required("format"), required("declared_seconds")]],
    [
      "uploads",
      '{"declared_seconds":901,"format":1}',
      [type("format"), { param: "declared_seconds", reason: "max", max: 900 }],
    ],
    ["uploads", '{"zzz":1,"declared_seconds":null}', [required("format"), type("declared_seconds"), unknown("zzz")]],
    ["transcriptions", "{}", [required("upload_id")]],
    ["transcriptions", '{"voice":"alloy","upload_id":7}', [type("upload_id"), unknown("voice")]],
    ["speech", '{"voice":"nobody"}', [required("input"), voice]],
    [
      "speech",
      '{"extra":1,"voice":"nobody","input":""}',
      [{ param: "input", reason: "empty" }, voice, unknown("extra")],
    ],
    ["speech", '{"extra":1,"input":"x"}', [unknown("extra")]],
    ["turns", "{}", [required("upload_id"), required("max_output_tokens")]],
    [
      "turns",
      '{"voice":3,"instructions":"","max_output_tokens":0,"upload_id":null,"x":0}',
      [
        type("upload_id"),
        { param: "max_output_tokens", reason: "min", min: 1 },
        { param: "instructions", reason: "empty" },
        type("voice"),
        unknown("x"),
      ],
    ],
    [
      "turns",
      '{"voice":"nobody","max_output_tokens":1025}',
      [required("upload_id"), { param: "max_output_tokens", reason: "max", max: 1024 }, voice],
    ],
    ["images", '{"model":"dall-e"}', [required("prompt"), { param: "model", reason: "enum", allowed: ["svc-image"] }]],
    ["images", '{"size":"512x512","prompt":null}', [type("prompt"), unknown("size")]],
  ],
  ([endpoint, text]) => `${endpoint} ${text} names every problem in the order of the table, unknown fields last`,
  async (api, [endpoint, text, problems]) =>
    expectProblems(await api.send({ method: "POST", path: endpoints[endpoint].path, body: text }), problems),
)

const names = [
  "status",
  "mode",
  "n",
  "size",
  "quality",
  "format ",
  "response_format",
  "id",
  "type",
  "object",
  "project_id",
  "key_id",
  "idempotency_key",
  "stream",
  "language",
  "INPUT",
  "Input",
  " input",
  "",
  "0",
  "__proto__",
  "constructor",
  "prototype",
  "hasOwnProperty",
  "toString",
  "é",
  "😀",
  "a.b",
  "a[0]",
  "a\u0000b",
]

const unknownFields = (Object.keys(endpoints) as ReadonlyArray<EndpointName>).flatMap((endpoint) =>
  rows(
    names,
    (name) => `${endpoint} refuses the field ${JSON.stringify(name)}`,
    async (api, name) => {
      const valid = JSON.stringify(endpoints[endpoint].valid)
      const body = `${valid.slice(0, -1)},${JSON.stringify(name)}:{"a":1}}`
      expectProblems(await api.send({ method: "POST", path: endpoints[endpoint].path, body }), [unknown(name)])
    },
  ),
)

const camelCase = rows<readonly [EndpointName, string, string]>(
  [
    ["uploads", "declared_seconds", "declaredSeconds"],
    ["transcriptions", "upload_id", "uploadId"],
    ["turns", "upload_id", "uploadId"],
    ["turns", "max_output_tokens", "maxOutputTokens"],
  ],
  ([endpoint, , camel]) => `${endpoint} does not know ${camel}`,
  async (api, [endpoint, field, camel]) => {
    const { [field]: value, ...rest } = endpoints[endpoint].valid as Record<string, unknown>
    const answer = await api.post(endpoints[endpoint].path, { ...rest, [camel]: value })
    expectProblems(answer, [required(field), unknown(camel)])
    // Both spellings: the right one does not excuse the other.
    expectProblems(await api.post(endpoints[endpoint].path, { ...rest, [field]: value, [camel]: value }), [
      unknown(camel),
    ])
  },
)

const canary = "canary-7f3a-5516"
const echoes = rows<readonly [EndpointName, Record<string, unknown>]>(
  [
    ["uploads", { format: canary, declared_seconds: canary }],
    ["transcriptions", { upload_id: canary }],
    ["transcriptions", { upload_id: [canary] }],
    ["speech", { input: { a: canary }, voice: canary }],
    ["turns", { upload_id: 4, max_output_tokens: canary, instructions: `${canary}\u0000`, voice: canary }],
    ["images", { prompt: canary.repeat(300), model: canary, size: canary }],
  ],
  ([endpoint, body]) => `${endpoint} never echoes a value: ${Object.keys(body).join(", ")}`,
  async (api, [endpoint, body]) => {
    const answer = await api.post(endpoints[endpoint].path, body)
    expect(answer.status).toBe(400)
    expect(`${answer.text}${JSON.stringify(answer.wire.headers)}`).not.toContain(canary)
  },
)

const extremes = [
  row("a field twice as far nested as allowed elsewhere is still one unknown field", async (api) => {
    expectProblems(await api.post("/v1/audio/speech", { input: "x", deep: { a: [{ b: [] }] } }), [unknown("deep")])
  }),
  row("a field whose name is not valid Unicode is another unknown field", async (api) => {
    const answer = await api.send({
      method: "POST",
      path: "/v1/audio/speech",
      body: String.raw`{"input":"x","a\ud800":1}`,
    })
    expect(answer.code).toBe("invalid_request")
    // However its name is written down, the answer is Unicode.
    expect(Buffer.from(answer.text).equals(answer.wire.body)).toBe(true)
    expect(answer.error.details?.errors).toMatchObject([{ reason: "unknown_field" }])
  }),
  row("five thousand unknown fields are refused like one", async (api) => {
    const body = Object.fromEntries(Array.from({ length: 5_000 }, (_, n) => [`f${n}`, 0]))
    const answer = await api.post("/v1/audio/speech", { ...body, input: "x" })
    expect(answer.error).toMatchObject({ code: "invalid_request", param: "f0" })
  }),
  row("an own __proto__ adds no fields", async (api) => {
    const answer = await api.send({ method: "POST", path: "/v1/audio/speech", body: '{"__proto__":{"input":"x"}}' })
    expectProblems(answer, [required("input"), unknown("__proto__")])
  }),
  row("optional fields may all be sent", async (api) => {
    const body = {
      upload_id: endpoints.turns.valid.upload_id,
      max_output_tokens: 1,
      instructions: "Be brief",
      voice: "nova",
    }
    expectAccepted(await api.post(endpoints.turns.path, body), "turns")
    expectAccepted(await api.post(endpoints.images.path, { prompt: "x", model: "svc-image" }), "images")
    expectAccepted(await api.post(endpoints.speech.path, { input: "x", voice: "shimmer" }), "speech")
  }),
]

export const fieldsTogether = table("fields together", together, unknownFields, camelCase, echoes, extremes)
