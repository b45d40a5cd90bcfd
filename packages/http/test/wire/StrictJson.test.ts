import fc from "fast-check"
import { isDeepStrictEqual } from "node:util"
import { describe, expect, it } from "vitest"
import { parseJsonObject } from "../../src/server/body.ts"

const parseBytes = (bytes: Uint8Array) => parseJsonObject(bytes, { maxDepth: 16 })
const parse = (text: string) => parseBytes(new TextEncoder().encode(text))
const problem = (text: string) => {
  const parsed = parse(text)
  return parsed.ok ? undefined : parsed.problem
}

const text = fc.oneof(
  fc.string(),
  fc.string({ unit: fc.constantFrom('"', "\\", "{", "}", "[", "]", ":", ",", "a", "\ud83d\ude00", "\u0000") }),
)
/**
 * Names without a backslash: once V8 (Node 24) has parsed `{"a":1,"\\\\":2}`, it takes the escaped name in `{"a":1,"\\u0061":2}` for
 * a backslash. Nothing is let through by that: no request has a field of such a name.
 */
const name = text.filter((key) => !key.includes("\\"))
const { json } = fc.letrec((tie) => ({
  json: fc.oneof(
    { depthSize: "small", maxDepth: 10 },
    fc.constant(null),
    fc.boolean(),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    text,
    fc.array(tie("json"), { maxLength: 3 }),
    fc
      .uniqueArray(fc.tuple(fc.oneof(name, fc.constantFrom("__proto__", "constructor", "toString")), tie("json")), {
        maxLength: 3,
        selector: ([key]) => key,
      })
      .map((entries) => Object.fromEntries(entries)),
  ),
}))
const object = fc.dictionary(name, json, { maxKeys: 4 })

/** A JSON string of the same value in which each code unit may be escaped. */
const spelledString = (value: string, escape: ReadonlyArray<boolean>): string =>
  `"${Array.from({ length: value.length }, (_, at) =>
    escape[at % escape.length]
      ? `\\u${value.charCodeAt(at).toString(16).padStart(4, "0")}`
      : JSON.stringify(value[at]).slice(1, -1),
  ).join("")}"`

const isJson = (body: string): boolean => {
  try {
    JSON.parse(body)
    return true
  } catch {
    return false
  }
}

describe("values", () => {
  it("match JSON.parse", () => {
    fc.assert(
      fc.property(object, fc.constantFrom(0, 1, "\t"), fc.boolean(), (value, indent, mark) => {
        const body = JSON.stringify(value, undefined, indent)
        // Not toStrictEqual, which asks members called "constructor" for their class.
        const expected = { ok: true, value: JSON.parse(body) }
        expect(isDeepStrictEqual(parse((mark ? "\ufeff" : "") + body), expected)).toBe(true)
      }),
      { numRuns: 1000 },
    )
  })

  it("are accepted or refused like JSON.parse if only the syntax matters", () => {
    const token = fc.constantFrom(
      "{",
      "}",
      "[",
      "]",
      ":",
      ",",
      '"',
      '"a"',
      '"b"',
      '"c"',
      "1",
      "-",
      "0",
      "true",
      "nul",
      "null",
      " ",
      "\\",
      "//",
      "\u00a0",
      "\n",
    )
    const document = fc.oneof(
      fc.array(token, { maxLength: 12 }).map((parts) => `{${parts.join("")}}`),
      fc.array(token).map((parts) => parts.join("")),
    )
    fc.assert(
      fc.property(document, (body) => {
        const parsed = parse(body)
        const syntaxRefused = !parsed.ok && (parsed.problem === "syntax" || parsed.problem === "empty")
        expect(syntaxRefused).toBe(!isJson(body))
        expect(parsed.ok ? parsed.value : undefined).toStrictEqual(parsed.ok ? JSON.parse(body) : undefined)
      }),
      { numRuns: 5000 },
    )
  })

  it.each(["1.0", "-0", "1e2", "1E-400", "123456789012345678901234567890", "1.7976931348623157e308"])(
    "keeps the number %s",
    (number) => expect(parse(`{"a":${number}}`)).toStrictEqual({ ok: true, value: JSON.parse(`{"a":${number}}`) }),
  )

  it("keeps U+0000 and lone surrogates in strings", () => {
    expect(parse('{"a":"\\u0000\\ud800","\\udc00":1}')).toStrictEqual({
      ok: true,
      value: { a: "\u0000\ud800", "\udc00": 1 },
    })
  })

  it("makes __proto__ and constructor ordinary own members", () => {
    const parsed = parse('{"__proto__":{"voice":"x"},"constructor":{"prototype":{"voice":"x"}},"a":{"__proto__":null}}')
    if (!parsed.ok) throw new Error(parsed.problem)
    expect(Object.keys(parsed.value)).toEqual(["__proto__", "constructor", "a"])
    expect(Object.getPrototypeOf(parsed.value)).toBe(Object.prototype)
    expect(parsed.value["voice"]).toBeUndefined()
    expect(Object.hasOwn(parsed.value, "voice")).toBe(false)
    expect("voice" in {}).toBe(false)
  })
})

describe("problems", () => {
  it.each([
    ["", "empty"],
    [" \r\n\t", "empty"],
    ["\ufeff", "empty"],
    ["\ufeff\ufeff{}", "syntax"],
    ["{}\ufeff", "syntax"],
    ["null", "not_an_object"],
    ["[]", "not_an_object"],
    ['[{"a":1}]', "not_an_object"],
    ['"{}"', "not_an_object"],
    ["5", "not_an_object"],
    ["true", "not_an_object"],
    ["{", "syntax"],
    ['{"a"', "syntax"],
    ['{"a":', "syntax"],
    ['{"a":"', "syntax"],
    ['{"a":"\\', "syntax"],
    ['{"a":1', "syntax"],
    ['{"a":1}}', "syntax"],
    ["{}{}", "syntax"],
    ["{}\n{}", "syntax"],
    ['{"a":1,}', "syntax"],
    ["{a:1}", "syntax"],
    ["{'a':1}", "syntax"],
    ['{"a":NaN}', "syntax"],
    ['{"a":Infinity}', "syntax"],
    ['{"a":01}', "syntax"],
    ['{"a":+1}', "syntax"],
    ['{"a":1}//', "syntax"],
    ['/**/{"a":1}', "syntax"],
    ['{"a":"\n"}', "syntax"],
    ['{"a":"\u0000"}', "syntax"],
    ['{"a":"\\x41"}', "syntax"],
    ["\u00a0{}", "syntax"],
    ["undefined", "syntax"],
    ['{"a":1e999}', "syntax"],
    ['{"a":[{"b":-1e999}]}', "syntax"],
    ["1e999", "not_an_object"],
  ])("%j is %s", (body, expected) => expect(problem(body)).toBe(expected))

  it.each([
    ["UTF-16 with mark", [0xff, 0xfe, 0x7b, 0, 0x7d, 0], "encoding"],
    ["UTF-16 without mark", [0x7b, 0, 0x7d, 0], "syntax"],
    ["a stray continuation byte", [0x7b, 0x80, 0x7d], "encoding"],
    ["an overlong slash", [0x7b, 0x22, 0xc0, 0xaf, 0x22, 0x7d], "encoding"],
    ["an encoded surrogate", [0x7b, 0x22, 0xed, 0xa0, 0x80, 0x22, 0x7d], "encoding"],
    ["above U+10FFFF", [0x7b, 0x22, 0xf4, 0x90, 0x80, 0x80, 0x22, 0x7d], "encoding"],
    ["a character cut short", [0x7b, 0x7d, 0xe2, 0x82], "encoding"],
    ["half a byte order mark", [0xef, 0xbb], "encoding"],
  ] as const)("%s is refused", (_, bytes, expected) => {
    expect(parseBytes(Uint8Array.from(bytes))).toEqual({ ok: false, problem: expected })
    // Nothing of a refused body is left behind in the decoder.
    expect(parse("\ufeff{}")).toEqual({ ok: true, value: {} })
  })

  it("reads exactly the bytes of a view", () => {
    const bytes = new TextEncoder().encode('xx{"a":1}xx')
    expect(parseBytes(bytes.subarray(2, -2))).toEqual({ ok: true, value: { a: 1 } })
    expect(parseBytes(Buffer.from('{"a":1}'))).toEqual({ ok: true, value: { a: 1 } })
  })
})

describe("duplicate keys", () => {
  it.each([
    '{"a":1,"a":1}',
    '{"a":1,"b":2,"a":3}',
    '{"x":{"a":1,"a":2}}',
    '{"x":[[{"a":1,"a":2}]]}',
    '{"a":1,"\\u0061":1}',
    '{"é":1,"\\u00e9":1}',
    '{"\\ud83d\\ude00":1,"😀":1}',
    '{"/":1,"\\/":1}',
    '{"":1,"":1}',
    '{"__proto__":1,"__proto__":1}',
    '{"__proto__":{},"\\u005f_proto__":{}}',
    '{"constructor":1,"constructor":1}',
    '{"1":1,"1":1}',
    '{"a\\"":1,"a\\u0022":1}',
    '{"a":{},"a":[{},{"b":":"}]}',
  ])("%s is refused", (body) => expect(problem(body)).toBe("duplicate_key"))

  it.each([
    '{"a":{"a":{"a":1}}}',
    '{"x":[{"a":1},{"a":1}]}',
    '{"a":"\\"a\\":1,","b":"a:b::"}',
    '{"a":"{\\"a\\":1,\\"a\\":1}"}',
    '{"a":"\\\\","b":":\\\\\\":"}',
    '{"A":1,"a":1}',
    '{"é":1,"e\\u0301":1}',
    '{"1":1,"01":1,"1.0":1}',
  ])("%s is accepted", (body) => expect(problem(body)).toBeUndefined())

  it("are found at any position and in any spelling", () => {
    const flags = fc.array(fc.boolean(), { minLength: 1, maxLength: 4 })
    fc.assert(
      fc.property(
        fc.array(fc.tuple(name, json), { minLength: 1, maxLength: 4 }),
        fc.nat(),
        flags,
        // With the values, at most 16 levels.
        fc.nat(2),
        (members, index, escape, depth) => {
          const unique = [...new Map(members)]
          const written = unique.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`)
          const [key] = unique[index % unique.length]!
          const wrap = (inner: string) => `{"x":[`.repeat(depth) + inner + "]}".repeat(depth)
          expect(problem(wrap(`{${written.join(",")}}`))).toBeUndefined()
          const repeated = `${spelledString(key, escape)}:null`
          expect(problem(wrap(`{${[...written, repeated].join(",")}}`))).toBe("duplicate_key")
          expect(problem(wrap(`{${[repeated, ...written].join(",")}}`))).toBe("duplicate_key")
        },
      ),
      { numRuns: 1000 },
    )
  })
})

describe("depth", () => {
  const nested = (depth: number, open: string, close: string) =>
    `{"a":${open.repeat(depth - 1)}1${close.repeat(depth - 1)}}`

  it.each([
    ["[", "]"],
    ['{"a":', "}"],
  ])("16 levels of %s are accepted and 17 refused", (open, close) => {
    expect(problem(nested(16, open, close))).toBeUndefined()
    expect(problem(nested(17, open, close))).toBe("too_deep")
  })

  it("counts levels, not brackets", () => {
    expect(problem(`{"a":[${Array<string>(100).fill("[{}]").join(",")}]}`)).toBeUndefined()
    expect(problem(JSON.stringify({ a: "[".repeat(100), ["{".repeat(100)]: 1 }))).toBeUndefined()
  })

  it("refuses 100,000 levels without running out of stack", () => {
    expect(problem(nested(100_000, "[", "]"))).toBe("too_deep")
    expect(problem(nested(100_000, '{"a":', "}"))).toBe("too_deep")
    expect(problem("[".repeat(100_000))).toBe("too_deep")
  })
})

it("takes time linear in the body, for any content", () => {
  // 4 MiB each; anything quadratic would take hours.
  const size = 2 ** 22
  for (const filling of ['\\"', "\\\\", "a", "é"])
    expect(problem(`{"a":"${filling.repeat(size / filling.length)}"}`)).toBeUndefined()
  expect(problem(`{"a":"${"\\".repeat(size + 1)}`)).toBe("syntax")
})
