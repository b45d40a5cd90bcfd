import { describe, expect, it } from "vitest"
import { locateSyntaxError } from "../../src/wire/locateSyntaxError.ts"

const place = (line: number, column: number, isEnd = false) => ({ line, column, isEnd })

describe("the place where a text stops being JSON", () => {
  it.each([
    ["{'a': 1}", place(1, 2)],
    ['{\n  "a": 1,\n}', place(3, 1)],
    ['{"a": 1', place(1, 8, true)],
    ['{"a": "b\nc"}', place(1, 9)],
    ['{"a": "\\x"}', place(1, 8)],
    ['{"😀": tru}', place(1, 7)],
    ['{"a": 01}', place(1, 8)],
    ['{"a" 1}', place(1, 6)],
    ["\r\n\r\n[1 2]", place(3, 4)],
    ["", place(1, 1, true)],
    ["{} x", place(1, 4)],
  ])("of %j", (text, expected) => {
    expect(locateSyntaxError(text)).toEqual(expected)
  })

  it("is found for exactly those texts that JSON.parse refuses", () => {
    const text = '{"a":[1.5e3,-0,"\\u00e9\\n 😀"],"b":{"c":null,"d":[true,false,{}]} }'
    const isJson = (candidate: string): boolean => {
      try {
        JSON.parse(candidate)
        return true
      } catch {
        return false
      }
    }
    const candidates: Array<string> = []
    for (let at = 0; at <= text.length; at++) {
      candidates.push(text.slice(0, at), text.slice(0, at) + text.slice(at + 1))
      for (const more of [
        '"',
        ",",
        "{",
        "]",
        "0",
        "-",
        ".",
        "e",
        "\\",
        "\n",
        "\u0000",
        "\u007f",
        "\ud800",
        " ",
        "\u00a0",
      ])
        candidates.push(text.slice(0, at) + more + text.slice(at))
    }
    const wrong = candidates.filter((candidate) => (locateSyntaxError(candidate) === undefined) !== isJson(candidate))
    expect(wrong).toEqual([])
    expect(candidates.filter(isJson).length).toBeGreaterThan(50)
  })

  it("of a large text is found at once", () => {
    const large = `{"a":"${"x".repeat(60_000)}","b":[${"1,".repeat(10_000)}1],}`
    expect(locateSyntaxError(large)).toMatchObject({ line: 1, column: large.length })
  })
})
