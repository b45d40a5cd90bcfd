import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { readAudio } from "../src/audio/readAudio.ts"

const fixture = async (name: string): Promise<Uint8Array> =>
  new Uint8Array(await readFile(join(import.meta.dirname, "../../media-probe/test/fixtures", name)))

/** The length of a file; 0 for one that shows none. */
const lengthOf = (file: Uint8Array): number => {
  try {
    return readAudio(file, {}).declared_seconds
  } catch (error) {
    return String(error).includes("pass declared_seconds") ? 0 : Infinity
  }
}

describe("the format and length of a file, without a decoder", () => {
  // The lengths that the service measures.
  it.each([
    ["pcm16.wav", "wav", 1.2],
    ["float32.wav", "wav", 1],
    ["cbr.mp3", "mp3", 2.5],
    ["vbr-tagged.mp3", "mp3", 2.5],
    ["vbr-without-xing.mp3", "mp3", 2.5],
    ["moov-first.m4a", "m4a", 2.5],
    ["moov-last.m4a", "m4a", 2.5],
    ["fragmented.mp4", "mp4", 2.5],
    ["audio-and-video.mp4", "mp4", 1.5],
    ["opus.webm", "webm", 2.5],
    ["opus-live.webm", "webm", 2.5],
    ["vorbis.webm", "webm", 2.5],
  ])("of %s", async (name, format, seconds) => {
    const read = readAudio(await fixture(name), {})
    expect(read.format).toBe(format)
    expect(Math.abs(read.declared_seconds - seconds)).toBeLessThanOrEqual(0.11)
  })

  it("cannot be read of a file without samples", async () => {
    const file = await fixture("pcm16.wav")
    expect(() => readAudio(file.subarray(0, 44), {})).toThrow("pass declared_seconds")
  })

  it("of a recording that is cut short is at most that of the whole", async () => {
    for (const name of ["pcm16.wav", "cbr.mp3", "moov-first.m4a", "fragmented.mp4", "opus-live.webm"]) {
      const file = await fixture(name)
      const whole = readAudio(file, {}).declared_seconds
      for (let bytes = 64; bytes < file.length; bytes += 97) {
        expect(lengthOf(file.subarray(0, bytes))).toBeLessThanOrEqual(whole)
      }
    }
  })

  it("of a file in a larger buffer", async () => {
    const file = await fixture("fragmented.mp4")
    const buffer = new Uint8Array(file.length + 50)
    buffer.set(file, 33)
    expect(readAudio(buffer.subarray(33, 33 + file.length), {})).toEqual(readAudio(file, {}))
  })

  it("given values win, and the tolerance of the service is used", async () => {
    const file = await fixture("pcm16.wav")
    expect(readAudio(file, { format: "mp3", declared_seconds: 7 })).toEqual({ format: "mp3", declared_seconds: 7 })
    expect(readAudio(file, { declared_seconds: 900.6 }).declared_seconds).toBe(900)
    expect(readAudio(file, { declared_seconds: 901.1 }).declared_seconds).toBe(901.1)
    expect(() => readAudio(new TextEncoder().encode("text"), {})).toThrow("not mp3, mp4")
  })
})
