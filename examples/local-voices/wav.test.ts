import { describe, expect, it } from "vitest"
import { tone, type WavFormat, writeWav } from "./support/writeWav.ts"
import { openWav, withLengths } from "./wav.ts"

const opened = (file: Uint8Array) => {
  const recording = openWav(file)
  if (typeof recording === "string") throw new Error(recording)
  return recording
}
const plain: WavFormat = { sampleRate: 8_000, channels: 1, bits: 16 }
const samples = tone(100, 8_000, 0.1)

describe("reads", () => {
  it.each<readonly [WavFormat, tolerance: number]>([
    [{ ...plain, bits: 8 }, 0.01],
    [plain, 0.0001],
    [{ ...plain, bits: 24 }, 0.000_001],
    [{ ...plain, bits: 32 }, 0.000_001],
    [{ ...plain, bits: 32, float: true }, 0],
    [{ ...plain, extensible: true }, 0.0001],
    [{ ...plain, bits: 32, float: true, extensible: true }, 0],
    [{ ...plain, channels: 2 }, 0.0001],
  ])("%o", (format, tolerance) => {
    const file = writeWav(
      format,
      Array.from({ length: format.channels }, () => samples),
    )
    const recording = opened(file)
    expect({ sampleRate: recording.sampleRate, length: recording.length }).toEqual({ sampleRate: 8_000, length: 800 })
    const read = recording.read(0, 800)
    expect(Math.max(...read.map((sample, i) => Math.abs(sample - (samples[i] ?? 0))))).toBeLessThanOrEqual(tolerance)
  })

  it("several channels as one", () => {
    const [left, right] = [Float32Array.of(0.5, 0.5), Float32Array.of(-0.5, 0.25)]
    const read = opened(writeWav({ ...plain, channels: 2, bits: 32, float: true }, [left, right])).read(0, 2)
    expect([...read]).toEqual([0, 0.375])
  })

  it("silence before and after", () => {
    const file = writeWav({ ...plain, bits: 32, float: true }, [Float32Array.of(0.5, 0.25)])
    expect([...opened(file).read(-2, 6)]).toEqual([0, 0, 0.5, 0.25, 0, 0])
  })

  it.each([0, 0xffff_ffff, 0x7fff_f000])("to the end if the length is %i, as live writers leave it", (length) => {
    const file = Buffer.from(writeWav(plain, [samples]))
    file.writeUInt32LE(length, 40)
    expect(opened(file).length).toBe(800)
  })

  it("past chunks it does not know, odd ones too", () => {
    const file = writeWav(plain, [samples])
    const note = Buffer.from("LIST\u0003\0\0\0abc\0", "latin1")
    expect(opened(Buffer.concat([file.subarray(0, 12), note, file.subarray(12)])).length).toBe(800)
  })
})

describe("refuses", () => {
  const changed = (write: (file: Buffer) => void): Uint8Array => {
    const file = Buffer.from(writeWav(plain, [samples]))
    write(file)
    return file
  }
  it.each<readonly [what: string, file: Uint8Array, why: string]>([
    ["an empty file", new Uint8Array(0), "without format or without data"],
    ["a file that ends before its samples", writeWav(plain, [samples]).subarray(0, 36), "without data"],
    ["a file that ends in its format", writeWav(plain, [samples]).subarray(0, 30), "without format"],
    ["ADPCM", changed((file) => file.writeUInt16LE(2, 20)), "a wav file of format 2 with 16 bits"],
    ["a lie about its bits", changed((file) => file.writeUInt16LE(17, 34)), "a wav file of format 1 with 17 bits"],
    ["no channels", changed((file) => file.writeUInt16LE(0, 22)), "a wav file of format 1"],
    ["no sample rate", changed((file) => file.writeUInt32LE(0, 24)), "a wav file of 0 Hz"],
    ["an absurd sample rate", changed((file) => file.writeUInt32LE(0xffff_ffff, 24)), "a wav file of 4294967295 Hz"],
  ])("%s", (_, file, why) => expect(openWav(file)).toContain(why))
})

describe("lengths", () => {
  it("are put in", () => {
    const file = writeWav(plain, [samples])
    const piped = Buffer.from(file)
    piped.writeUInt32LE(0x7fff_f024, 4)
    piped.writeUInt32LE(0x7fff_f000, 40)
    expect(Buffer.compare(withLengths(piped) ?? new Uint8Array(0), file)).toBe(0)
    expect(piped.readUInt32LE(40), "the original is not touched").toBe(0x7fff_f000)
  })

  it.each([new Uint8Array(0), new TextEncoder().encode("an error message that is longer than a header")])(
    "of something else are not",
    (file) => expect(withLengths(file)).toBeUndefined(),
  )
})
