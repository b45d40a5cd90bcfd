import { type Element, elementAt, viewOf } from "@kiln/core/media"
import { opusPacketMs } from "../codecs/opusPacket.ts"
import { blockOf, readVorbisModes } from "../codecs/vorbisPackets.ts"

/** More than any recording has, of tracks and of elements in one description. */
const MAX_TRACKS = 64
const MAX_CHILDREN = 1_000

/** Types of tracks beside audio. */
const VIDEO = 1
const SUBTITLES = 17

const Id = {
  trackEntry: 0xae,
  trackNumber: 0xd7,
  trackType: 0x83,
  codecId: 0x86,
  codecPrivate: 0x63a2,
  codecDelay: 0x56aa,
  contentEncodings: 0x6d80,
  audio: 0xe1,
  samplingFrequency: 0xb5,
  outputSamplingFrequency: 0x78b5,
  channels: 0x9f,
  bitDepth: 0x6264,
} as const

/** Returns the duration of one packet in seconds: 0 for one that does not play, `undefined` for one that changes how others play. */
export type PacketSeconds = (file: Uint8Array, at: number, end: number) => number | undefined

/** A track, and what its blocks have played so far. Times are in ticks of the segment. */
export interface Track {
  readonly number: number
  /** `undefined` for tracks that are not audio, which decoders do not play as sound. */
  readonly packetSeconds: PacketSeconds | undefined
  readonly isSubtitles: boolean
  /** Seconds at the beginning that decoders drop because the codec needs them to start. */
  readonly delaySeconds: number
  /** Seconds at the end of the last packet that decoders drop. */
  padSeconds: number
  /** Sum of the durations of its packets. */
  seconds: number
  firstTick: number | undefined
  endTick: number
}

/** Returns the elements inside `parent`; `undefined` if one does not fit, or has no length. */
export const childrenOf = (
  file: Uint8Array,
  parent: Element,
  most = MAX_CHILDREN,
): ReadonlyArray<Element> | undefined => {
  const children: Array<Element> = []
  for (let at = parent.body; at < parent.end;) {
    const child = elementAt(file, at, parent.end)
    if (child === undefined || child.isUnknown || child.end > parent.end || children.length === most) return undefined
    children.push(child)
    at = child.end
  }
  return children
}

/** Reads the description of all tracks. Returns a problem if it is ambiguous or names audio in a codec that is not measured. */
export const readTracks = (file: Uint8Array, tracks: Element): ReadonlyArray<Track> | string => {
  const found: Array<Track> = []
  const entries = childrenOf(file, tracks)?.filter(({ id }) => id === Id.trackEntry)
  if (entries === undefined || entries.length > MAX_TRACKS) return "ambiguous description"
  for (const entry of entries) {
    const track = readTrack(file, entry)
    if (typeof track === "string") return track
    // Decoders that look a track up by its number differ in which one they find.
    if (found.some(({ number }) => number === track.number)) return "ambiguous description"
    found.push(track)
  }
  return found
}

const readTrack = (file: Uint8Array, entry: Element): Track | string => {
  const children = childrenOf(file, entry)
  if (children === undefined) return "ambiguous description"
  const settings = childrenOf(file, children.find(({ id }) => id === Id.audio) ?? { ...entry, end: entry.body })
  if (settings === undefined) return "ambiguous description"
  const all = [...children, ...settings]
  // Of two values for one setting, decoders use the last or the first.
  const known = all.filter(({ id }) => Object.values(Id).some((of) => of === id))
  if (new Set(known.map(({ id }) => id)).size < known.length) return "ambiguous description"
  const find = (id: number): Element | undefined => known.find((element) => element.id === id)
  const number = (id: number, otherwise: number): number => {
    const element = find(id)
    return element === undefined ? otherwise : readNumber(file, element)
  }
  if (find(Id.contentEncodings) !== undefined) return "compressed or encrypted"
  const codecElement = find(Id.codecId)
  const codec = codecElement === undefined ? "" : text(file, codecElement)
  const type = number(Id.trackType, 0)
  const isAudio = type === 2
  if (isAudio !== codec.startsWith("A_")) return "ambiguous description"
  if (!isAudio && type !== VIDEO && type !== SUBTITLES) return "unsupported kind of track"
  const privateElement = find(Id.codecPrivate)
  const rate = Math.min(
    float(file, find(Id.samplingFrequency)) ?? 8000,
    float(file, find(Id.outputSamplingFrequency)) ?? Infinity,
  )
  const packetSeconds = isAudio
    ? packetSecondsOf(codec, {
        codecPrivate: privateElement && file.subarray(privateElement.body, privateElement.end),
        channels: number(Id.channels, 1),
        bits: number(Id.bitDepth, codec.endsWith("IEEE") ? 32 : 0),
        rate,
      })
    : undefined
  if (isAudio && packetSeconds === undefined) return "unsupported codec"
  return {
    number: number(Id.trackNumber, 0),
    packetSeconds,
    isSubtitles: type === SUBTITLES,
    delaySeconds: Math.min(MAX_DELAY_SECONDS, number(Id.codecDelay, 0) / 1e9),
    padSeconds: 0,
    seconds: 0,
    firstTick: undefined,
    endTick: 0,
  }
}

/** More than any encoder of speech or music needs to start. */
const MAX_DELAY_SECONDS = 0.1

interface Coding {
  readonly codecPrivate: Uint8Array | undefined
  readonly channels: number
  readonly bits: number
  readonly rate: number
}

/** Widths of samples that decoders read as they are stated. */
const floatBits = [32, 64]
const integerBits = [8, 16, 24, 32]

/** The highest rate of any hardware. */
const MAX_SAMPLE_RATE = 768_000

const packetSecondsOf = (codec: string, { bits, channels, codecPrivate, rate }: Coding): PacketSeconds | undefined => {
  switch (codec) {
    case "A_OPUS":
      return (file, at, end) =>
        at === end ? 0 : (opusPacketMs(file[at] ?? 0, at + 1 < end ? file[at + 1] : undefined) ?? 0) / 1000
    case "A_VORBIS":
      return codecPrivate && vorbisSeconds(codecPrivate)
    case "A_PCM/INT/LIT":
    case "A_PCM/INT/BIG":
    case "A_PCM/FLOAT/IEEE": {
      const frameBytes = (channels * bits) / 8
      const isKnown = (codec === "A_PCM/FLOAT/IEEE" ? floatBits : integerBits).includes(bits)
      return isKnown && channels >= 1 && rate >= 1 && rate <= MAX_SAMPLE_RATE
        ? (_, at, end) => Math.floor((end - at) / frameBytes) / rate
        : undefined
    }
    default:
      return undefined
  }
}

/** Blocks overlap by half of the shorter one, so a quarter of each of two neighbors plays. */
const vorbisSeconds = (codecPrivate: Uint8Array): PacketSeconds | undefined => {
  const modes = readVorbisModes(codecPrivate)
  if (modes === undefined) return undefined
  let lastSamples = 0
  return (file, at, end) => {
    // Decoders read a description again, and then play by it.
    if (end - at > 7 && (file[at] === 1 || file[at] === 5)) return undefined
    const block = at === end ? undefined : blockOf(modes, file[at] ?? 0)
    if (block === undefined) return 0
    const played = lastSamples === 0 ? 0 : (lastSamples + modes.blocks[block]) / 4
    lastSamples = modes.blocks[block]
    return played / modes.sampleRate
  }
}

/** Reads an unsigned number of up to 8 bytes. */
export const readNumber = (file: Uint8Array, { body, end }: Element): number => {
  let value = 0
  for (let at = body; at < end; at++) value = value * 256 + (file[at] ?? 0)
  return value
}

const float = (file: Uint8Array, element: Element | undefined): number | undefined => {
  if (element === undefined) return undefined
  const bytes = element.end - element.body
  return bytes === 4
    ? viewOf(file).getFloat32(element.body)
    : bytes === 8
      ? viewOf(file).getFloat64(element.body)
      : undefined
}

const text = (file: Uint8Array, { body, end }: Element): string =>
  String.fromCharCode(...file.subarray(body, Math.min(end, body + 64))).replace(/\0.*$/s, "")

export const sameBytes = (file: Uint8Array, one: Element, other: Element): boolean =>
  one.end - one.body === other.end - other.body &&
  Buffer.compare(file.subarray(one.body, one.end), file.subarray(other.body, other.end)) === 0
