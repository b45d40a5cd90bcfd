import type { ByteCursor, Scan } from "./ByteCursor.ts"
import { type Measurement, unreadable } from "./Measurement.ts"

/** More than any recording has; what lies beyond is not looked at. */
const MAX_TRACKS = 64

/** Enough of a box to read any field that counts, tables aside. */
const HEAD_BYTES = 32

/** Boxes that are nothing but a row of boxes. They are walked through without minding where they say they end: the types tell all. */
const containers = new Set(["moov", "trak", "mdia", "minf", "stbl", "mvex", "moof", "traf"])

/** Times are in ticks of the track. */
interface Track {
  id: number
  handler: string | undefined
  ticksPerSecond: number
  /** What the header claims; only believed where no sample says otherwise. */
  statedTicks: number
  sampleTicks: number
}

/** What was found on the way. */
interface Movie {
  readonly tracks: Array<Track>
  /** The track that is being described. */
  described: Track
  /** By track id: how long a fragment's sample lasts where the fragment does not say. */
  readonly defaultTicks: Map<number, number>
  /** The track and the default of the fragment that is being read. */
  fragment: { readonly track: Track | undefined; readonly defaultTicks: number } | undefined
  mediaBytes: number
}

/**
 * Length of the longest audio track of an MP4: the sum of its samples' durations, from the sample table, from fragments or
 * both. The media's own boxes may come before or after the description, so one pass is enough.
 */
export function* mp4Duration(cursor: ByteCursor): Scan<Measurement> {
  const movie: Movie = {
    tracks: [],
    described: newTrack(),
    defaultTicks: new Map(),
    fragment: undefined,
    mediaBytes: 0,
  }
  while (yield* cursor.need(8)) {
    const type = cursor.ascii(4, 4)
    const payload = yield* skipBoxHeader(cursor)
    if (payload === undefined) break
    if (containers.has(type)) enter(movie, type)
    else if (type === "mdat") movie.mediaBytes += yield* cursor.skip(payload)
    else yield* cursor.skip(payload - (yield* readBox(cursor, movie, type, payload)))
  }
  return conclude(movie)
}

const conclude = (movie: Movie): Measurement => {
  const audio = movie.tracks.filter((track) => track.handler === "soun" && track.ticksPerSecond > 0)
  if (audio.length === 0) return unreadable("mp4: no audio track is described")
  if (movie.mediaBytes === 0) return unreadable("mp4: no media data")
  const seconds = Math.max(
    ...audio.map((track) => (track.sampleTicks > 0 ? track.sampleTicks : track.statedTicks) / track.ticksPerSecond),
  )
  return { seconds: seconds > 0 ? seconds : undefined }
}

/** Payload bytes of the box that begins here, `Infinity` for "up to the end"; `undefined` where no box can begin. */
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

const enter = (movie: Movie, type: string): void => {
  if (type === "traf") movie.fragment = undefined
  if (type !== "trak") return
  movie.described = newTrack()
  if (movie.tracks.length < MAX_TRACKS) movie.tracks.push(movie.described)
}

const newTrack = (): Track => ({ id: 0, handler: undefined, ticksPerSecond: 0, statedTicks: 0, sampleTicks: 0 })

/** Reads the boxes that count, and returns how much of the payload it moved past. */
function* readBox(cursor: ByteCursor, movie: Movie, type: string, payload: number): Scan<number> {
  const track = movie.described
  const headBytes = Math.min(payload, HEAD_BYTES)
  if (headBytes < 8 || !(yield* cursor.need(headBytes))) return 0
  const isLong = cursor.u8(0) === 1
  const holds = (bytes: number): boolean => headBytes >= bytes
  if (type === "tkhd" && holds(isLong ? 24 : 16)) track.id = cursor.u32(isLong ? 20 : 12)
  // The first handler is the track's own; QuickTime writes a second one, of the data.
  if (type === "hdlr" && holds(12)) track.handler ??= cursor.ascii(8, 4)
  if (type === "mdhd" && holds(isLong ? 32 : 20)) {
    track.ticksPerSecond = cursor.u32(isLong ? 20 : 12)
    const ticks = isLong ? cursor.u64(24) : cursor.u32(16)
    track.statedTicks = ticks === 0xffff_ffff || ticks === 2 ** 64 ? 0 : ticks
  }
  if (type === "trex" && holds(16) && movie.defaultTicks.size < MAX_TRACKS)
    movie.defaultTicks.set(cursor.u32(4), cursor.u32(12))
  if (type === "tfhd") movie.fragment = fragmentHeader(cursor, movie, headBytes)
  if (type === "stts") return yield* addSampleTable(cursor, track, payload)
  if (type === "trun" && movie.fragment) return yield* addTrackRun(cursor, movie.fragment, payload)
  return 0
}

const fragmentHeader = (cursor: ByteCursor, movie: Movie, headBytes: number): Movie["fragment"] => {
  const flags = cursor.u24(1)
  const id = cursor.u32(4)
  const at = 8 + (flags & 0x1 ? 8 : 0) + (flags & 0x2 ? 4 : 0)
  const stated = flags & 0x8 && headBytes >= at + 4 ? cursor.u32(at) : undefined
  return {
    track: movie.tracks.find((track) => track.id === id),
    defaultTicks: stated ?? movie.defaultTicks.get(id) ?? 0,
  }
}

/** `stts`: rows of a count of samples and the duration each of them has. */
function* addSampleTable(cursor: ByteCursor, track: Track, payload: number): Scan<number> {
  const rows = Math.min(cursor.u32(4), Math.floor((payload - 8) / 8))
  yield* cursor.skip(8)
  for (let row = 0; row < rows; row++) {
    if (!(yield* cursor.need(8))) break
    track.sampleTicks += cursor.u32(0) * cursor.u32(4)
    yield* cursor.skip(8)
  }
  return 8 + rows * 8
}

/** `trun`: a count of samples, and for each those fields the flags name, the duration first. */
function* addTrackRun(cursor: ByteCursor, fragment: NonNullable<Movie["fragment"]>, payload: number): Scan<number> {
  const flags = cursor.u24(1)
  const samples = cursor.u32(4)
  const ownHead = 8 + (flags & 0x1 ? 4 : 0) + (flags & 0x4 ? 4 : 0)
  const { track, defaultTicks } = fragment
  if (track === undefined) return 0
  if (!(flags & 0x100)) {
    // One product, not a loop: the count is only a claim, and four billion samples fit in twelve bytes.
    track.sampleTicks += samples * defaultTicks
    return 0
  }
  const rowBytes = [0x100, 0x200, 0x400, 0x800].filter((field) => flags & field).length * 4
  const rows = Math.min(samples, Math.floor((payload - ownHead) / rowBytes))
  if (rows <= 0) return 0
  yield* cursor.skip(ownHead)
  for (let row = 0; row < rows; row++) {
    if (!(yield* cursor.need(4))) break
    track.sampleTicks += cursor.u32(0)
    yield* cursor.skip(rowBytes)
  }
  return ownHead + rows * rowBytes
}
