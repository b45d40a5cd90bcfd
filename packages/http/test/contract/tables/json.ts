import { expect } from "vitest"
import { row, rows, table } from "../support/tables.ts"
import { endpoints, type EndpointName } from "../support/requests.ts"

/** Texts that are not JSON objects, and odd-looking ones that are. */

const nested = (depth: number) => `{"input":"x","deep":${"[".repeat(depth - 1)}${"]".repeat(depth - 1)}}`
const nestedObjects = (depth: number) => `{"input":"x","deep":${'{"a":'.repeat(depth - 1)}1${"}".repeat(depth - 1)}}`

const utf16 = (text: string, order: "le" | "be"): Uint8Array => {
  const bytes = Buffer.from(`\ufeff${text}`, "utf16le")
  return order === "le" ? bytes : bytes.swap16()
}

const refused: ReadonlyArray<readonly [name: string, body: string | Uint8Array]> = [
  ["an empty body", ""],
  ["white space", " \r\n\t "],
  ["null", "null"],
  ["true", "true"],
  ["a number", "5"],
  ["a string", '"input"'],
  ["a list", "[]"],
  ["a list of an object", '[{"input":"x"}]'],
  ["a truncated object", '{"input":"x"'],
  ["a truncated string", '{"input":"x'],
  ["a lone brace", "{"],
  ["a trailing comma", '{"input":"x",}'],
  ["a comment", '{"input":"x"/* */}'],
  ["a line comment", '{"input":"x"}//'],
  ["single quotes", "{'input':'x'}"],
  ["a bare key", '{input:"x"}'],
  ["NaN", '{"input":NaN}'],
  ["Infinity", '{"input":Infinity}'],
  ["undefined", '{"input":undefined}'],
  ["a leading zero", '{"input":01}'],
  ["a leading plus", '{"input":+1}'],
  ["a bare fraction", '{"input":.5}'],
  ["an open fraction", '{"input":1.}'],
  ["hexadecimal", '{"input":0x10}'],
  ["two documents", '{"input":"x"}{"input":"y"}'],
  ["two lines of JSON", '{"input":"x"}\n{"input":"y"}'],
  ["text behind it", '{"input":"x"} x'],
  ["a raw line break in a string", '{"input":"a\nb"}'],
  ["a raw U+0000", '{"input":"a\u0000b"}'],
  ["U+0000 behind it", '{"input":"x"}\u0000'],
  ["a tab in a string", '{"input":"a\tb"}'],
  ["a bad escape", String.raw`{"input":"\x41"}`],
  ["a cut escape", String.raw`{"input":"\u12"}`],
  ["a form feed as white space", '\f{"input":"x"}'],
  ["a no-break space as white space", '\u00a0{"input":"x"}'],
  ["form fields", "input=x&voice=alloy"],
  ["XML", "<input>x</input>"],
  ["UTF-16 (little endian)", utf16('{"input":"x"}', "le")],
  ["UTF-16 (big endian)", utf16('{"input":"x"}', "be")],
  ["invalid UTF-8", Buffer.from('{"input":"\xff"}', "latin1")],
  ["latin1", Buffer.from('{"input":"\xe9"}', "latin1")],
  ["a cut UTF-8 sequence", Buffer.from('{"input":"\xe2\x82"}', "latin1")],
  ["overlong UTF-8", Buffer.from('{"input":"\xc0\xaf"}', "latin1")],
  ["a surrogate in UTF-8", Buffer.from('{"input":"\xed\xa0\x80"}', "latin1")],
  ["UTF-8 past U+10FFFF", Buffer.from('{"input":"\xf4\x90\x80\x80"}', "latin1")],
  ["two byte order marks", '\ufeff\ufeff{"input":"x"}'],
  ["a byte order mark alone", "\ufeff"],
  ["a duplicate key", '{"input":"a","input":"b"}'],
  ["a duplicate key with one value", '{"input":"a","input":"a"}'],
  ["a duplicate key spelled with an escape", String.raw`{"input":"a","\u0069nput":"b"}`],
  ["a duplicate unknown key", '{"input":"a","z":1,"z":2}'],
  ["a duplicate key in a nested object", '{"input":"a","z":{"b":1,"b":2}}'],
  ["a duplicate key in a list", '{"input":"a","z":[{"b":1,"b":2}]}'],
  ["a duplicate __proto__", '{"input":"a","__proto__":1,"__proto__":2}'],
  ["17 levels of lists", nested(17)],
  ["17 levels of objects", nestedObjects(17)],
  ["thousands of levels", nested(20_000)],
  ["thousands of open lists", `{"input":${"[".repeat(30_000)}`],
]

const syntax = rows(
  refused,
  ([name]) => `${name} is invalid_json`,
  async (api, [, body]) => {
    const answer = await api.send({ method: "POST", path: "/v1/audio/speech", body })
    expect({ status: answer.status, code: answer.code }, answer.text).toEqual({ status: 400, code: "invalid_json" })
  },
)

const everywhere = (Object.keys(endpoints) as ReadonlyArray<EndpointName>).flatMap((endpoint) =>
  rows(
    ["", "null", "[]", "{", '{"a":1,"a":2}', nested(17)],
    (body) => `${endpoint}: ${body.slice(0, 20) || "nothing"} is invalid_json`,
    async (api, body) => {
      expect((await api.send({ method: "POST", path: endpoints[endpoint].path, body })).code).toBe("invalid_json")
    },
  ),
)

const accepted: ReadonlyArray<readonly [name: string, body: string | Uint8Array]> = [
  ["a byte order mark", '\ufeff{"input":"x"}'],
  ["white space around", ' \r\n\t{ "input" :\n"x" } \n'],
  ["an escaped key", String.raw`{"\u0069nput":"x"}`],
  ["escapes", String.raw`{"input":"\"\\\/\b\f\n\r\t\u00e9"}`],
  ["braces, colons and quotes in a string", String.raw`{"input":"{\"a\":1,\"a\":2}[[[[[[[[[[[[[[[[[["}`],
  ["a backslash at the end", String.raw`{"input":"\\"}`],
  ["U+FFFF and U+10FFFF", '{"input":"\uffff\u{10ffff}"}'],
  ["U+2028", '{"input":"a\u2028b"}'],
]

const fine = rows(
  accepted,
  ([name]) => `${name} is fine`,
  async (api, [, body]) => {
    const answer = await api.send({ method: "POST", path: "/v1/audio/speech", body })
    expect(answer.status, answer.text).toBe(202)
  },
)

const depth = rows(
  [nested(16), nestedObjects(16), nested(2)],
  (body) => `${body.slice(20, 27)}… within 16 levels is a matter of fields`,
  async (api, body) => {
    const answer = await api.send({ method: "POST", path: "/v1/audio/speech", body })
    expect(answer.error).toMatchObject({ code: "invalid_request", param: "deep" })
  },
)

const noLength = row("no body at all is invalid_json", async (api) => {
  const headers = { "content-type": "application/json", "idempotency-key": "k", "content-length": null }
  expect((await api.send({ method: "POST", path: "/v1/audio/speech", headers })).code).toBe("invalid_json")
})

const canary = row("invalid JSON is not echoed", async (api) => {
  const answer = await api.send({
    method: "POST",
    path: "/v1/audio/speech",
    body: '{"input":"canary-8841" canary-8842',
  })
  expect(answer.code).toBe("invalid_json")
  expect(answer.text).not.toContain("canary")
})

export const json = table("JSON", syntax, everywhere, fine, depth, noLength, canary)
