import { sandboxProviders } from "@kiln/provider-sandbox"
import { fakePng } from "@kiln/testing"
import { Effect } from "effect"
import * as fc from "fast-check"
import { crc32 } from "node:zlib"
import { describe, expect, it } from "vitest"
import { generatedPng } from "../../src/providers/image.ts"

const call = { jobId: "job_00000000000000000000000000", attempt: 1, failures: 0, deferrals: 0 } as const
const whole = fakePng("a fake image")

const chunk = (type: string, data: Uint8Array = new Uint8Array()) => {
  const body = Buffer.concat([Buffer.from(type), data])
  const frame = Buffer.alloc(8)
  frame.writeUInt32BE(data.length)
  frame.writeUInt32BE(crc32(body), 4)
  return Buffer.concat([frame.subarray(0, 4), body, frame.subarray(4)])
}
const header = ({ bits = 8, color = 2, height = 1_024, rest = [0, 0, 0], width = 1_024 } = {}) => {
  const data = Buffer.alloc(10 + rest.length)
  data.writeUInt32BE(width)
  data.writeUInt32BE(height, 4)
  data.set([bits, color, ...rest], 8)
  return chunk("IHDR", data)
}
const signature = Buffer.from("\x89PNG\r\n\x1a\n", "latin1")
const pixels = chunk("IDAT", Buffer.alloc(20, 1))
const end = chunk("IEND")
const png = (...chunks: ReadonlyArray<Uint8Array>) => Uint8Array.from(Buffer.concat([signature, ...chunks]))
const problemOf = (data: Uint8Array) => generatedPng(data, 1_024)

describe("a valid PNG", () => {
  it("an image of the sandbox", async () => {
    const { data } = await Effect.runPromise(sandboxProviders().image({ prompt: "a fox" }, call))
    expect(problemOf(data)).toBeUndefined()
    expect(generatedPng(data, 512)).toMatch(/1024x1024 pixels, not 512x512/)
  })

  it.each([
    ["the fake one", whole],
    ["a part of a larger buffer", Uint8Array.from(Buffer.concat([Buffer.from("xy"), whole])).subarray(2)],
    [
      "of several pieces, with chunks that may be skipped",
      png(header(), chunk("gAMA"), pixels, pixels, chunk("tIME"), end),
    ],
    ["with a palette", png(header({ color: 3 }), chunk("PLTE", Buffer.alloc(3)), pixels, end)],
    ["interlaced", png(header({ rest: [0, 0, 1] }), pixels, end)],
    ["grey, of 16 bits", png(header({ color: 0, bits: 16 }), pixels, end)],
  ])("%s", (_name, data) => {
    expect(problemOf(data)).toBeUndefined()
  })
})

describe("an invalid PNG", () => {
  it.each<[name: string, data: Uint8Array, why: RegExp]>([
    ["nothing", new Uint8Array(), /signature/],
    ["HTML", Buffer.from("<!doctype html>"), /signature/],
    ["a JPEG", Uint8Array.of(0xff, 0xd8, 0xff, 0xe0, 0, 16), /signature/],
    ["a signature alone", png(), /no end/],
    ["no header", png(pixels, end), /begin with its header/],
    ["a header too late", png(chunk("gAMA"), header(), pixels, end), /begin with its header/],
    ["two headers", png(header(), header(), pixels, end), /two headers/],
    ["a long header", png(header({ rest: [0, 0, 0, 0] }), pixels, end), /13 bytes/],
    ["another width", png(header({ width: 512 }), pixels, end), /512x1024 pixels/],
    ["another height", png(header({ height: 1_025 }), pixels, end), /1024x1025 pixels/],
    ["bits that no color has", png(header({ bits: 3 }), pixels, end), /cannot have/],
    ["bits that its color has not", png(header({ color: 6, bits: 4 }), pixels, end), /cannot have/],
    ["an invalid color type", png(header({ color: 5 }), pixels, end), /cannot have/],
    ["a color of Object.prototype", png(header({ color: 7 }), pixels, end), /cannot have/],
    ["another compression", png(header({ rest: [1, 0, 0] }), pixels, end), /cannot have/],
    ["another filter", png(header({ rest: [0, 1, 0] }), pixels, end), /cannot have/],
    ["another interlacing", png(header({ rest: [0, 0, 2] }), pixels, end), /cannot have/],
    ["no pixels", png(header(), end), /no pixels/],
    ["empty pixels", png(header(), chunk("IDAT"), end), /no pixels/],
    ["pixels torn apart", png(header(), pixels, chunk("tIME"), pixels, end), /not consecutive/],
    ["a palette that is missing", png(header({ color: 3 }), pixels, end), /palette/],
    ["a palette too late", png(header({ color: 3 }), pixels, chunk("PLTE", Buffer.alloc(3)), end), /palette/],
    ["an unknown critical chunk", png(header(), chunk("CgBI"), pixels, end), /unknown critical type/],
    ["an end that is not empty", png(header(), pixels, chunk("IEND", Buffer.alloc(1))), /not empty/],
    ["no end", png(header(), pixels), /no end/],
    ["a byte behind its end", png(header(), pixels, end, Buffer.alloc(1)), /follows its end chunk/],
    ["another PNG behind its end", Uint8Array.from([...whole, ...whole]), /follows its end chunk/],
    ["a chunk that claims 4 GiB", png(header(), Buffer.from("\xff\xff\xff\xffIDATxxxx", "latin1")), /cut short/],
  ])("%s", (_name, data, why) => {
    expect(problemOf(data)).toMatch(why)
  })

  it("any truncated PNG", () => {
    for (let length = 0; length < whole.length; length++) expect(problemOf(whole.subarray(0, length))).toBeDefined()
  })

  it("a PNG with any single bit flipped", () => {
    for (let bit = 0; bit < whole.length * 8; bit++) {
      const flipped = whole.slice()
      flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      expect(problemOf(flipped), `bit ${bit}`).toBeDefined()
    }
  })

  it("any bytes, alone or after a valid start", () => {
    const starts = [new Uint8Array(), signature, png(header()), png(header(), pixels)]
    fc.assert(
      fc.property(fc.constantFrom(...starts), fc.uint8Array({ maxLength: 200 }), (start, rest) => {
        expect(problemOf(Uint8Array.from([...start, ...rest]))).toBeDefined()
      }),
      { numRuns: 5_000 },
    )
  })

  it("is detected quickly, however large", () => {
    for (const data of [fakePng("", 3_000_000), png(header(), Buffer.alloc(2_400_000, chunk("tIME")))]) {
      const before = process.cpuUsage()
      problemOf(data)
      // Some 8 ms of processor time; the bound is for work that grows faster than the file does.
      const { system, user } = process.cpuUsage(before)
      expect((system + user) / 1_000).toBeLessThan(1_000)
    }
  })
})
