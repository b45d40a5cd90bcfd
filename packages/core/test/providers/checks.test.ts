import type { GeneratedFile, Reply, Transcript, Turn } from "@kiln/core/providers"
import { fakeMp3, fakePng } from "@kiln/testing"
import { describe, expect, it } from "vitest"
import { checkAudio } from "../../src/providers/speech.ts"
import { checkText } from "../../src/providers/checks.ts"
import { checkPng } from "../../src/providers/image.ts"
import { checkReply } from "../../src/providers/reply.ts"
import { checkTranscript } from "../../src/providers/transcription.ts"
import { checkTurn } from "../../src/providers/voiceTurn.ts"

const MiB = 1_024 * 1_024

/** What a check returns; `"refused"` if it throws, which must be `result_invalid` and retried. */
const resultOf = <A>(check: () => A): A | "refused" => {
  try {
    return check()
  } catch (error) {
    expect(error).toMatchObject({ _tag: "ProviderFailure", errorCode: "result_invalid", retry: true })
    return "refused"
  }
}

/** Values of any shape but the right one, as code without types gives them. */
const shapes: ReadonlyArray<unknown> = [
  undefined,
  null,
  5,
  Number.NaN,
  true,
  "text",
  Symbol("s"),
  [],
  {},
  () => 1,
  new Date(0),
  new Uint8Array(3),
  Buffer.from("abc"),
  new ArrayBuffer(8),
]

describe("a text", () => {
  it.each(["", " ", "hello", "😀", "x".repeat(1_000_000)])("may be any text that stores can keep", (text) => {
    expect(resultOf(() => checkText(text))).toBe(text)
  })

  it.each<[name: string, text: unknown]>([
    ["U+0000", "a\u0000b"],
    ["an unpaired surrogate", "a\ud800"],
    ["a million and one characters", "x".repeat(1_000_001)],
    ...shapes.filter((value) => typeof value !== "string").map((value): [string, unknown] => [typeof value, value]),
  ])("is refused: %s", (_name, text) => {
    expect(resultOf(() => checkText(text))).toBe("refused")
  })
})

describe("a transcript", () => {
  it.each<[name: string, seconds: unknown, kept: { readonly seconds?: number }]>([
    ["has the provider's seconds", 2.5, { seconds: 2.5 }],
    ["may say that there is nothing", 0, { seconds: 0 }],
    ["need not say any", undefined, {}],
    ["with endless seconds has none", Infinity, {}],
    ["with seconds of NaN has none", Number.NaN, {}],
    ["with negative seconds has none", -1, {}],
    ["with seconds in words has none", "3", {}],
    ["with null seconds has none", null, {}],
  ])("%s", (_name, seconds, kept) => {
    const transcript = { text: "", seconds } as Transcript
    expect(resultOf(() => checkTranscript(transcript))).toStrictEqual({ text: "", ...kept })
  })

  it("has only a text and a length", () => {
    const more: Transcript & { readonly words: ReadonlyArray<string> } = { text: "hi", words: [] }
    expect(resultOf(() => checkTranscript(more))).toStrictEqual({ text: "hi" })
  })

  it.each([...shapes, ...shapes.filter((shape) => typeof shape !== "string").map((text) => ({ text }))])(
    "of another shape is refused: %o",
    (value) => {
      expect(resultOf(() => checkTranscript(value as Transcript))).toBe("refused")
    },
  )
})

const reply: Reply = { text: "hi there", outputTokens: 2, truncated: false }

describe("a reply", () => {
  it("is charged for at most the requested tokens", () => {
    expect(resultOf(() => checkReply({ ...reply, outputTokens: 5 }, 5))).toStrictEqual({ ...reply, outputTokens: 5 })
    expect(resultOf(() => checkReply({ ...reply, outputTokens: 6 }, 5))).toStrictEqual({ ...reply, outputTokens: 5 })
    expect(resultOf(() => checkReply({ ...reply, outputTokens: 0 }, 5))).toStrictEqual({ ...reply, outputTokens: 0 })
  })

  it("has only text, tokens and whether it is truncated", () => {
    const more: Reply & { readonly usage: object } = { ...reply, truncated: true, usage: {} }
    expect(resultOf(() => checkReply(more, 5))).toStrictEqual({ ...reply, truncated: true })
  })

  it.each<[field: string, value: unknown]>([
    ...["", " \n\u00a0", "a\u0000", 5, undefined, null].map((text): [string, unknown] => ["text", text]),
    ...[-1, 1.5, Number.NaN, Infinity, 2 ** 53, "3", undefined, null, 3n].map((n): [string, unknown] => [
      "outputTokens",
      n,
    ]),
    ...["no", 0, undefined, null].map((truncated): [string, unknown] => ["truncated", truncated]),
  ])("is refused: %s is %s", (field, value) => {
    expect(resultOf(() => checkReply({ ...reply, [field]: value }, 5))).toBe("refused")
  })

  it.each(shapes)("of another shape is refused: %o", (value) => {
    expect(resultOf(() => checkReply(value as Reply, 5))).toBe("refused")
  })
})

const audio: GeneratedFile = { data: fakeMp3("hi"), mediaType: "audio/mpeg" }
const image: GeneratedFile = { data: fakePng("hi"), mediaType: "image/png" }

/** Frames have 24 bytes, the tag 21 and one for each character of the title. */
const mp3OfSize = (bytes: number) => {
  const frames = Math.floor((bytes - 22) / 24)
  return fakeMp3("x".repeat(bytes - 21 - frames * 24), frames)
}

describe.each([
  {
    name: "audio",
    good: audio,
    check: checkAudio,
    maxBytes: 32 * MiB,
    ofSize: mp3OfSize,
  },
  {
    name: "an image",
    good: image,
    check: (file: unknown) => checkPng(file, 1_024),
    maxBytes: 16 * MiB,
    ofSize: (bytes: number) => fakePng("", bytes - fakePng().length - 12),
  },
])("$name", ({ check, good, maxBytes, ofSize }) => {
  it("has the type of its bytes, regardless of the type that the provider reports", () => {
    for (const mediaType of ["text/html", "", "audio/wav", "audio/mpeg; x=1", undefined, 5])
      expect(resultOf(() => check({ data: good.data, mediaType }))).toStrictEqual(good)
  })

  it("may be in a Buffer, and is not copied", () => {
    const data = Buffer.from(good.data)
    const result = resultOf(() => check({ ...good, data }))
    expect(result !== "refused" && result.data).toBe(data)
  })

  it("has an upper bound", () => {
    const [within, beyond] = [ofSize(maxBytes), ofSize(maxBytes + 1)]
    expect([within.length, beyond.length]).toEqual([maxBytes, maxBytes + 1])
    expect(resultOf(() => check({ ...good, data: within }))).not.toBe("refused")
    expect(resultOf(() => check({ ...good, data: beyond }))).toBe("refused")
  })

  it.each([
    ...shapes,
    ...[...shapes, [...good.data], good.data.buffer, Buffer.from(good.data).toString("base64")].map((data) => ({
      ...good,
      data,
    })),
    { ...good, data: new Uint8Array() },
    { ...good, data: good.data.subarray(0, -1) },
    { ...good, data: Buffer.from("<!doctype html>") },
    { ...good, data: new Uint16Array(good.data) },
  ])("of another shape is refused: %o", (value) => {
    expect(resultOf(() => check(value as GeneratedFile))).toBe("refused")
  })
})

describe("a turn", () => {
  const turn: Turn = { ...reply, audio, transcript: "hello", seconds: 3 }

  it("has only reply, audio and transcript", () => {
    expect(resultOf(() => checkTurn(turn, 1))).toEqual({ ...turn, outputTokens: 1 })
    expect(resultOf(() => checkTurn({ ...reply, audio }, 5))).toEqual({ ...reply, audio })
  })

  it.each([Number.NaN, Infinity, -1])("with %s seconds has none", (seconds) => {
    const { seconds: _, ...rest } = turn
    expect(resultOf(() => checkTurn({ ...turn, seconds }, 5))).toEqual(rest)
  })

  it.each([
    ...shapes,
    { ...turn, text: "" },
    { ...turn, outputTokens: -1 },
    { ...turn, transcript: "a\u0000" },
    { ...turn, transcript: 5 },
    { ...turn, audio: undefined },
    { ...turn, audio: image },
    { ...turn, audio: { ...audio, data: audio.data.subarray(1) } },
  ])("of another shape is refused: %o", (value) => {
    expect(resultOf(() => checkTurn(value as Turn, 5))).toBe("refused")
  })
})
