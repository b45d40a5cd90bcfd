import type { ByteCursor, Scan } from "./ByteCursor.ts"
import { numberAt } from "./ebmlNumber.ts"
import { type Measurement, unreadable } from "./Measurement.ts"
import { opusPacketMs } from "./opusDuration.ts"

/** An id and a size. */
const MAX_HEAD_BYTES = 12

/** More than any recording has; what lies beyond is not looked at. */
const MAX_TRACKS = 64

/** Enough of any element that counts. */
const MAX_VALUE_BYTES = 64

const Id = {
  segment: 0x18538067,
  info: 0x1549a966,
  timestampScale: 0x2ad7b1,
  duration: 0x4489,
  tracks: 0x1654ae6b,
  trackEntry: 0xae,
  trackNumber: 0xd7,
  trackType: 0x83,
  codecId: 0x86,
  defaultDuration: 0x23e383,
  cluster: 0x1f43b675,
  clusterTimestamp: 0xe7,
  simpleBlock: 0xa3,
  blockGroup: 0xa0,
  block: 0xa1,
  blockDuration: 0x9b,
} as const

/** Elements that hold elements. They are walked through without minding where they say they end (a live recording does not say): the ids tell all. */
const containers = new Set<number>([Id.segment, Id.info, Id.tracks, Id.trackEntry, Id.cluster, Id.blockGroup])

/** Times are in ticks, of `nsPerTick`. */
interface Track {
  number: number
  isAudio: boolean
  isOpus: boolean
  defaultNs: number
  firstTick: number | undefined
  lastTick: number
  /** Between the last two blocks: how long the last one plays, where nothing says it. */
  lastGap: number
  /** Nothing says how long the last block plays. */
  isGuessed: boolean
  /** Of what is known to play. */
  endTick: number
}

interface Recording {
  nsPerTick: number
  statedTicks: number | undefined
  readonly tracks: Array<Track>
  /** The track that is being described. */
  described: Track
  clusterTick: number
  /** The audio track of the latest block, which a duration that follows belongs to. */
  blockOf: Track | undefined
  /** Something was met that is no element. */
  damaged: boolean
}

/**
 * Length of the longest audio track of a WebM: from its first block to the end of its last. The stated duration is the
 * last resort: browsers leave it out, and it stays the same when the file is cut.
 */
export function* webmDuration(cursor: ByteCursor): Scan<Measurement> {
  const recording: Recording = {
    nsPerTick: 1_000_000,
    statedTicks: undefined,
    tracks: [],
    described: newTrack(),
    clusterTick: 0,
    blockOf: undefined,
    damaged: false,
  }
  while (yield* cursor.need(2)) {
    yield* cursor.need(MAX_HEAD_BYTES)
    const id = numberAt(cursor, 0, 4)
    const size = id && numberAt(cursor, id.bytes, 8)
    if (id === undefined || size === undefined || (size.isUnknown && !containers.has(id.raw))) {
      recording.damaged = true
      yield* toNextCluster(cursor)
      continue
    }
    yield* cursor.skip(id.bytes + size.bytes)
    if (containers.has(id.raw)) enter(recording, id.raw)
    else yield* cursor.skip(size.value - (yield* readElement(cursor, recording, id.raw, size.value)))
  }
  return conclude(recording)
}

const conclude = (recording: Recording): Measurement => {
  const audio = recording.tracks.filter((track) => track.isAudio)
  if (audio.length === 0) return unreadable("webm: no audio track is described")
  const heard = audio.flatMap(ticksHeard)
  // Multiplied first: a whole second stays a whole one, and is not billed as the next.
  const secondsOf = (ticks: number): number => (ticks * recording.nsPerTick) / 1e9
  if (heard.length > 0) return { seconds: secondsOf(Math.max(...heard)) }
  if (!recording.damaged) return unreadable("webm: no audio data")
  const stated = secondsOf(recording.statedTicks ?? NaN)
  return { seconds: stated > 0 && stated < Infinity ? stated : undefined }
}

/** Decoders go on at the next cluster after damage; so does the measuring, or a byte would hide all that follows it. */
function* toNextCluster(cursor: ByteCursor): Scan<void> {
  do cursor.seek(0x1f)
  while ((yield* cursor.need(4)) && cursor.u32(0) !== Id.cluster)
}

const enter = (recording: Recording, id: number): void => {
  if (id === Id.blockGroup) recording.blockOf = undefined
  if (id !== Id.trackEntry) return
  recording.described = newTrack()
  if (recording.tracks.length < MAX_TRACKS) recording.tracks.push(recording.described)
}

const newTrack = (): Track => ({
  number: 0,
  isAudio: false,
  isOpus: false,
  defaultNs: 0,
  firstTick: undefined,
  lastTick: 0,
  lastGap: 0,
  isGuessed: false,
  endTick: 0,
})

/** Reads the elements that count, and returns how much of them it moved past. */
function* readElement(cursor: ByteCursor, recording: Recording, id: number, size: number): Scan<number> {
  if (id === Id.simpleBlock || id === Id.block) return yield* readBlock(cursor, recording, size)
  if (size > MAX_VALUE_BYTES || !(yield* cursor.need(size))) return 0
  const track = recording.described
  switch (id) {
    case Id.timestampScale:
      recording.nsPerTick = unsigned(cursor, size) || 1_000_000
      break
    case Id.duration:
      if (size === 4 || size === 8) recording.statedTicks = size === 4 ? cursor.f32(0) : cursor.f64(0)
      break
    case Id.trackNumber:
      track.number = unsigned(cursor, size)
      break
    case Id.trackType:
      track.isAudio = unsigned(cursor, size) === 2
      break
    case Id.codecId:
      track.isOpus = cursor.ascii(0, size).startsWith("A_OPUS")
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
  return 0
}

const unsigned = (cursor: ByteCursor, size: number): number => {
  let value = 0
  for (let i = 0; i < Math.min(size, 8); i++) value = value * 256 + cursor.u8(i)
  return value
}

/** A block: its track's number, its time relative to the cluster's, flags, and frames. Only whole blocks count: of a cut one nothing plays. */
function* readBlock(cursor: ByteCursor, recording: Recording, size: number): Scan<number> {
  if (!(yield* cursor.need(Math.min(size, 16)))) return 0
  const number = numberAt(cursor, 0, 8)
  if (number === undefined || size < number.bytes + 4) return 0
  const at = number.bytes
  const tick = recording.clusterTick + cursor.i16(at)
  const isLaced = (cursor.u8(at + 2) & 0x06) !== 0
  const packetMs = isLaced ? undefined : opusPacketMs(cursor.u8(at + 3), size > at + 4 ? cursor.u8(at + 4) : undefined)
  const track = recording.tracks.find((candidate) => candidate.isAudio && candidate.number === number.value)
  const isWhole = (yield* cursor.skip(size)) === size
  recording.blockOf = isWhole ? track : undefined
  if (isWhole && track) extend(track, tick, playTicks(track, packetMs, recording.nsPerTick))
  return size
}

/** What a block's own codec or its track say about how long it plays. */
const playTicks = (track: Track, packetMs: number | undefined, nsPerTick: number): number | undefined => {
  if (track.isOpus && packetMs !== undefined) return (packetMs * 1e6) / nsPerTick
  return track.defaultNs > 0 ? track.defaultNs / nsPerTick : undefined
}

const extend = (track: Track, tick: number, ticks: number | undefined): void => {
  if (track.firstTick !== undefined && tick > track.lastTick) track.lastGap = tick - track.lastTick
  track.firstTick = Math.min(track.firstTick ?? tick, tick)
  track.lastTick = tick
  track.isGuessed = true
  if (ticks !== undefined) playFor(track, ticks)
}

const playFor = (track: Track, ticks: number): void => {
  track.isGuessed = false
  track.endTick = Math.max(track.endTick, track.lastTick + ticks)
}

const ticksHeard = (track: Track): ReadonlyArray<number> =>
  track.firstTick === undefined
    ? []
    : [Math.max(track.endTick, track.lastTick + (track.isGuessed ? track.lastGap : 0)) - track.firstTick]
