import type { Recording } from "./wav.ts"

/** Zero crossings of the filter on each side: sharp enough for speech. */
const crossings = 16
/** The part of the band that remains when the rate decreases; the rest is the slope of the filter. */
const kept = 0.92
const blockSamples = 4_000

/**
 * Converts a recording to another sample rate, in blocks of 16-bit samples. A windowed sinc filter removes everything above
 * half of the new rate; picking the nearest samples would add hiss. Blocks keep memory and pauses short for long files.
 */
export function* resample(recording: Recording, sampleRate: number): Generator<Int16Array> {
  const divisor = greatestCommonDivisor(recording.sampleRate, sampleRate)
  // Output sample n lies `n * step / phases` samples into the input.
  const step = recording.sampleRate / divisor
  const phases = sampleRate / divisor
  const cutoff = step > phases ? (kept * phases) / step : 1
  const reach = Math.ceil(crossings / cutoff)
  const filters: Array<Float32Array> = []
  const total = Math.ceil((recording.length * phases) / step)
  for (let done = 0; done < total; done += blockSamples) {
    const block = new Int16Array(Math.min(blockSamples, total - done))
    const first = Math.floor((done * step) / phases) - reach + 1
    const input = recording.read(first, Math.ceil((block.length * step) / phases) + 2 * reach + 1)
    for (let i = 0; i < block.length; i++) {
      const position = (done + i) * step
      const phase = position % phases
      const filter = (filters[phase] ??= lowPass(phase / phases, cutoff, reach))
      const from = Math.floor(position / phases) - reach + 1 - first
      let sum = 0
      for (let tap = 0; tap < filter.length; tap++) sum += (filter[tap] ?? 0) * (input[from + tap] ?? 0)
      // NaN becomes silence: floating-point files may contain anything.
      block[i] = Math.max(-0x8000, Math.min(0x7fff, Math.round((sum || 0) * 0x7fff)))
    }
    yield block
  }
}

/** Weights of the input samples around a point `fraction` of a sample after one of them. */
const lowPass = (fraction: number, cutoff: number, reach: number): Float32Array => {
  const weights = Float32Array.from({ length: 2 * reach }, (_, tap) => {
    const x = tap - reach + 1 - fraction
    return cutoff * sinc(cutoff * x) * blackman(x / reach)
  })
  // Normalize, so that a constant signal does not change.
  const sum = weights.reduce((all, weight) => all + weight, 0)
  return weights.map((weight) => weight / sum)
}

const sinc = (x: number): number => (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x))
const blackman = (x: number): number => 0.42 + 0.5 * Math.cos(Math.PI * x) + 0.08 * Math.cos(2 * Math.PI * x)

const greatestCommonDivisor = (a: number, b: number): number => (b === 0 ? a : greatestCommonDivisor(b, a % b))
