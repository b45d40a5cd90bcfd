import type { Recording } from "./wav.ts"

/** Zero crossings of the filter on each side: sharp enough for speech. */
const crossings = 16
/** How much of the band stays when the rate goes down; the rest is the slope of the filter. */
const kept = 0.92
const blockSamples = 4_000

/**
 * The recording at another sample rate, in blocks of 16-bit samples. A windowed sinc lets nothing above the new rate's half
 * through: taking the nearest samples instead would fold hiss into the voice. In blocks, so that a long file neither
 * fills the memory nor keeps everybody else waiting.
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
      // Not a number stays silence: a file of floating point numbers may hold anything.
      block[i] = Math.max(-0x8000, Math.min(0x7fff, Math.round((sum || 0) * 0x7fff)))
    }
    yield block
  }
}

/** Weights of the input samples around a point that lies `fraction` of a sample behind one. */
const lowPass = (fraction: number, cutoff: number, reach: number): Float32Array => {
  const weights = Float32Array.from({ length: 2 * reach }, (_, tap) => {
    const x = tap - reach + 1 - fraction
    return cutoff * sinc(cutoff * x) * blackman(x / reach)
  })
  // A constant stays what it is.
  const sum = weights.reduce((all, weight) => all + weight, 0)
  return weights.map((weight) => weight / sum)
}

const sinc = (x: number): number => (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x))
const blackman = (x: number): number => 0.42 + 0.5 * Math.cos(Math.PI * x) + 0.08 * Math.cos(2 * Math.PI * x)

const greatestCommonDivisor = (a: number, b: number): number => (b === 0 ? a : greatestCommonDivisor(b, a % b))
