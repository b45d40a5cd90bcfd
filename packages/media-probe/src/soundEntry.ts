/** The codec of an MP4 audio track, as far as it determines the duration of samples. */
export type SoundCodec =
  /** Every sample is a frame of a known length; a sample longer than `maxFrameBytes` counts as several. */
  | {
      readonly type: "frames"
      readonly samples: number
      readonly sampleRate: number
      readonly maxFrameBytes: number
      readonly mayBeAdts: boolean
    }
  | { readonly type: "pcm"; readonly frameBytes: number; readonly sampleRate: number }
  /** Self-describing frames. */
  | { readonly type: "mpeg" }
  | { readonly type: "opus" }

/** The highest rate of any hardware, and the highest of AAC. */
const MAX_SAMPLE_RATE = 768_000
const MAX_AAC_RATE = 96_000

/** Maximum bytes of an AAC frame per channel. */
const AAC_CHANNEL_BYTES = 768
const MAX_CHANNELS = 8

const aacRates = [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350]

// Unsupported codecs that decoders treat as sound, whatever the handler of their track.
const otherSounds = new Set([
  "ac-3",
  "ec-3",
  "ac-4",
  "samr",
  "sawb",
  "sawp",
  "fLaC",
  "enca",
  "dtsc",
  "dtsh",
  "dtsl",
  "dtse",
  "ima4",
  "MAC3",
  "MAC6",
  "QDM2",
  "QDMC",
  "Qclp",
  "agsm",
  "GSM ",
  "spex",
  "mlpa",
  "alas",
  "wma ",
  "owma",
  "OPUS",
  "WMA2",
  "mha1",
  "mhm1",
  "vdva",
])

/** Reads a sample description. `undefined`: not sound. `"unmeasured"`: sound in an unsupported codec. */
export const readSoundEntry = (description: Uint8Array): SoundCodec | "unmeasured" | undefined => {
  const view = new DataView(description.buffer, description.byteOffset, description.length)
  if (view.byteLength < 8 + 36) return undefined
  const format = asciiAt(description, 12)
  const sound = measured(format, description, view)
  if (sound !== undefined) return view.getUint32(4) === 1 ? sound : "unmeasured"
  return otherSounds.has(format) || format.startsWith("ms\0") ? "unmeasured" : undefined
}

const measured = (format: string, bytes: Uint8Array, view: DataView): SoundCodec | "unmeasured" | undefined => {
  switch (format) {
    case "mp4a":
      return readElementaryStream(bytes) ?? "unmeasured"
    case ".mp3":
    case ".mp2":
    case "ms\0U":
    case "ms\0P":
      return { type: "mpeg" }
    case "Opus":
      return { type: "opus" }
    case "alac":
      return readAlac(bytes, view) ?? "unmeasured"
    default: {
      const sampleBytes = pcmBytes(format, bytes, view)
      return sampleBytes === undefined ? undefined : (readPcm(sampleBytes, view) ?? "unmeasured")
    }
  }
}

const asciiAt = (bytes: Uint8Array, at: number): string => String.fromCharCode(...bytes.subarray(at, at + 4))

/** Searches for a box in the entry and returns the offset of its payload. Three layouts may precede it, and two of them are misleading. */
const findBox = (bytes: Uint8Array, type: string): number | undefined => {
  let found: number | undefined
  for (let at = 24; at + 4 <= bytes.length; at++) {
    if (asciiAt(bytes, at) !== type) continue
    if (found !== undefined) return undefined
    found = at + 4
  }
  return found
}

/** Reads `esds`: descriptors of a tag, a length in groups of seven bits, and a payload that may hold more descriptors. */
const readElementaryStream = (bytes: Uint8Array): SoundCodec | undefined => {
  const start = findBox(bytes, "esds")
  if (start === undefined) return undefined
  let at = start + 4
  let objectType = 0
  const next = (): number => bytes[at++] ?? 0
  while (at < bytes.length) {
    const tag = next()
    let length = 0
    for (let i = 0; i < 4; i++) {
      const byte = next()
      length = length * 128 + (byte & 0x7f)
      if (byte < 0x80) break
    }
    if (tag === 3) {
      const flags = bytes[at + 2] ?? 0
      at += 3
      if (flags & 0x80) at += 2
      if (flags & 0x40) at += 1 + (bytes[at] ?? 0)
      if (flags & 0x20) at += 2
    } else if (tag === 4) {
      objectType = next()
      if (objectType === 0x69 || objectType === 0x6b) return { type: "mpeg" }
      at += 12
    } else if (tag === 5) return readAac(objectType, bytes.subarray(at, at + length))
    else at += length
  }
  return undefined
}

/** Reads AudioSpecificConfig (ISO 14496-3, 1.6.2.1) for the profiles with frames of one length. */
const readAac = (objectType: number, config: Uint8Array): SoundCodec | undefined => {
  if (objectType !== 0x40 && !(objectType >= 0x66 && objectType <= 0x68)) return undefined
  let at = 0
  const bits = (count: number): number => {
    let value = 0
    for (const end = at + count; at < end; at++) value = value * 2 + (((config[at >> 3] ?? 0) >> (7 - (at & 7))) & 1)
    return value
  }
  const profile = (): number => {
    const short = bits(5)
    return short === 31 ? 32 + bits(6) : short
  }
  const rate = (): number | undefined => {
    const index = bits(4)
    return index === 15 ? bits(24) : aacRates[index]
  }
  let type = profile()
  const sampleRate = rate()
  const channels = bits(4)
  // SBR and parametric stereo: the rate read before is the rate of the inner frames.
  if (type === 5 || type === 29) {
    rate()
    type = profile()
  }
  const isShort = bits(1) === 1
  // Main, LC, SSR, LTP, and the low-delay ones.
  const samples =
    type >= 1 && type <= 4 ? (isShort ? 960 : 1024) : type === 23 || type === 39 ? (isShort ? 480 : 512) : 0
  if (samples === 0 || sampleRate === undefined || sampleRate < 1 || sampleRate > MAX_AAC_RATE) return undefined
  const maxFrameBytes = AAC_CHANNEL_BYTES * (channels === 0 || channels > 6 ? MAX_CHANNELS : channels)
  return { type: "frames", samples, sampleRate, maxFrameBytes, mayBeAdts: true }
}

/** Reads the magic cookie: samples per frame, and the rate, which the entry states too. */
const readAlac = (bytes: Uint8Array, view: DataView): SoundCodec | undefined => {
  const at = findBox(bytes, "alac")
  if (at === undefined || at + 28 > view.byteLength) return undefined
  const samples = view.getUint32(at + 4)
  const sampleRate = smallestRate(view.getUint32(at + 24), view.getUint16(8 + 32))
  if (samples === 0 || samples > 65_536 || sampleRate === undefined) return undefined
  return { type: "frames", samples, sampleRate, maxFrameBytes: Infinity, mayBeAdts: false }
}

const readPcm = (sampleBytes: number, view: DataView): SoundCodec | undefined => {
  const isSecondVersion = view.getUint16(8 + 16) === 2 && view.byteLength >= 8 + 52
  const channels = isSecondVersion ? view.getUint32(8 + 48) : view.getUint16(8 + 24)
  const sampleRate = smallestRate(isSecondVersion ? view.getFloat64(8 + 40) : view.getUint16(8 + 32))
  if (sampleRate === undefined || channels < 1 || channels > 64 || sampleBytes < 1 || sampleBytes > 8) return undefined
  return { type: "pcm", frameBytes: sampleBytes * channels, sampleRate }
}

/** Returns the smallest stated rate. Rates that do not fit their field are written as 0 and ignored. */
const smallestRate = (...rates: ReadonlyArray<number>): number | undefined => {
  const possible = rates.filter((rate) => rate >= 1 && rate <= MAX_SAMPLE_RATE)
  return possible.length === 0 ? undefined : Math.min(...possible)
}

/** Returns the bytes per sample; `undefined` if the format is not PCM. */
const pcmBytes = (format: string, bytes: Uint8Array, view: DataView): number | undefined => {
  switch (format) {
    case "raw ":
    case "ulaw":
    case "alaw":
      return 1
    case "NONE":
    case "twos":
    case "sowt":
      return view.getUint16(8 + 26) > 8 ? 2 : 1
    case "in24":
      return 3
    case "in32":
    case "fl32":
      return 4
    case "fl64":
      return 8
    case "lpcm":
      return view.byteLength >= 8 + 60 ? Math.ceil(view.getUint32(8 + 56) / 8) : 0
    case "ipcm":
    case "fpcm": {
      const at = findBox(bytes, "pcmC")
      return at === undefined ? 0 : Math.ceil((bytes[at + 5] ?? 0) / 8)
    }
    default:
      return undefined
  }
}
