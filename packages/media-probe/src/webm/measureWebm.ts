import { limits } from "@kiln/core/domain"
import { type Element, elementAt, readEbmlNumber, viewOf } from "@kiln/core/media"
import { type Measurement, unreadable } from "../Measurement.ts"
import type { Walk, Work } from "../Work.ts"
import { readLacing } from "./lacing.ts"
import { childrenOf, readNumber, readTracks, sameBytes, type Track } from "./tracks.ts"

const Id = {
  ebml: 0x1a45dfa3,
  segment: 0x18538067,
  info: 0x1549a966,
  timestampScale: 0x2ad7b1,
  seekHead: 0x114d9b74,
  seek: 0x4dbb,
  tracks: 0x1654ae6b,
  cluster: 0x1f43b675,
  cues: 0x1c53bb6b,
  chapters: 0x1043a770,
  tags: 0x1254c367,
  attachments: 0x1941a469,
  clusterTimestamp: 0xe7,
  simpleBlock: 0xa3,
  blockGroup: 0xa0,
  block: 0xa1,
  blockDuration: 0x9b,
  discardPadding: 0x75a2,
  referenceBlock: 0xfb,
} as const

/**
 * Elements that end a cluster without a length: those directly inside a segment, and the beginning of another file, because
 * recordings are joined.
 */
const upper = new Set<number>([
  Id.ebml,
  Id.segment,
  Id.info,
  Id.seekHead,
  Id.tracks,
  Id.cluster,
  Id.cues,
  Id.chapters,
  Id.tags,
  Id.attachments,
])

/** Numbers inside a cluster; decoders take longer ones for damage. */
const numbers = new Set<number>([Id.clusterTimestamp, Id.blockDuration, Id.discardPadding, Id.referenceBlock])

/** Decoders look for these after damage. Elements that are skipped do not contain them, except for a table of contents. */
const hidden = [Id.cluster, Id.tracks].map((id) => Buffer.from(Uint32Array.of(id).buffer).swap32())

const holdsMedia = (bytes: Buffer): boolean => hidden.some((id) => bytes.includes(id))

/** Entries of a table of contents that are read, and filling between them. */
const MAX_SEEKS = 100
const MAX_FILLING_BYTES = 4_096

/** Share of the bytes of clusters that may be other than blocks of known tracks. */
const MAX_OTHER_SHARE = 0.1
const SPARE_BYTES = 256

/** A difference between packets and timestamps that rounding and the ends of a recording explain. */
const MAX_DIFFERENCE_SECONDS = 0.5

/** Thrown for a file that is not measured, with the reason. */
class Refused extends Error {}

/** Thrown where decoders stop, and search for the next cluster. */
class Damage extends Error {}

/** The state of a walk. */
interface Recording {
  tracks: ReadonlyArray<Track> | undefined
  described: Element | undefined
  info: Element | undefined
  nsPerTick: number
  clusterTick: number
  /** Bytes of blocks, and of everything else inside clusters and outside elements. */
  blockBytes: number
  otherBytes: number
  /** Sum of the longest track so far. */
  seconds: number
  /** Offset of the last element that decoders know, behind which they search after damage. */
  knownAt: number
}

/**
 * Measures the longest audio track of a WebM by the durations of its packets, or by its timestamps if they say more. The stated
 * duration is ignored: browsers omit it, and it does not change when the file is cut.
 *
 * Decoders search for clusters after damage, even inside other elements, so a file is unreadable if any follow. Damage at the end
 * of a file, or a missing end, only ends the recording.
 */
export function* measureWebm(file: Uint8Array, work: Work): Walk<Measurement> {
  const recording: Recording = {
    tracks: undefined,
    described: undefined,
    info: undefined,
    nsPerTick: 1_000_000,
    clusterTick: 0,
    blockBytes: 0,
    otherBytes: 0,
    seconds: 0,
    knownAt: 0,
  }
  try {
    yield* walk(file, work, recording)
  } catch (cause) {
    if (cause instanceof Refused) return unreadable(`webm: ${cause.message}`)
    if (!(cause instanceof Damage)) throw cause
    if (yield* hidesMedia(file, work, recording.knownAt + 1, file.length)) return unreadable("webm: damaged")
  }
  return conclude(recording)
}

const conclude = ({ blockBytes, nsPerTick, otherBytes, tracks = [] }: Recording): Measurement => {
  const audio = tracks.filter(({ packetSeconds }) => packetSeconds !== undefined)
  if (audio.length === 0) return unreadable("webm: no audio track found")
  const heard = audio.filter(({ seconds }) => seconds > 0)
  if (heard.length === 0) return unreadable("webm: no audio data")
  if (otherBytes > SPARE_BYTES + MAX_OTHER_SHARE * (blockBytes + otherBytes))
    return unreadable("webm: too little of the file belongs to its tracks")
  return { seconds: Math.max(...heard.map((track) => secondsHeard(track, nsPerTick))) }
}

const secondsHeard = (track: Track, nsPerTick: number): number => {
  const played = Math.max(0, track.seconds - track.delaySeconds - track.padSeconds)
  // Multiplied first, so that a whole second is not rounded up and billed as two.
  const shown = ((track.endTick - (track.firstTick ?? 0)) * nsPerTick) / 1e9
  return shown > played + MAX_DIFFERENCE_SECONDS ? shown : played
}

function* walk(file: Uint8Array, work: Work, recording: Recording): Walk<void> {
  let at = 0
  let segmentEnd = Infinity
  while (at < file.length) {
    if (work.spend(5)) yield
    if (at >= segmentEnd) segmentEnd = Infinity
    const element = elementAt(file, at, Infinity)
    const isMaster = element !== undefined && (element.id === Id.segment || element.id === Id.cluster)
    if (element === undefined || (element.isUnknown && !isMaster)) throw new Damage()
    if (element.end > segmentEnd) throw new Damage()
    if (upper.has(element.id)) recording.knownAt = element.start
    if (element.id === Id.segment) {
      segmentEnd = element.end
      at = element.body
    } else if (element.id === Id.cluster) {
      at = yield* walkCluster(file, work, recording, element)
      if (recording.seconds > limits.maxMeasuredSeconds + 60) return
    } else {
      yield* readUpper(file, work, recording, element)
      at = element.end
    }
  }
}

const bufferOf = (file: Uint8Array, from: number, to: number): Buffer =>
  Buffer.from(file.buffer, file.byteOffset + from, to - from)

/** Bytes that are searched without a pause. */
const SEARCH_BYTES = 65_536

/** Returns whether decoders that search this part of the file for media would find some. */
function* hidesMedia(file: Uint8Array, work: Work, from: number, to: number): Walk<boolean> {
  const end = Math.min(to, file.length)
  for (let at = from; at < end; at += SEARCH_BYTES) {
    // An id may begin in one piece and end in the next one.
    const part = bufferOf(file, at, Math.min(at + SEARCH_BYTES + 3, end))
    if (work.spend(1 + part.length / 512)) yield
    if (holdsMedia(part)) return true
  }
  return false
}

function* requireNothingHidden(file: Uint8Array, work: Work, { body, end }: Element): Walk<void> {
  if (yield* hidesMedia(file, work, body, end)) throw new Refused("media where none belongs")
}

/** Reads an element directly inside a segment, other than a cluster. */
function* readUpper(file: Uint8Array, work: Work, recording: Recording, element: Element): Walk<void> {
  if (element.id === Id.tracks && element.end <= file.length) {
    if (recording.tracks === undefined) {
      const tracks = readTracks(file, element)
      if (typeof tracks === "string") throw new Refused(tracks)
      recording.tracks = tracks
      recording.described = element
      // Recordings that were joined repeat their description.
    } else if (recording.described === undefined || !sameBytes(file, recording.described, element))
      throw new Refused("ambiguous description")
    return yield* requireNothingHidden(file, work, element)
  }
  if (element.id !== Id.seekHead || !areSeeks(file, element)) yield* requireNothingHidden(file, work, element)
  if (element.id !== Id.info) return
  // Another scale would change the times of blocks that were read.
  if (recording.info !== undefined && !sameBytes(file, recording.info, element))
    throw new Refused("ambiguous description")
  if (recording.info === undefined && recording.blockBytes > 0) throw new Refused("ambiguous description")
  recording.info = element
  const scale = childrenOf(file, element)?.filter(({ id }) => id === Id.timestampScale)
  if (scale === undefined || scale.length > 1) throw new Refused("ambiguous description")
  if (scale[0] !== undefined) recording.nsPerTick = readNumber(file, scale[0]) || 1_000_000
}

/** Returns whether a table of contents holds nothing but ids, offsets and filling. */
const areSeeks = (file: Uint8Array, seekHead: Element): boolean =>
  childrenOf(file, seekHead, MAX_SEEKS)?.every((child) =>
    child.id === Id.seek
      ? childrenOf(file, child)?.every(({ body, end }) => end - body <= 8) === true
      : child.end - child.body <= MAX_FILLING_BYTES && !holdsMedia(bufferOf(file, child.body, child.end)),
  ) === true

/** Reads the blocks of a cluster, and returns the offset after it. */
function* walkCluster(file: Uint8Array, work: Work, recording: Recording, cluster: Element): Walk<number> {
  recording.clusterTick = 0
  let at = cluster.body
  while (at < Math.min(cluster.end, file.length)) {
    if (work.spend(5)) yield
    const element = elementAt(file, at, cluster.end)
    if (cluster.isUnknown && element !== undefined && upper.has(element.id)) return at
    if (element === undefined || element.isUnknown || element.end > Math.min(cluster.end, file.length))
      throw new Damage()
    if (readInCluster(file, work, recording, element)) recording.knownAt = element.start
    else {
      yield* requireNothingHidden(file, work, element)
      recording.otherBytes += element.end - element.start
    }
    if (recording.seconds > limits.maxMeasuredSeconds + 60) return file.length
    at = element.end
  }
  return cluster.end
}

/** Reads a block or the time of a cluster; returns false for any other element. */
const readInCluster = (file: Uint8Array, work: Work, recording: Recording, element: Element): boolean => {
  if (element.id === Id.simpleBlock) readBlock(file, work, recording, element)
  else if (element.id === Id.blockGroup) readBlockGroup(file, work, recording, element)
  else if (element.id === Id.clusterTimestamp) {
    if (element.end - element.body > 8) throw new Damage()
    recording.clusterTick = readNumber(file, element)
  } else return false
  recording.blockBytes += element.end - element.start
  return true
}

/** More than a block and what belongs to it. */
const MAX_GROUP_CHILDREN = 20

/** Reads a block with its duration and the samples at its end that do not play. */
const readBlockGroup = (file: Uint8Array, work: Work, recording: Recording, group: Element): void => {
  const children = childrenOf(file, group, MAX_GROUP_CHILDREN)
  work.spend(MAX_GROUP_CHILDREN)
  const blocks = children?.filter(({ id }) => id === Id.block)
  if (children === undefined || blocks === undefined || blocks.length > 1) throw new Damage()
  if (children.some(({ body, end, id }) => numbers.has(id) && end - body > 8)) throw new Damage()
  const [block] = blocks
  if (block === undefined) return
  const find = (id: number): number => {
    const element = children.findLast((child) => child.id === id)
    return element === undefined ? 0 : readNumber(file, element)
  }
  readBlock(file, work, recording, block, { ticks: find(Id.blockDuration), padSeconds: find(Id.discardPadding) / 1e9 })
}

/** Reads a block: track number, time relative to the cluster, flags, and frames. */
const readBlock = (
  file: Uint8Array,
  work: Work,
  recording: Recording,
  block: Element,
  { padSeconds, ticks }: { readonly ticks: number; readonly padSeconds: number } = { ticks: 0, padSeconds: 0 },
): void => {
  const number = readEbmlNumber(file, block.body)
  const track = number && recording.tracks?.find((candidate) => candidate.number === number.value)
  const body = block.body + (number?.bytes ?? 0) + 3
  if (track === undefined || body > block.end) throw new Damage()
  const offsets = readLacing(file, body, block.end, ((file[body - 1] ?? 0) >> 1) & 3)
  if (offsets === undefined) throw new Damage()
  // The walk pauses before the next element.
  work.spend(offsets.length)
  // Decoders take some subtitles for damage, and search for media from there.
  if (track.isSubtitles && holdsMedia(bufferOf(file, body, block.end))) throw new Refused("media where none belongs")
  if (track.packetSeconds === undefined) return
  let seconds = 0
  let last = 0
  for (let frame = 0; frame + 1 < offsets.length; frame++) {
    const played = track.packetSeconds(file, offsets[frame] ?? 0, offsets[frame + 1] ?? 0)
    if (played === undefined) throw new Refused("a description inside the stream")
    last = played
    seconds += played
  }
  const tick = recording.clusterTick + viewOf(file).getInt16(body - 3)
  track.firstTick = Math.min(track.firstTick ?? tick, tick)
  track.endTick = Math.max(track.endTick, tick + Math.max(ticks, (seconds * 1e9) / recording.nsPerTick))
  track.seconds += seconds
  // Only that of the last block counts: some decoders drop samples after each one. One longer than its frame is ignored.
  track.padSeconds = padSeconds <= last ? padSeconds : 0
  recording.seconds = Math.max(recording.seconds, track.seconds)
}
