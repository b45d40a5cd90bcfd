import type { ByteCursor, Scan } from "./ByteCursor.ts"
import { tallyFrames } from "./frameTally.ts"
import { type Measurement, type SecondLook, unreadable } from "./Measurement.ts"
import { type Fragment, readFragmentHeader, readRun, type SampleDefaults } from "./mp4Fragment.ts"
import { lookAtPackets } from "./mp4Packets.ts"
import { readTable } from "./mp4Tables.ts"
import {
  addTally,
  hasSamplesToFind,
  isSound,
  type Mp4Media,
  type Mp4Track,
  newTrack,
  samplesOf,
  secondsOf,
} from "./mp4Track.ts"
import { tableBudget } from "./SampleMap.ts"
import { readSoundEntry } from "./soundEntry.ts"

/** More than any recording has. */
const MAX_TRACKS = 64
const MAX_DEPTH = 16

/** Number of bytes sufficient for any relevant field of a box, except tables. */
const HEAD_BYTES = 32

/** Maximum number of bytes read from a sample description. */
const MAX_DESCRIPTION_BYTES = 4096

/** Boxes that only contain other boxes. */
const containers = new Set(["moov", "trak", "mdia", "minf", "stbl", "edts", "mvex", "moof", "traf"])

/** State of the scan. */
interface Movie {
  readonly tracks: Array<Mp4Track>
  /** The track of the boxes being read. */
  described: Mp4Track
  ticksPerSecond: number
  /** By track id. */
  readonly defaults: Map<number, SampleDefaults>
  moofStart: number
  fragment: Fragment | undefined
  readonly media: Mp4Media
  readonly budget: ReturnType<typeof tableBudget>
  /** True for a file with features that decoders support and this probe does not, or that decoders disagree about. */
  isOdd: boolean
}

/**
 * Measures the longest audio track of an MP4: the duration of its samples by count and codec, or the duration stated in
 * its tables and fragments, whichever is longer. The media data may come before or after the description. Only Opus needs
 * a second pass, because its durations are stored in the packets.
 */
export function* mp4Duration(cursor: ByteCursor): Scan<Measurement | SecondLook> {
  const budget = tableBudget()
  const movie: Movie = {
    tracks: [],
    described: newTrack(budget),
    ticksPerSecond: 0,
    defaults: new Map(),
    moofStart: 0,
    fragment: undefined,
    media: { bytes: 0, tallies: { mpeg: 0, adts: 0 }, opusSeconds: new Map() },
    budget,
    isOdd: false,
  }
  /** End offsets of the boxes being read. */
  const ends: Array<number> = []
  while (yield* cursor.need(8)) {
    while (cursor.position >= (ends.at(-1) ?? Infinity)) ends.pop()
    const end = ends.at(-1) ?? Infinity
    const start = cursor.position
    const type = cursor.ascii(4, 4)
    const payload = yield* skipBoxHeader(cursor)
    if (payload === undefined) {
      // No box can begin here; the parent continues at its end.
      if (end === Infinity) break
      yield* cursor.skip(end - cursor.position)
    } else if (containers.has(type)) {
      enter(movie, type, start)
      if (ends.length === MAX_DEPTH) movie.isOdd = true
      else ends.push(Math.min(end, cursor.position + payload))
    } else yield* readBox(cursor, movie, type, Math.min(payload, end - cursor.position), ends.length === 0)
  }
  return conclude(movie)
}

/** Reads a box header and returns the payload length in bytes, `Infinity` for "up to the end"; `undefined` if no box can begin here. */
function* skipBoxHeader(cursor: ByteCursor): Scan<number | undefined> {
  const size = cursor.u32(0)
  if (size === 1) {
    if (!(yield* cursor.need(16))) return undefined
    const longSize = cursor.u64(8)
    yield* cursor.skip(16)
    return longSize < 16 ? undefined : longSize - 16
  }
  if (size !== 0 && size < 8) return undefined
  yield* cursor.skip(8)
  return size === 0 ? Infinity : size - 8
}

const enter = (movie: Movie, type: string, start: number): void => {
  if (type === "moof") movie.moofStart = start
  if (type === "traf") movie.fragment = undefined
  if (type !== "trak") return
  movie.described = newTrack(movie.budget)
  if (movie.tracks.length < MAX_TRACKS) movie.tracks.push(movie.described)
  else movie.isOdd = true
}

/** Moves past the payload of a box, and reads it if it is relevant. */
function* readBox(cursor: ByteCursor, movie: Movie, type: string, payload: number, isOuter: boolean): Scan<void> {
  const end = cursor.position + payload
  const headBytes = Math.max(0, Math.min(payload, HEAD_BYTES))
  if (!isOuter && headBytes >= 8 && (yield* cursor.need(headBytes)))
    if (type === "stsd") yield* readDescription(cursor, movie, payload)
    else if (type === "trun") yield* readRunOf(cursor, movie, payload)
    else {
      readHead(cursor, movie, type, headBytes)
      yield* readTable(cursor, movie.described, type, payload)
    }
  const bytes = Math.max(0, end - cursor.position)
  if (!isOuter) yield* cursor.skip(bytes)
  else {
    // Samples may be stored in any top-level box, whatever its name.
    const tally = yield* tallyFrames(cursor, bytes)
    addTally(movie.media, tally)
    if (type === "mdat") movie.media.bytes += tally.bytes
  }
}

function* readDescription(cursor: ByteCursor, movie: Movie, payload: number): Scan<void> {
  const track = movie.described
  const bytes = Math.min(payload, MAX_DESCRIPTION_BYTES)
  if (!(yield* cursor.need(bytes))) return
  // The track was measured by its first description, so a second one is suspicious.
  track.codec = track.codec === undefined ? readSoundEntry(cursor.bytes(0, bytes)) : "unmeasured"
}

function* readRunOf(cursor: ByteCursor, movie: Movie, payload: number): Scan<void> {
  if (movie.fragment !== undefined) yield* readRun(cursor, movie.fragment, payload)
}

/** Reads the relevant fields of boxes with a fixed layout. */
const readHead = (cursor: ByteCursor, movie: Movie, type: string, headBytes: number): void => {
  const track = movie.described
  const isLong = cursor.u8(0) === 1
  const holds = (bytes: number): boolean => headBytes >= bytes
  if (type === "cmov") movie.isOdd = true
  if (type === "mvhd" && holds(isLong ? 24 : 16)) movie.ticksPerSecond = cursor.u32(isLong ? 20 : 12)
  if (type === "tkhd" && holds(isLong ? 24 : 16)) track.id = cursor.u32(isLong ? 20 : 12)
  // The first handler describes the track; QuickTime writes a second one for the data.
  if (type === "hdlr" && holds(12)) track.handler ??= cursor.ascii(8, 4)
  if (type === "mdhd" && holds(isLong ? 24 : 16)) track.ticksPerSecond = cursor.u32(isLong ? 20 : 12)
  if (type === "trex" && holds(20) && movie.defaults.size < MAX_TRACKS)
    movie.defaults.set(cursor.u32(4), { ticks: cursor.u32(12), bytes: cursor.u32(16) })
  if (type === "tfhd")
    movie.fragment = readFragmentHeader(cursor, headBytes, movie.tracks, movie.defaults, movie.moofStart)
}

const conclude = (movie: Movie): Measurement | SecondLook => {
  const sounds = movie.tracks.filter(isSound)
  if (sounds.length === 0) return unreadable("mp4: no audio track found")
  if (movie.media.bytes === 0) return unreadable("mp4: no media data")
  const ids = new Set(movie.tracks.map((track) => track.id))
  if (movie.isOdd || ids.size < movie.tracks.length) return unreadable("mp4: ambiguous description")
  const played = sounds.filter((track) => samplesOf(track) > 0)
  if (played.length === 0) return unreadable("mp4: no samples")
  if (played.some((track) => typeof track.codec !== "object")) return unreadable("mp4: unsupported codec")
  if (movie.tracks.length > sounds.length && played.some(isMpeg))
    return unreadable("mp4: MPEG audio together with video is not supported")
  const toFind = played.filter((track) => hasSamplesToFind(track))
  if (toFind.length === 0) return longest(movie, played)
  if (toFind.some((track) => track.map.isPartial)) {
    const atLeast = longest(movie, played)
    return atLeast.seconds > MAX_MAPPED_SECONDS ? atLeast : unreadable("mp4: Opus packets not found")
  }
  return {
    *secondLook(cursor) {
      yield* lookAtPackets(cursor, toFind, movie.media.opusSeconds)
      return longest(movie, played)
    },
  }
}

const isMpeg = ({ codec }: Mp4Track): boolean => typeof codec === "object" && codec.type === "mpeg"

/** Recordings beyond this length are measured approximately. */
const MAX_MAPPED_SECONDS = 1000

const longest = (movie: Movie, tracks: ReadonlyArray<Mp4Track>): { readonly seconds: number } => ({
  seconds: Math.max(
    0,
    ...tracks.map((track) =>
      typeof track.codec === "object" ? secondsOf(track, track.codec, movie.media, movie.ticksPerSecond) : 0,
    ),
  ),
})
