/** A recording that is not decoded yet. */
export interface Recording {
  readonly sampleRate: number
  /** Samples of each channel. */
  readonly length: number
  /** Returns samples from -1 to 1 with all channels mixed, and silence outside the recording. */
  readonly read: (from: number, count: number) => Float32Array
}

type ReadSample = (view: DataView, at: number) => number

/** Readers by format tag and bits: integers (1) and floating point (3). */
const sampleFormats: Readonly<Record<string, ReadSample>> = {
  "1/8": (view, at) => (view.getUint8(at) - 128) / 0x80,
  "1/16": (view, at) => view.getInt16(at, true) / 0x8000,
  "1/24": (view, at) => (view.getUint16(at, true) + view.getInt8(at + 2) * 0x10000) / 0x800000,
  "1/32": (view, at) => view.getInt32(at, true) / 0x80000000,
  "3/32": (view, at) => view.getFloat32(at, true),
  "3/64": (view, at) => view.getFloat64(at, true),
}
const EXTENSIBLE = 0xfffe

/** Supported sample rates. Far outside them, the filter table would be as long as the recording. */
const sampleRates = { lowest: 4_000, highest: 192_000 }

/** Opens a WAV file of uncompressed samples. Returns a string with the reason if it cannot be read. */
export const openWav = (file: Uint8Array): Recording | string => {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength)
  const { data, format } = findChunks(view)
  if (format === undefined || data === undefined) return "a wav file without format or without data"
  const channels = view.getUint16(format + 2, true)
  const sampleRate = view.getUint32(format + 4, true)
  const bits = view.getUint16(format + 14, true)
  const tag = formatTag(view, format)
  const readSample = sampleFormats[`${tag}/${bits}`]
  if (readSample === undefined || channels === 0) return `a wav file of format ${tag} with ${bits} bits`
  if (sampleRate < sampleRates.lowest || sampleRate > sampleRates.highest) return `a wav file of ${sampleRate} Hz`
  const bytesPerSample = bits / 8
  const frameBytes = bytesPerSample * channels
  const length = Math.floor((data.to - data.from) / frameBytes)
  const read: Recording["read"] = (from, count) => {
    const mixed = new Float32Array(count)
    for (let i = Math.max(0, -from); i < count && from + i < length; i++) {
      const frame = data.from + (from + i) * frameBytes
      let sum = 0
      for (let channel = 0; channel < channels; channel++) sum += readSample(view, frame + channel * bytesPerSample)
      mixed[i] = sum / channels
    }
    return mixed
  }
  return { sampleRate, length, read }
}

/** Returns the sample format. Files with more than two channels use the extensible format tag. */
const formatTag = (view: DataView, format: number): number => {
  const tag = view.getUint16(format, true)
  return tag === EXTENSIBLE && format + 26 <= view.byteLength ? view.getUint16(format + 24, true) : tag
}

const idAt = (view: DataView, at: number): string =>
  String.fromCharCode(...[0, 1, 2, 3].map((i) => view.getUint8(at + i)))

/** Finds the format and the samples. A length past the end, as in a file still being written, means "to the end". */
const findChunks = (view: DataView) => {
  let format: number | undefined
  let at = 12
  while (at + 8 <= view.byteLength) {
    const from = at + 8
    const bytes = view.getUint32(at + 4, true)
    const id = idAt(view, at)
    if (id === "data") {
      const to = bytes === 0 ? view.byteLength : Math.min(view.byteLength, from + bytes)
      return { format, data: { from, to } }
    }
    if (id === "fmt " && bytes >= 16 && from + 16 <= view.byteLength) format = from
    at = from + bytes + (bytes % 2)
  }
  return { format, data: undefined }
}

/** Writes the real lengths into a WAV file that was written to a pipe, whose header could not be updated. */
export const withLengths = (file: Uint8Array): Uint8Array | undefined => {
  if (file.length < 44) return undefined
  // Not `slice`, which returns a view of a Buffer.
  const whole = Uint8Array.from(file)
  const view = new DataView(whole.buffer)
  if (idAt(view, 0) !== "RIFF" || idAt(view, 36) !== "data") return undefined
  view.setUint32(4, whole.length - 8, true)
  view.setUint32(40, whole.length - 44, true)
  return whole
}
