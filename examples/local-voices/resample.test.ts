import { describe, expect, it } from "vitest"
import { resample } from "./resample.ts"
import { tone, writeWav } from "./support/writeWav.ts"
import { openWav, type Recording } from "./wav.ts"

const rate = 16_000

const recordingOf = (sampleRate: number, samples: Float32Array): Recording => {
  const opened = openWav(writeWav({ sampleRate, channels: 1, bits: 16 }, [samples]))
  if (typeof opened === "string") throw new Error(opened)
  return opened
}

const converted = (recording: Recording): Array<number> => [...resample(recording, rate)].flatMap((block) => [...block])

/** Root mean square, 1 for the loudest square wave; away from the ends, where the filter reaches past the recording. */
const loudness = (samples: ReadonlyArray<number>): number => {
  const middle = samples.slice(200, -200)
  return Math.sqrt(middle.reduce((sum, sample) => sum + (sample / 0x7fff) ** 2, 0) / middle.length)
}
const decibels = (ratio: number): number => 20 * Math.log10(ratio)
const asItWas = 0.5 / Math.SQRT2

describe.each([8_000, 11_025, 22_050, 44_100, 48_000, 96_000])("from %i Hz", (sampleRate) => {
  it("a tone stays unchanged", () => {
    const samples = converted(recordingOf(sampleRate, tone(1_000, sampleRate, 1)))
    expect(samples).toHaveLength(rate)
    expect(Math.abs(decibels(loudness(samples) / asItWas))).toBeLessThan(0.05)
    const expected = tone(1_000, rate, 1)
    const difference = samples.map((sample, i) => sample - 0x7fff * (expected[i] ?? 0))
    expect(decibels(loudness(difference) / asItWas)).toBeLessThan(-60)
  })
})

describe.each([22_050, 44_100, 48_000, 96_000])("from %i Hz", (sampleRate) => {
  it("a tone that the new rate cannot carry is gone, not folded back", () => {
    const samples = converted(recordingOf(sampleRate, tone(9_500, sampleRate, 1)))
    expect(decibels(loudness(samples) / asItWas)).toBeLessThan(-60)
  })
})

it("samples that already have the rate are unchanged", () => {
  const samples = tone(440, rate, 1)
  expect(converted(recordingOf(rate, samples))).toEqual(
    Array.from(samples, (sample) => Math.round(sample * 0x7fff) + 0),
  )
})

it("comes in blocks that fit together", () => {
  const blocks = [...resample(recordingOf(44_100, tone(300, 44_100, 2)), rate)]
  expect(blocks.length).toBeGreaterThan(2)
  const samples = blocks.flatMap((block) => [...block])
  const steepest = (0.5 * 0x7fff * 2 * Math.PI * 300) / rate
  expect(Math.max(...samples.map((sample, i) => Math.abs(sample - (samples[i - 1] ?? 0))))).toBeLessThan(steepest * 1.1)
})

it("a NaN sample is silence", () => {
  const recording: Recording = { sampleRate: rate, length: 10, read: (_, count) => new Float32Array(count).fill(NaN) }
  expect(converted(recording)).toEqual(Array.from({ length: 10 }, () => 0))
})
