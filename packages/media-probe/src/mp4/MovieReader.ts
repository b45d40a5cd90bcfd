import { type Box, boxAt, startsWith, viewOf } from "@kiln/core/media"
import { unreadable } from "../Measurement.ts"
import type { Walk, Work } from "../Work.ts"
import { elementaryStream, isPicture } from "./elementaryStream.ts"
import { FragmentReader } from "./FragmentReader.ts"
import { ambiguous, field, fourCharacters, u64 } from "./fields.ts"
import type { Movie, Track } from "./Movie.ts"
import { Coverage, Samples } from "./Samples.ts"
import { contents, isPlaced, known, same, strict, structure } from "./places.ts"
import { readTable } from "./sampleTable.ts"
import { isSoundFormat, soundBoxesAt, soundCodec } from "./soundCodec.ts"
import { isZero } from "./zeros.ts"
import { MIN_PROBE, signatureIn } from "../codecs/otherStream.ts"

/** More than any recording has. */
const MAX_TRACKS = 64
const MAX_ENTRIES = 16
const MAX_INDEXED = 100_000

/** Boxes for padding. In front of all others, this part of a file and as many bytes may be padding other than zeros. */
const padding = new Set(["free", "skip", "wide"])
const MAX_PADDING = 0.1
const MAX_PADDING_BYTES = 65_536

/** Boxes from which decoders take the codec or the type of a track that is neither sound nor video. */
const codecBoxes = ["hdlr", "esds", "wave", "alac", "dOps", "dfLa", "dac3", "dec3", "frma"]
const MAX_OTHER_ENTRY_BYTES = 65_536

/** Bytes of the fields with which every description begins. */
const COMMON_ENTRY_BYTES = 16

/** Steps of work to enter a box. */
const BOX_STEPS = 4

/** Handlers by which decoders choose the type of a track. */
const typeHandlers = new Set(["soun", "vide", "subp", "clcp", "m1a "])

/** Reads the description of a movie and finds the samples of its tracks. */
export class MovieReader {
  readonly #file: Uint8Array
  readonly #work: Work
  readonly #movie: Movie = {
    ticksPerSecond: 0,
    tracks: [],
    defaults: new Map(),
    coverage: new Coverage(),
    mediaBytes: 0,
    otherBytes: 0,
  }
  readonly #fragments: FragmentReader
  /** The track of the boxes that are being read. */
  #track = newTrack()
  /** The boxes of a sample entry, by type. */
  readonly #details = new Map<string, Box>()
  /** Offsets that an index names. */
  readonly #indexed = new Set<number>()

  constructor(file: Uint8Array, work: Work) {
    this.#file = file
    this.#work = work
    this.#fragments = new FragmentReader(file, this.#movie, work)
  }

  *read(): Walk<Movie> {
    const file = this.#file
    const movie = this.#movie
    const seen = new Set<string>()
    let paddingBytes = 0
    if (!isCertainlyMovie(file)) throw ambiguous("a file that decoders may not take for a movie")
    let at = 0
    for (let box = boxAt(file, at, file.length); box !== undefined; box = boxAt(file, at, file.length)) {
      if (this.#work.spend(1)) yield
      if (box.type !== "free") this.#indexed.delete(at)
      at = Math.min(box.end, file.length)
      if (isPlaced("file", box, seen)) {
        if (box.type === "mdat") movie.mediaBytes += Math.max(0, at - box.body)
        else if (box.end <= file.length) {
          if (yield* this.#isCopied(box)) this.#fragments.skipCopy()
          else yield* this.#box("file", box)
        } else if (box.type === "moov") throw unreadable("mp4: the description is cut short")
      } else if (!structure.has(box.type)) movie.otherBytes += at - box.body
      // A server's note that the index at the end counts, which may name any offset.
      else if (startsWith(file, box.body, "Anevia\x1a\x1a")) throw ambiguous("an index of fragments")
      else if (seen.size === 0 && padding.has(box.type) && !(yield* isZero(file, box.body, at, this.#work)))
        paddingBytes += at - box.body
    }
    movie.otherBytes += file.length - at + Math.max(0, paddingBytes - MAX_PADDING * file.length - MAX_PADDING_BYTES)
    if (this.#indexed.size > 0) throw ambiguous("an index that names no fragment")
    return movie
  }

  /** Returns whether the next box is the same fragment again, which some recorders write at the end. */
  *#isCopied(box: Box): Walk<boolean> {
    const bytes = box.end - box.start
    if (box.type !== "moof" || box.end + bytes > this.#file.length) return false
    if (this.#work.spend(BOX_STEPS + (bytes >> 10))) yield
    const { buffer, byteOffset } = this.#file
    const both = Buffer.from(buffer, byteOffset + box.start, 2 * bytes)
    return both.subarray(0, bytes).equals(both.subarray(bytes))
  }

  /** Reads the boxes from `from` to `to`, which are the content of a box of the type `parent`. */
  *#boxes(parent: string, from: number, to: number): Walk<void> {
    if (this.#work.spend(BOX_STEPS)) yield
    const seen = new Set<string>()
    let at = from
    while (at + 8 <= to) {
      if (this.#work.spend(1)) yield
      const box = boxAt(this.#file, at, to)
      if (box === undefined || box.end > to) {
        if (strict.has(parent) || (box !== undefined && known.has(box.type)))
          throw ambiguous(`a box that does not fit ${parent}`)
        return
      }
      if (isPlaced(parent, box, seen)) yield* this.#box(parent, box)
      at = box.end
    }
    if (parent === "mdia" && !seen.has("minf")) throw ambiguous("a track without description")
  }

  *#box(parent: string, box: Box): Walk<void> {
    const file = this.#file
    const track = this.#track
    const longBytes = file[box.body] === 1 ? 8 : 0
    switch (box.type) {
      case "mvhd":
        this.#movie.ticksPerSecond = field(file, box, 12 + longBytes)
        return
      case "tkhd":
        track.id = field(file, box, 12 + longBytes)
        return
      case "mdhd":
        if ((file[box.body] ?? 0) > 1) throw ambiguous("mdhd of an unknown version")
        track.ticksPerSecond = field(file, box, 12 + longBytes)
        return
      case "trak":
        return yield* this.#trak(box)
      case "hdlr":
        return this.#handler(parent, box)
      case "stsd":
        return yield* this.#descriptions(box)
      case "stts":
      case "stsc":
      case "stsz":
      case "stz2":
      case "stco":
      case "co64":
        track.tables.set(same[box.type] ?? box.type, box)
        return
      case "elst":
        track.edits = box
        return
      case "dref":
        if (track.handler === "soun") this.#reference(box)
        return
      case "trex":
        if (this.#movie.defaults.size < MAX_TRACKS)
          this.#movie.defaults.set(field(file, box, 4), { ticks: field(file, box, 12), bytes: field(file, box, 16) })
        return
      case "sidx":
        return this.#index(box)
      case "tfdt":
        return this.#fragments.time()
      case "tfhd":
        return this.#fragments.header(box)
      case "trun":
        return yield* this.#fragments.run(box)
      case "meta":
        return yield* this.#meta(box)
      case "esds":
        if (parent === "picture" && !isPicture(elementaryStream(file, box)))
          throw ambiguous("a stream of another type in a description of pictures")
    }
    if (parent === "sound" || parent === "wave") {
      // The entry and the box in it may state the same.
      if (this.#details.has(box.type) && box.type !== "chan") throw ambiguous(`a second ${box.type} in a sample entry`)
      this.#details.set(box.type, box)
    }
    if (box.type === "moof") this.#fragments.begin(box)
    if (contents.has(box.type)) yield* this.#boxes(box.type, box.body, box.end)
  }

  *#trak(box: Box): Walk<void> {
    const { tracks } = this.#movie
    if (tracks.length === MAX_TRACKS) throw ambiguous(`more than ${MAX_TRACKS} tracks`)
    const track = newTrack()
    this.#track = track
    yield* this.#boxes("trak", box.body, box.end)
    if (track.handler === "") throw ambiguous("a track without description")
    if (track.id === 0 || tracks.some(({ id }) => id === track.id)) throw ambiguous("tracks of the same number")
    if (track.ticksPerSecond === 0) throw ambiguous("a track without time scale")
    tracks.push(track)
    yield* readTable(this.#file, track, this.#movie.coverage, this.#work)
  }

  #handler(parent: string, box: Box): void {
    field(this.#file, box, 8)
    const handler = fourCharacters(this.#file, box.body + 8)
    if (parent === "mdia" && handler !== "m1a ") this.#track.handler = handler
    else if (typeHandlers.has(handler)) throw ambiguous(`the handler ${handler} in ${parent}`)
  }

  /** Reads the sample entries of the track. */
  *#descriptions(box: Box): Walk<void> {
    const file = this.#file
    const track = this.#track
    const isSound = track.handler === "soun"
    const count = field(file, box, 4)
    if (count === 0 || count > (isSound ? 1 : MAX_ENTRIES)) throw ambiguous(`${count} descriptions of one track`)
    let at = box.body + 8
    for (let index = 0; index < count; index++) {
      const entry = boxAt(file, at, box.end)
      if (entry === undefined || entry.body !== at + 8 || entry.end > box.end || entry.end < at + 16)
        throw ambiguous("a description that is cut short")
      at = entry.end
      if (isSound) {
        this.#details.clear()
        yield* this.#boxes("sound", soundBoxesAt(file, entry, file[box.body] ?? 0), entry.end)
        track.codec = soundCodec(file, entry, this.#details, track.ticksPerSecond)
      } else {
        // Some decoders go by the entry alone. The one of a stream of any type may be sound too.
        if (isSoundFormat(entry.type) || entry.type === "mp4s")
          throw unreadable(`mp4: ${entry.type} in a track that is not called sound`)
        if (track.handler !== "vide") {
          if (this.#work.spend(1 + ((entry.end - entry.start) >> 8))) yield
          this.#checkOther(entry)
        }
        yield* this.#boxes("picture", pictureBoxesAt(file, entry), entry.end)
      }
    }
  }

  /** Requires that the description of a track that is neither sound nor video has no box that would make it sound. */
  #checkOther(entry: Box): void {
    const { buffer, byteOffset } = this.#file
    const from = entry.start + COMMON_ENTRY_BYTES
    const bytes = Buffer.from(buffer, byteOffset + from, entry.end - from)
    const type = codecBoxes.find((name) => bytes.includes(name, 0, "latin1"))
    if (type !== undefined) throw ambiguous(`${type} in ${entry.type}`)
    if (bytes.length > MAX_OTHER_ENTRY_BYTES) throw ambiguous("a description that is too long")
  }

  *#meta(box: Box): Walk<void> {
    if (box.end < box.body + 16) return
    // QuickTime has no version in front of the boxes.
    const from = [0, 4].map((version) => box.body + version).find((at) => fourCharacters(this.#file, at + 4) === "hdlr")
    if (from === undefined) throw ambiguous("meta without a handler")
    yield* this.#boxes("meta", from, box.end)
  }

  /** Requires that the media data are in this file. */
  #reference(box: Box): void {
    const count = field(this.#file, box, 4)
    let at = box.body + 8
    for (let index = 0; index < count; index++) {
      const entry = boxAt(this.#file, at, box.end)
      if (entry === undefined || entry.end > box.end || (field(this.#file, entry, 0) & 1) === 0)
        throw unreadable("mp4: the media data are in another file")
      at = entry.end
    }
  }

  /** Notes the offsets that an index names. Decoders that jump there find what walks do not. */
  #index(box: Box): void {
    const file = this.#file
    const isLong = file[box.body] === 1
    const offsetAt = box.body + (isLong ? 20 : 16)
    const count = field(file, box, isLong ? 28 : 20) & 0xffff
    let offset = box.end + (isLong ? u64(file, offsetAt) : viewOf(file).getUint32(offsetAt))
    for (let index = 0; index < count; index++) {
      if (offset >= file.length) return
      if (this.#indexed.size === MAX_INDEXED) throw ambiguous("an index that is too long")
      this.#indexed.add(offset)
      offset += field(file, box, (isLong ? 32 : 24) + 12 * index) & 0x7fff_ffff
    }
  }
}

const newTrack = (): Track => ({
  id: 0,
  handler: "",
  ticksPerSecond: 0,
  codec: undefined,
  tables: new Map(),
  edits: undefined,
  samples: new Samples(),
})

/** Returns the offset of the boxes in a description of pictures. Such fields precede them in every description that has boxes. */
const pictureBoxesAt = (file: Uint8Array, entry: Box): number => {
  const at = entry.start + 86
  if (at > entry.end) return entry.end
  const depth = viewOf(file).getUint16(at - 4) & 0x1f
  const hasPalette = viewOf(file).getUint16(at - 2) === 0 && [1, 2, 4, 8].includes(depth)
  if (hasPalette && entry.end > at + 8) throw ambiguous("a palette in a description of pictures")
  return at
}

/** Boxes by which decoders are sure of a movie, and those by which they prefer a few other formats. */
const sure = new Set(["moov", "mdat", "pnot", "udta", "ftyp"])
const common = new Set(["free", "wide"])

/** Bytes in which decoders look for a sign that a movie is a wrapped MPEG program stream. */
const MAX_PROBE = 2 ** 20

/** Returns whether decoders, which compare all formats, choose this one by the beginning of a file. */
const isCertainlyMovie = (file: Uint8Array): boolean => {
  const { buffer, byteOffset } = file
  if (Buffer.from(buffer, byteOffset, Math.min(file.length, MAX_PROBE)).includes("mhlrMPEG")) return false
  let isCommon = false
  const end = Math.min(file.length, MIN_PROBE)
  for (let at = 0; at + 8 <= end;) {
    const box = boxAt(file, at, end)
    if (box === undefined) break
    if (sure.has(box.type)) return !(box.type === "ftyp" && images.some((brand) => startsWith(file, box.body, brand)))
    isCommon ||= common.has(box.type)
    at = box.end
  }
  return isCommon && signatureIn(file.subarray(0, end)) === undefined
}

/** Brands of images, which begin like movies. */
const images = ["jp2 ", "jpx ", "jxl "]
