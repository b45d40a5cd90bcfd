import { Socket } from "node:net"
import { describe, expect, it } from "vitest"
import { parseMultipart } from "../../src/openai/parseMultipart.ts"
import { post, smallWav, transcribe, withStandIn } from "./support.ts"

const form = "multipart/form-data; boundary=b0undary"
const parse = (body: string, contentType = form) =>
  parseMultipart(contentType, Buffer.from(body, "latin1")).map((part) => ({
    ...part,
    data: Buffer.from(part.data).toString("latin1"),
  }))

const field = (name: string, value: string) =>
  `--b0undary\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`
const file = (disposition: string, data: string) =>
  `--b0undary\r\nContent-Disposition: form-data; name="file"; ${disposition}\r\nContent-Type: audio/wav\r\n\r\n${data}\r\n`
const end = "--b0undary--\r\n"

describe("parts", () => {
  it("fields and files, in their order", () => {
    expect(parse(`${field("model", "m")}${file('filename="a.wav"', "RIFF")}${field("model", "n")}${end}`)).toEqual([
      { name: "model", contentType: "text/plain", data: "m" },
      { name: "file", filename: "a.wav", contentType: "audio/wav", data: "RIFF" },
      { name: "model", contentType: "text/plain", data: "n" },
    ])
  })

  it("no fields", () => expect(parse(end)).toEqual([]))

  it.each([
    ['filename="a b.wav"', "a b.wav"],
    ['filename="a;b=c.wav"', "a;b=c.wav"],
    [String.raw`filename="a\"b\".wav"`, 'a"b".wav'],
    [String.raw`filename="C:\\dir\\a.wav"`, String.raw`C:\dir\a.wav`],
    ['filename="a%22b%0D%0A.wav"', 'a"b\r\n.wav'],
    ["filename=bare.wav", "bare.wav"],
    ['filename=""', ""],
    ['FILENAME="a.wav"', "a.wav"],
    [`filename="plain.wav"; filename*=UTF-8''na%C3%AFve.wav`, "naïve.wav"],
    [`filename="plain.wav"; filename*=UTF-8''%ZZ`, "plain.wav"],
  ])("%s", (disposition, filename) => {
    expect(parse(`${file(disposition, "x")}${end}`)).toMatchObject([{ name: "file", filename, data: "x" }])
  })

  it("a name in UTF-8, and one inside of another parameter's value", () => {
    const body = `--b\r\nContent-Disposition: form-data; filename="; name=x"; name="ü"\r\n\r\n1\r\n--b--`
    expect(parseMultipart("multipart/form-data; boundary=b", Buffer.from(body))).toMatchObject([
      { name: "ü", filename: "; name=x" },
    ])
  })
})

describe("delimiters", () => {
  it.each([
    ["the boundary without a line break before it", "x--b0undary\r\ny"],
    ["a longer boundary", "x\r\n--b0undaryx\r\ny"],
    ["a final boundary with more behind it", "x\r\n--b0undary--x\r\ny"],
    ["the boundary after a lone line feed", "x\n--b0undary\r\ny"],
    ["dashes", "\r\n--\r\n----"],
    ["line breaks at both ends", "\r\n\r\nx\r\n\r\n"],
    ["nothing", ""],
    ["every byte there is", String.fromCharCode(...Array.from({ length: 256 }, (_, byte) => byte))],
  ])("data may contain %s", (_, data) => {
    expect(parse(`${file('filename="a.wav"', data)}${field("after", "z")}${end}`)).toMatchObject([
      { data },
      { name: "after", data: "z" },
    ])
  })

  it.each([
    ["a preamble and an epilogue", `preamble\r\n${field("a", "1")}${end}epilogue --b0undary`],
    ["padding behind the boundary", `--b0undary \t\r\n${field("a", "1").slice(12)}--b0undary-- \r\n`],
    ["no line break at the end", `${field("a", "1")}--b0undary--`],
  ])("%s", (_, body) => expect(parse(body)).toMatchObject([{ name: "a", data: "1" }]))

  it.each([
    ['multipart/form-data; boundary="b0 und\'()+_,-./:=?ary"', "b0 und'()+_,-./:=?ary"],
    ["multipart/form-data; charset=utf-8; BOUNDARY=b0undary; x=y", "b0undary"],
  ])("%s", (contentType, boundary) => {
    const body = `--${boundary}\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--${boundary}--\r\n`
    expect(parse(body, contentType)).toMatchObject([{ name: "a", data: "1" }])
  })
})

describe("invalid forms", () => {
  it.each([
    ["no boundary in the header", field("a", "1") + end, "multipart/form-data"],
    ["an empty boundary", field("a", "1") + end, 'multipart/form-data; boundary=""'],
    ["a boundary too long", field("a", "1") + end, `multipart/form-data; boundary=${"b".repeat(71)}`],
    ["nothing", "", form],
    ["no final boundary", field("a", "1"), form],
    ["a final boundary that is cut", `${field("a", "1")}--b0undary-`, form],
    ["a final boundary inside of a line", `${field("a", "1")}x--b0undary--`, form],
    ["headers without an end", `--b0undary\r\nContent-Disposition: form-data; name="a"\r\n${end}`, form],
    ["headers too long", `--b0undary\r\nX: ${"x".repeat(9000)}\r\n\r\n1\r\n${end}`, form],
    ["a header without a colon", `--b0undary\r\nnonsense\r\n\r\n1\r\n${end}`, form],
    ["no headers at all", `--b0undary\r\n\r\n1\r\n${end}`, form],
    ["a part between two delimiters that touch", `--b0undary\r\n${end}`, form],
    ["no name", `--b0undary\r\nContent-Disposition: form-data; filename="name=x"\r\n\r\n1\r\n${end}`, form],
    ["another disposition", `--b0undary\r\nContent-Disposition: attachment; name="a"\r\n\r\n1\r\n${end}`, form],
    ["too many parts", field("a", "1").repeat(101) + end, form],
  ])("%s", (_, body, contentType) => {
    expect(() => parse(body, contentType)).toThrow("Could not parse multipart form")
  })
})

describe("over the wire", () => {
  it("400 in the envelope", () =>
    withStandIn(async (standIn) => {
      const headers = { "content-type": form }
      const refused = await post(standIn, "/audio/transcriptions", field("model", "whisper-1"), { headers })
      expect(refused.status).toBe(400)
      expect((await refused.json()).error.message).toContain("the final boundary is missing")
      const noFile = await post(standIn, "/audio/transcriptions", field("model", "whisper-1") + end, { headers })
      expect((await noFile.json()).error).toMatchObject({ param: "file", code: "missing_required_parameter" })
      const noModel = await post(standIn, "/audio/transcriptions", file('filename="a.wav"', "x") + end, { headers })
      expect((await noModel.json()).error).toMatchObject({ param: "model", code: "missing_required_parameter" })
    }))

  it("accepts fetch's encoding of unusual names", () =>
    withStandIn(async (standIn) => {
      for (const filename of ['"quoted".wav', "sp ace;=.wav", "naïve🔥.wav", String.raw`back\slash.wav`]) {
        expect((await transcribe(standIn, smallWav(1), {}, filename)).status).toBe(200)
        expect(standIn.callsOf("transcription").at(-1)?.request?.file.filename).toBe(filename)
      }
    }))

  it("waits for a body in chunks, and detects one that never ends", () =>
    withStandIn(async (standIn) => {
      const { hostname, port } = new URL(standIn.url)
      const socket = new Socket().connect(Number(port), hostname)
      const body = `${field("model", "whisper-1")}${file('filename="a.wav"', "x")}`
      socket.write(
        `POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${standIn.apiKey}\r\n` +
          `Content-Type: ${form}\r\nContent-Length: ${body.length + 100}\r\n\r\n${body}`,
        () => socket.destroy(),
      )
      await standIn.untilEnded("transcription")
      expect(standIn.calls()).toMatchObject([{ outcome: "client_gone" }])
      expect(standIn.calls()[0]).not.toHaveProperty("request")
    }))
})
