import { type Box, viewOf } from "@kiln/core/media"
import { MediaUnreadable } from "@kiln/core/ports"
import { type Measurement, unreadable } from "../Measurement.ts"
import type { Walk, Work } from "../Work.ts"
import { ambiguous, field, u64 } from "./fields.ts"
import type { Movie, Track } from "./Movie.ts"
import { MovieReader } from "./MovieReader.ts"
import { measureSamples } from "./measureSamples.ts"

/**
 * Measures the longest audio track of an MP4: the frames in its samples, or the durations in its tables if they are longer. A file
 * whose description could be read in two ways, or that holds much that is in no track, is unreadable.
 */
export function* measureMp4(file: Uint8Array, work: Work): Walk<Measurement> {
  try {
    const movie = yield* new MovieReader(file, work).read()
    const sounds = movie.tracks.filter(({ codec }) => codec !== undefined)
    if (sounds.length === 0) throw unreadable("mp4: no audio track found")
    const played = sounds.filter(({ samples }) => samples.count > 0)
    if (played.length === 0) throw unreadable("mp4: no samples")
    checkCoverage(file, movie)
    let seconds = 0
    for (const track of played) seconds = Math.max(seconds, yield* secondsOf(file, movie, track, work))
    return { seconds }
  } catch (cause) {
    if (cause instanceof MediaUnreadable) return cause
    throw cause
  }
}

/** The part of the content that may belong to no track, and as many bytes more. */
const MAX_OTHER = 0.1
const SLACK_BYTES = 65_536
/** The same for the media data. Recorders leave the descriptions of fragments in there. */
const MAX_UNUSED = 0.25
const MEDIA_SLACK_BYTES = 4_096

const checkCoverage = (file: Uint8Array, { coverage, mediaBytes, otherBytes }: Movie): void => {
  if (coverage.bytes > file.length) throw ambiguous("samples that overlap")
  const used = coverage.union()
  if (
    mediaBytes - used > MAX_UNUSED * mediaBytes + MEDIA_SLACK_BYTES ||
    otherBytes > MAX_OTHER * file.length + SLACK_BYTES
  )
    throw unreadable("mp4: much of the file belongs to no track")
}

/** Tables and samples may differ by this much: encoders round, and state the last duration or the first one differently. */
const TOLERANCE_SECONDS = 0.5
const TOLERANCE = 0.05

function* secondsOf(file: Uint8Array, movie: Movie, track: Track, work: Work): Walk<number> {
  if (track.codec === undefined) return 0
  const held = yield* measureSamples(file, track.codec, track.samples, work)
  const stated = track.samples.ticks / track.ticksPerSecond
  if (stated > 2 * held + TOLERANCE_SECONDS) throw unreadable("mp4: the tables state more than the samples hold")
  // Players go by the samples or by the tables.
  const seconds = stated > held + Math.max(TOLERANCE_SECONDS, TOLERANCE * held) ? stated : held
  return yield* editedSeconds(file, movie, track, seconds, work)
}

/** A decoder's delay, which is not played, is less. More is counted, because not all decoders leave it out. */
const MAX_DELAY_SECONDS = 0.5

const MAX_DELAY_FRAMES = 200

/** The same for blocks, whose packets in decoders may be longer. */
const MAX_BLOCKS_DELAY_SECONDS = 0.1

/** Parts of a track that are played after one another, as in a recording from which some were cut. */
const MAX_PARTS = 4

/** Returns how long a track is played: all of it, except for the padding that encoders add, or several times by its edit list. */
function* editedSeconds(file: Uint8Array, movie: Movie, track: Track, seconds: number, work: Work): Walk<number> {
  const { codec, edits, samples, ticksPerSecond } = track
  let played = 0
  let isInOrder = true
  let from = 0
  let to = 0
  // Decoders apply edits to the samples in the movie only, not to fragments.
  for (const edit of edits === undefined || samples.tableCount === 0 ? [] : readEdits(file, edits)) {
    if (work.spend(1)) yield
    // Silence at the beginning is a delay, which decoders do not play.
    if (edit.ticks === -1 && played === 0) continue
    if (edit.ticks < -1) throw ambiguous("an edit of negative time")
    const duration = edit.movieTicks === 0 ? Infinity : edit.movieTicks / (movie.ticksPerSecond || 1)
    played++
    from = edit.ticks
    isInOrder &&= from >= to
    to = from + duration * ticksPerSecond
  }
  if (played > 1) {
    // Decoders play whole frames, so each part of many may be much longer than it says.
    const isOnce = isInOrder && played <= MAX_PARTS && codec?.type === "aac"
    return isOnce ? seconds + (2 * played * seconds) / samples.count : seconds * played
  }
  return Math.max(0, seconds - (yield* delayOf(file, track, from, work)))
}

/** Returns how much of the beginning decoders leave out for an edit from `from`, in ticks: whole frames by their times, and a part. */
function* delayOf(file: Uint8Array, track: Track, from: number, work: Work): Walk<number> {
  const { codec, samples, tables, ticksPerSecond } = track
  const times = tables.get("stts")
  if (codec === undefined || times === undefined) return 0
  if (from === 0) return codec.type === "opus" ? limited(codec.preSkip / 48_000) : 0
  if (codec.type === "blocks" || from > MAX_DELAY_SECONDS * ticksPerSecond)
    return Math.min(limited(from / ticksPerSecond), MAX_BLOCKS_DELAY_SECONDS)
  const frameTicks = Math.max(1, field(file, times, 12))
  const frames = Math.min(field(file, times, 8), Math.floor(from / frameTicks), MAX_DELAY_FRAMES)
  const before = frames === 0 ? 0 : yield* measureSamples(file, codec, samples.first(frames), work)
  const through = yield* measureSamples(file, codec, samples.first(frames + 1), work)
  return limited(before + Math.min(through - before, (from - frames * frameTicks) / ticksPerSecond))
}

const limited = (seconds: number): number => (seconds <= MAX_DELAY_SECONDS ? seconds : 0)

function* readEdits(file: Uint8Array, box: Box) {
  const view = viewOf(file)
  const isLong = file[box.body] === 1
  const rowBytes = isLong ? 20 : 12
  const end = box.body + 8 + field(file, box, 4) * rowBytes
  if (end > box.end) throw ambiguous("elst is cut short")
  for (let at = box.body + 8; at < end; at += rowBytes)
    yield isLong
      ? { movieTicks: u64(file, at), ticks: Number(view.getBigInt64(at + 8)) }
      : { movieTicks: view.getUint32(at), ticks: view.getInt32(at + 4) }
}
