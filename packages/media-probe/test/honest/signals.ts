import { wav } from "../support/files.ts"

export type Layout = "mono" | "stereo" | "dual-mono" | "surround"

/** A test signal. It is always written as 16-bit PCM at its own rate. */
export interface Signal {
  readonly kind: SignalKind
  readonly rate: number
  readonly layout: Layout
  readonly seconds: number
}

export type SignalKind = (typeof signalKinds)[number]

export const signalKinds = [
  "speech",
  "music",
  "tone-30",
  "tone-100",
  "tone-440",
  "tone-1000",
  "tone-3000",
  "tone-8000",
  "white-noise",
  "pink-noise",
  "quiet-noise",
  "clipped-speech",
  "quiet-speech",
  "silence",
  "square",
  "sweep",
  "alternating",
  "clicks",
] as const

const channelCounts: Readonly<Record<Layout, number>> = { mono: 1, stereo: 2, "dual-mono": 2, surround: 6 }

const channelsOf = (signal: Signal): number => channelCounts[signal.layout]

/** The signal's part of a file name. */
export const signalName = ({ kind, layout, rate, seconds }: Signal): string => `${kind}-${rate}-${layout}-${seconds}s`

/** Returns true for signals made from recorded speech. */
export const isSpeech = ({ kind }: Signal): boolean => kind.endsWith("speech")

/** Returns a WAV file of the signal. `speech` is mono, at `SPEECH_RATE`, and repeated as often as needed. */
export const signalFile = (signal: Signal, speech: Int16Array): Buffer => {
  const channels = channelsOf(signal)
  const samples = samplesOf(signal, speech)
  return wav({
    rate: signal.rate,
    channels,
    data: Buffer.from(samples.buffer, samples.byteOffset, samples.byteLength),
  })
}

/** Returns the interleaved samples of a signal. */
const samplesOf = (signal: Signal, speech: Int16Array): Int16Array => {
  const channels = channelsOf(signal)
  const frames = Math.round(signal.rate * signal.seconds)
  const samples = new Int16Array(frames * channels)
  for (let channel = 0; channel < channels; channel++) {
    const wave = waveOf(signal, signal.layout === "dual-mono" ? 0 : channel, speech)
    const level = signal.layout === "stereo" && channel === 1 ? 0.8 : 1
    for (let frame = 0; frame < frames; frame++) {
      const value = Math.max(-1, Math.min(1, wave(frame) * level))
      samples[frame * channels + channel] = Math.round(value * 32_767)
    }
  }
  return samples
}

/** The sample rate of espeak-ng. */
export const SPEECH_RATE = 22_050

/** Returns a function that must be called with 0, 1, 2, … */
const waveOf = ({ kind, rate, seconds }: Signal, channel: number, speech: Int16Array): ((frame: number) => number) => {
  const random = randomFrom(channel + 1)
  const sine = (hertz: number) => (frame: number) =>
    0.7 * Math.sin((2 * Math.PI * hertz * frame) / rate + channel * 0.6)
  const spoken = (level: number) => (frame: number) => {
    const at = (frame * SPEECH_RATE) / rate + channel * 300
    const whole = Math.floor(at)
    const one = speech[whole % speech.length] ?? 0
    const two = speech[(whole + 1) % speech.length] ?? 0
    return ((one + (two - one) * (at - whole)) / 32_768) * level
  }
  switch (kind) {
    case "speech":
      return spoken(1)
    case "clipped-speech":
      return spoken(12)
    case "quiet-speech":
      return spoken(0.01)
    case "music":
      return musicOf(rate, channel)
    case "tone-30":
    case "tone-100":
    case "tone-440":
    case "tone-1000":
    case "tone-3000":
    case "tone-8000":
      return sine(Math.min(Number(kind.slice(5)), rate * 0.45))
    case "white-noise":
      return () => random() * 0.8
    case "pink-noise":
      return pinkNoise(random)
    case "quiet-noise":
      return () => random() * 0.0006
    case "silence":
      return () => 0
    case "square":
      return (frame) => (Math.floor((frame * 440 * 2) / rate) % 2 === 0 ? 0.9 : -0.9)
    case "sweep":
      return (frame) => {
        const t = frame / rate
        return 0.7 * Math.sin(2 * Math.PI * (40 * t + ((rate * 0.45 - 40) / (2 * seconds)) * t * t))
      }
    case "alternating":
      return (frame) => (frame % 2 === 0 ? 1 : -1)
    case "clicks":
      return (frame) => (frame % Math.round(rate / 5) < 3 ? 1 : 0)
  }
}

/** Notes of a scale, with overtones and a noise burst on every beat. */
const musicOf = (rate: number, channel: number): ((frame: number) => number) => {
  const random = randomFrom(77 + channel)
  const scale = [220, 247.5, 275, 293.3, 330, 366.7, 412.5, 440]
  return (frame) => {
    const t = frame / rate
    const beat = Math.floor(t * 4)
    const since = t * 4 - beat
    const note = scale[(beat * 5 + channel * 2) % scale.length] ?? 220
    const fade = Math.exp(-2 * since)
    const tones =
      Math.sin(2 * Math.PI * note * t) +
      0.5 * Math.sin(2 * Math.PI * note * 1.5 * t) +
      0.3 * Math.sin(2 * Math.PI * note * 2 * t)
    return 0.35 * tones * fade + random() * 0.3 * Math.exp(-30 * since)
  }
}

const pinkNoise = (random: () => number): (() => number) => {
  let slow = 0
  let medium = 0
  let fast = 0
  return () => {
    const white = random()
    slow = 0.997 * slow + white * 0.029
    medium = 0.985 * medium + white * 0.032
    fast = 0.95 * fast + white * 0.048
    return slow + medium + fast + white * 0.05
  }
}

/** Returns a generator of pseudorandom numbers from -1 to 1. */
export const randomFrom = (seed: number): (() => number) => {
  let state = seed * 0x9e37_79b9
  return () => {
    state = (state + 0x6d2b_79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x8000_0000 - 1
  }
}
