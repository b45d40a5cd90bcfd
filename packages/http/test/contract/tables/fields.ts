import { expect } from "vitest"
import type { Api } from "../support/Api.ts"
import {
  type EndpointName,
  endpoints,
  expectAccepted,
  expectProblems,
  type Problem,
  unknownUpload,
} from "../support/requests.ts"
import { type Row, row, rows, table } from "../support/tables.ts"

/** The field rules: every field × every way to break its rule. A request is written as its JSON text. */

const voices = ["alloy", "echo", "fable", "nova", "onyx", "shimmer"]

/** A valid request with one field replaced (by JSON text), or taken away. */
const withField = (endpoint: EndpointName, field: string, text: string | undefined): string => {
  const members = Object.entries(endpoints[endpoint].valid)
    .filter(([name]) => name !== field)
    .map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`)
  return `{${[...members, ...(text === undefined ? [] : [`${JSON.stringify(field)}:${text}`])].join(",")}}`
}

interface FieldCase {
  readonly endpoint: EndpointName
  readonly field: string
  /** JSON text; `undefined` leaves the field out. */
  readonly text: string | undefined
  readonly name: string
  /** `undefined`: the request is accepted. */
  readonly problem?: Problem | undefined
}

const fieldRow = ({ endpoint, field, name, problem, text }: FieldCase): Row =>
  row(`${endpoint}: ${field} ${name} is ${problem === undefined ? "accepted" : problem.reason}`, async (api) => {
    const answer = await api.send({
      method: "POST",
      path: endpoints[endpoint].path,
      body: withField(endpoint, field, text),
    })
    if (problem === undefined) expectAccepted(answer, endpoint)
    else expectProblems(answer, [{ param: field, ...problem }])
  })

const required = { reason: "required" }
const type = { reason: "type" }
const characters = { reason: "characters" }
const empty = { reason: "empty" }

const cases = (
  endpoint: EndpointName,
  field: string,
  list: ReadonlyArray<readonly [text: string | undefined, name: string, problem?: Problem | undefined]>,
) => list.map(([text, name, problem]) => fieldRow({ endpoint, field, text, name, problem }))

/** What every field that is a string refuses. */
const noString = (endpoint: EndpointName, field: string) =>
  cases(endpoint, field, [
    ["null", "null", type],
    ["5", "a number", type],
    ["true", "a boolean", type],
    ["[]", "a list", type],
    ['["wav"]', "a list of strings", type],
    ["{}", "an object", type],
    ['{"__proto__":"wav"}', "an object with __proto__", type],
  ])

/** Texts of exactly `length` code points, in writing systems that count differently elsewhere. */
const texts = (length: number): ReadonlyArray<readonly [string, string]> => [
  ["a".repeat(length), "ASCII"],
  ["é".repeat(length), "2-byte"],
  ["😀".repeat(length), "astral"],
  ["e\u0301".repeat(length / 2) + "e".repeat(length % 2), "combining"],
  ["👨\u200d👩\u200d👧".repeat(length / 5) + "x".repeat(length % 5), "joined"],
]

const textRules = (endpoint: EndpointName, field: string, max: number, isRequired: boolean): ReadonlyArray<Row> => [
  ...cases(endpoint, field, [
    [undefined, "missing", isRequired ? required : undefined],
    ['""', "empty", empty],
    ['" "', "a space", empty],
    [String.raw`" \t\r\n"`, "white space", empty],
    [String.raw`"\u3000\u00a0"`, "wide white space", empty],
    ['"x"', "1 long", undefined],
    ['"  x  "', "padded with spaces", undefined],
    [String.raw`"a\u0000b"`, "with U+0000", characters],
    [String.raw`"a\ud800b"`, "with a lone high surrogate", characters],
    [String.raw`"a\udc00"`, "with a lone low surrogate", characters],
    [String.raw`"\udc00\ud800"`, "with a swapped pair", characters],
    [String.raw`"\ud83d\ude00"`, "with an escaped pair", undefined],
    ['"__proto__"', "__proto__", undefined],
    [
      JSON.stringify(" ".repeat(max) + "x"),
      "longer than its limit before trimming",
      { reason: "max_length", max_length: max },
    ],
    [JSON.stringify(`${" ".repeat(max - 1)}x`), "as long as its limit before trimming", undefined],
  ]),
  ...[max - 1, max, max + 1].flatMap((length) =>
    cases(
      endpoint,
      field,
      texts(length).map(
        ([text, name]) =>
          [
            JSON.stringify(text),
            `${length} long (${name})`,
            length > max ? { reason: "max_length", max_length: max } : undefined,
          ] as const,
      ),
    ),
  ),
  ...noString(endpoint, field),
]

const enumRules = (
  endpoint: EndpointName,
  field: string,
  allowed: ReadonlyArray<string>,
  isRequired: boolean,
): ReadonlyArray<Row> => {
  const refused = { reason: "enum", allowed }
  const wrong = [
    "",
    " ",
    "unheard-of",
    `${allowed[0]} `,
    allowed[0]?.toUpperCase() ?? "",
    "__proto__",
    "constructor",
    "toString",
    "a".repeat(4096),
  ]
  return [
    ...cases(endpoint, field, [[undefined, "missing", isRequired ? required : undefined]]),
    ...cases(
      endpoint,
      field,
      allowed.map((value) => [JSON.stringify(value), value, undefined] as const),
    ),
    ...cases(
      endpoint,
      field,
      wrong.map((value) => [JSON.stringify(value), JSON.stringify(value.slice(0, 20)), refused] as const),
    ),
    ...noString(endpoint, field),
  ]
}

const uploadIdRules = (endpoint: EndpointName): ReadonlyArray<Row> => {
  const strange = [
    "",
    " ",
    "x",
    "upl_",
    `${unknownUpload} `,
    unknownUpload.toUpperCase(),
    "../x",
    "__proto__",
    "constructor",
    "job_00000000000000000000000000",
    "é😀",
    "a".repeat(4096),
  ]
  return [
    ...cases(endpoint, "upload_id", [[undefined, "missing", required]]),
    ...noString(endpoint, "upload_id"),
    ...rows(
      strange,
      (id) => `${endpoint}: upload_id ${JSON.stringify(id.slice(0, 30))} is answered like an unknown one`,
      async (api, id) => {
        const send = (text: string) =>
          api.send({ method: "POST", path: endpoints[endpoint].path, body: withField(endpoint, "upload_id", text) })
        const answer = await send(JSON.stringify(id))
        expect(answer.error).toMatchObject({ code: "upload_not_found", param: "upload_id" })
        expect(answer.comparable).toBe((await send(JSON.stringify(unknownUpload))).comparable)
      },
    ),
  ]
}

const noNumber = (endpoint: EndpointName, field: string) =>
  cases(endpoint, field, [
    [undefined, "missing", required],
    ["null", "null", type],
    ['"5"', "a string", type],
    ['""', "an empty string", type],
    ["true", "a boolean", type],
    ["[5]", "a list", type],
    ["{}", "an object", type],
  ])

const tokens = (min: string) => ({ reason: "min", min: Number(min) })
const numbers = [
  ...noNumber("uploads", "declared_seconds"),
  ...cases("uploads", "declared_seconds", [
    ["5e-324", "just above 0"],
    ["0.1", "0.1"],
    ["1.0", "1.0"],
    ["1e2", "1e2"],
    ["899.999", "a fraction"],
    ["900", "900"],
    ["9.0e2", "9.0e2"],
    ["900.0000001", "a little over 900", { reason: "max", max: 900 }],
    ["901", "901", { reason: "max", max: 900 }],
    ["1e308", "1e308", { reason: "max", max: 900 }],
  ]),
  ...rows(
    ["0", "0.0", "-0", "-0.0001", "-1", "1e-400"],
    (text) => `uploads: declared_seconds ${text} is min`,
    async (api, text) => {
      const answer = await api.send({
        method: "POST",
        path: "/v1/audio/uploads",
        body: withField("uploads", "declared_seconds", text),
      })
      // The bound is exclusive; the contract does not say what such a bound is called.
      expect(answer.error).toMatchObject({
        code: "invalid_request",
        param: "declared_seconds",
        details: { errors: [{ param: "declared_seconds", reason: "min" }] },
      })
    },
  ),
  ...noNumber("turns", "max_output_tokens"),
  ...cases("turns", "max_output_tokens", [
    ["1", "1"],
    ["1.0", "1.0"],
    ["1e2", "1e2"],
    ["1024", "1,024"],
    ["1023", "1,023"],
    ["0", "0", tokens("1")],
    ["-0", "-0", tokens("1")],
    ["-1", "-1", tokens("1")],
    ["1025", "1,025", { reason: "max", max: 1024 }],
    ["9007199254740993", "past 2^53", { reason: "max", max: 1024 }],
    ["1.5", "1.5", type],
    ["0.5", "0.5", type],
    ["1024.5", "1,024.5", type],
  ]),
]

const infinite = rows(
  [
    ["uploads", "declared_seconds"],
    ["turns", "max_output_tokens"],
  ] as const,
  ([endpoint, field]) => `${endpoint}: ${field} 1e999 is refused`,
  async (api: Api, [endpoint, field]) => {
    const answer = await api.send({
      method: "POST",
      path: endpoints[endpoint].path,
      body: withField(endpoint, field, "1e999"),
    })
    expect(["invalid_json", "invalid_request"]).toContain(answer.code)
  },
)

export const fields = table(
  "fields",
  enumRules("uploads", "format", ["mp3", "mp4", "wav", "webm", "m4a"], true),
  numbers,
  infinite,
  uploadIdRules("transcriptions"),
  uploadIdRules("turns"),
  textRules("speech", "input", 4096, true),
  enumRules("speech", "voice", voices, false),
  textRules("turns", "instructions", 4096, false),
  enumRules("turns", "voice", voices, false),
  textRules("images", "prompt", 4000, true),
  enumRules("images", "model", ["svc-image"], false),
)
