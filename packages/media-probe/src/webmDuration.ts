import type { ByteCursor, Scan } from "./ByteCursor.ts"
import { numberAt } from "./ebmlNumber.ts"
import { type Measurement, unreadable } from "./Measurement.ts"
import { readVorbisModes } from "./vorbisPackets.ts"
import { readFrameSizes } from "./webmLacing.ts"
import { addPacket, extend, isMeasured, newTrack, playFor, secondsHeard, type WebmTrack } from "./webmTrack.ts"

/** An id and a size. */
const MAX_HEAD_BYTES = 12

/** More than any recording has; further tracks are ignored. */
const MAX_TRACKS = 64

/** Number of bytes sufficient for any relevant element. */
const MAX_VALUE_BYTES = 64

/** Number of bytes sufficient for the three Vorbis header packets. */
const MAX_PRIVATE_BYTES = 65_536

/** Larger elements may be garbage, or may claim a false size to hide the data that follows. */
const MAX_TRUSTED_BYTES = 8192

/** More than 256 audio packets take; a block holds at most 256. */
const MAX_BLOCK_BYTES = 1_048_576

const Id = {
  segment: 0x18538067,
  info: 0x1549a966,
  timestampScale: 0x2ad7b1,
  tracks: 0x1654ae6b,
  trackEntry: 0xae,
  trackNumber: 0xd7,
  trackType: 0x83,
  codecId: 0x86,
  codecPrivate: 0x63a2,
  contentEncodings: 0x6d80,
  defaultDuration: 0x23e383,
  cluster: 0x1f43b675,
  clusterTimestamp: 0xe7,
  simpleBlock: 0xa3,
  blockGroup: 0xa0,
  block: 0xa1,
  blockDuration: 0x9b,
} as const

/** Elements that hold elements. The walk ignores their stated ends (live recordings state none) and relies on the ids. */
const containers = new Set<number>([Id.segment, Id.info, Id.tracks, Id.trackEntry, Id.cluster, Id.blockGroup])

interface Recording {
  nsPerTick: number
  readonly tracks: Array<WebmTrack>
  /** The track of the elements being read. */
  described: WebmTrack
  clusterTick: number
  /** The audio track of the latest block; a following duration belongs to it. */
  blockOf: WebmTrack | undefined
  /** True after a block of a track that was not described before it. */
  hasStrangers: boolean
  /** True for a file with features that decoders support and this probe does not, or that decoders disagree about. */
  isOdd: boolean
}

/**
 * Measures the longest audio track of a WebM: from its first block to the end of its last, or the sum of its packets,
 * whichever is longer. The stated duration is ignored: browsers omit it, and it does not change when the file is truncated.
 */
export function* webmDuration(cursor: ByteCursor): Scan<Measurement> {
  const recording: Recording = {
    nsPerTick: 1_000_000,
    tracks: [],
    described: newTrack(),
    clusterTick: 0,
    blockOf: undefined,
    hasStrangers: false,
    isOdd: false,
  }
  while (cursor.available >= MAX_HEAD_BYTES || (yield* cursor.need(2))) {
    if (cursor.available < MAX_HEAD_BYTES) yield* cursor.need(MAX_HEAD_BYTES)
    const id = numberAt(cursor, 0, 4)
    const size = id && numberAt(cursor, id.bytes, 8)
    if (id === undefined || size === undefined || (size.isUnknown && !containers.has(id.raw))) {
      cursor.advance(1)
      yield* toNextCluster(cursor, Infinity)
      continue
    }
    cursor.advance(id.bytes + size.bytes)
    if (containers.has(id.raw)) enter(recording, id.raw)
    else yield* readElement(cursor, recording, id.raw, size.value)
  }
  return conclude(recording)
}

const conclude = (recording: Recording): Measurement => {
  const audio = recording.tracks.filter((track) => track.isAudio)
  if (audio.length === 0) return unreadable("webm: no audio track found")
  if (recording.isOdd) return unreadable("webm: ambiguous description")
  const heard = audio.filter((track) => track.firstTick !== undefined)
  if (heard.length === 0) return unreadable("webm: no audio data")
  if (!heard.every(isMeasured)) return unreadable("webm: unsupported codec")
  return { seconds: Math.max(0, ...heard.map((track) => secondsHeard(track, recording.nsPerTick) ?? 0)) }
}

/** Continues at the next cluster after damage, as decoders do. Otherwise one bad byte would hide the rest of the file. */
function* toNextCluster(cursor: ByteCursor, bytes: number): Scan<boolean> {
  const end = cursor.position + bytes
  while (yield* cursor.need(4)) {
    if (cursor.seekWord(Id.cluster, end - cursor.position)) return true
    if (cursor.position >= end) return false
    yield* cursor.need(cursor.available + 1)
  }
  yield* cursor.skip(end - cursor.position)
  return false
}

const enter = (recording: Recording, id: number): void => {
  if (id === Id.blockGroup) recording.blockOf = undefined
  if (id !== Id.trackEntry) return
  recording.described = newTrack()
  // Decoders that search for the description first also play the blocks before it.
  if (recording.tracks.length === MAX_TRACKS || recording.hasStrangers) recording.isOdd = true
  else recording.tracks.push(recording.described)
}

/** Moves past an element without children, and reads it if it is relevant. */
function* readElement(cursor: ByteCursor, recording: Recording, id: number, size: number): Scan<void> {
  if (id === Id.simpleBlock || id === Id.block) yield* readBlock(cursor, recording, size)
  else {
    const isRead = size <= (id === Id.codecPrivate ? MAX_PRIVATE_BYTES : MAX_VALUE_BYTES)
    if (isRead && (yield* cursor.need(size))) readValue(cursor, recording, id, size)
    if (id === Id.contentEncodings) recording.described.isEncoded = true
    yield* size > MAX_TRUSTED_BYTES ? toNextCluster(cursor, size) : cursor.skip(size)
  }
}

const readValue = (cursor: ByteCursor, recording: Recording, id: number, size: number): void => {
  const track = recording.described
  switch (id) {
    case Id.timestampScale:
      recording.nsPerTick = unsigned(cursor, size) || 1_000_000
      break
    case Id.trackNumber:
      track.number = unsigned(cursor, size)
      break
    case Id.trackType:
      track.isAudio = unsigned(cursor, size) === 2
      break
    case Id.codecId:
      track.codec = cursor.ascii(0, size).replace(/\0+$/, "")
      break
    case Id.codecPrivate:
      track.vorbis = readVorbisModes(cursor.bytes(0, size))
      break
    case Id.defaultDuration:
      track.defaultNs = unsigned(cursor, size)
      break
    case Id.clusterTimestamp:
      recording.clusterTick = unsigned(cursor, size)
      break
    case Id.blockDuration: {
      const block = recording.blockOf
      if (block) playFor(block, unsigned(cursor, size))
      break
    }
  }
}

const unsigned = (cursor: ByteCursor, size: number): number => {
  let value = 0
  for (let i = 0; i < Math.min(size, 8); i++) value = value * 256 + cursor.u8(i)
  return value
}

/** Reads a block: track number, time relative to the cluster, flags, and frames. Truncated blocks do not play and do not count. */
function* readBlock(cursor: ByteCursor, recording: Recording, size: number): Scan<void> {
  recording.blockOf = undefined
  const end = cursor.position + size
  if (size > MAX_TRUSTED_BYTES) {
    yield* cursor.need(8)
    const number = numberAt(cursor, 0, 8)
    const isAudio = recording.tracks.some((track) => track.isAudio && track.number === number?.value)
    if (isAudio && size > MAX_BLOCK_BYTES) recording.isOdd = true
    if (!isAudio || size > MAX_BLOCK_BYTES) {
      yield* toNextCluster(cursor, size)
      return
    }
  }
  if (!(yield* cursor.need(size))) {
    yield* cursor.skip(size)
    return
  }
  const number = numberAt(cursor, 0, 8)
  if (number !== undefined && size >= number.bytes + 4) {
    const known = recording.tracks.filter((candidate) => candidate.number === number.value)
    const track = known.find((candidate) => candidate.isAudio)
    if (known.length === 0) recording.hasStrangers = true
    const tick = recording.clusterTick + cursor.i16(number.bytes)
    const lacing = (cursor.u8(number.bytes + 2) >> 1) & 3
    yield* cursor.skip(number.bytes + 3)
    if (track !== undefined) readFrames(cursor, recording, { track, tick, lacing, end })
  }
  yield* cursor.skip(end - cursor.position)
}

const readFrames = (
  cursor: ByteCursor,
  recording: Recording,
  block: { readonly track: WebmTrack; readonly tick: number; readonly lacing: number; readonly end: number },
): void => {
  const { track } = block
  const sizes = readFrameSizes(cursor, block.lacing, block.end - cursor.position)
  if (sizes === undefined) return
  let seconds: number | undefined
  for (const size of sizes) {
    const packet = size > 0 ? addPacket(track, cursor.u8(0), size > 1 ? cursor.u8(1) : undefined) : undefined
    if (packet !== undefined) seconds = (seconds ?? 0) + packet
    cursor.advance(size)
  }
  recording.blockOf = track
  extend(track, block.tick, playTicks(track, seconds, recording.nsPerTick))
}

/** Returns the duration of a block according to its codec or its track. A Vorbis packet tells the duration of the previous one. */
const playTicks = (track: WebmTrack, seconds: number | undefined, nsPerTick: number): number | undefined => {
  if (track.vorbis === undefined && seconds !== undefined) return (seconds * 1e9) / nsPerTick
  return track.defaultNs > 0 ? track.defaultNs / nsPerTick : undefined
}
