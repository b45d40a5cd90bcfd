import { describe, expect, it } from "vitest"
import { hasEncodedBody, isJsonContentType } from "../../src/server/body.ts"

describe("isJsonContentType", () => {
  it.each([
    "application/json",
    "Application/JSON",
    "application/json;charset=utf-8",
    "application/json; charset=UTF-8",
    'application/json; charset="utf-8"',
    "application/json ; Charset=Utf-8",
    'application/json; charset="ut\\f-8"',
    "application/json;",
    "application/json; ;",
    "application/json;;charset=utf-8",
    "application/json; profile=x; charset=utf-8",
    'application/json; note="a; charset=latin1"',
    "application/json; charset=utf-8; charset=utf-8",
  ])("accepts %s", (value) => expect(isJsonContentType([value])).toBe(true))

  it.each([
    "",
    "json",
    "application/jsonp",
    "application/json5",
    "application/problem+json",
    "text/json",
    "text/plain",
    "xapplication/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/json; charset=latin1",
    "application/json; charset=utf-16",
    'application/json; charset="utf-16"',
    "application/json; charset=",
    "application/json; charset",
    "application/json; charset=utf-8x",
    "application/json; charset=utf-8; charset=latin1",
    "application/json; charset=latin1; charset=utf-8",
    "application/json, application/json",
    "application/json; charset=utf-8, text/plain",
    'application/json; charset="utf-8',
    "application/json; =utf-8",
    "application/json; charset =utf-8",
    "application/json charset=utf-8",
    "application/json; charset=utf-8\n",
    "application/json\u00a0",
  ])("refuses %j", (value) => expect(isJsonContentType([value])).toBe(false))

  it("refuses no header and two headers", () => {
    expect(isJsonContentType(undefined)).toBe(false)
    expect(isJsonContentType([])).toBe(false)
    expect(isJsonContentType(["application/json", "application/json"])).toBe(false)
  })

  it("takes time linear in the header", () => {
    for (const filling of [" ", ";", '"', ";a=b", "\t;"])
      isJsonContentType([`application/json;${filling.repeat(2 ** 20)}\u0000`])
    expect(isJsonContentType([`application/json;a="${"\\\\".repeat(2 ** 20)}`])).toBe(false)
  })
})

describe("hasEncodedBody", () => {
  it.each([
    [undefined],
    [[]],
    [[""]],
    [["identity"]],
    [["Identity"]],
    [["identity, identity"]],
    [["identity", "identity"]],
    [["identity,"]],
  ])("accepts %j", (values) => expect(hasEncodedBody(sent({ "content-encoding": values }))).toBe(false))
  it.each([
    [["gzip"]],
    [["identity, gzip"]],
    [["gzip, identity"]],
    [["identity", "br"]],
    [["x-identity"]],
    [["identity identity"]],
    [["identity;q=1"]],
  ])("refuses %j", (values) => expect(hasEncodedBody(sent({ "content-encoding": values }))).toBe(true))

  it("accepts Transfer-Encoding only as chunked", () => {
    const coded = (...values: ReadonlyArray<string>) => hasEncodedBody(sent({ "transfer-encoding": values }))
    expect([coded("chunked"), coded("Chunked"), coded("gzip, chunked"), coded("gzip", "chunked")]).toEqual([
      false,
      false,
      true,
      true,
    ])
  })
})

const sent = (headers: Readonly<Record<string, ReadonlyArray<string> | undefined>>) => ({
  header: (name: string) => headers[name],
})
