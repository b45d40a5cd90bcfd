import { type Box, viewOf } from "@kiln/core/media"
import type { Walk, Work } from "../Work.ts"
import { ambiguous, field, u64 } from "./fields.ts"
import type { Movie, Track } from "./Movie.ts"

/** The part of a fragment that belongs to one track. */
interface Part {
  readonly track: Track
  readonly ticks: number
  readonly bytes: number
  /** Base of the offsets of its runs. */
  readonly base: number
  hasRuns: boolean
  hasTime: boolean
}

/** Reads the samples of fragments. */
export class FragmentReader {
  readonly #file: Uint8Array
  readonly #movie: Movie
  readonly #work: Work
  #fragmentStart = 0
  /** Offset of the next data without an offset of its own. */
  #next = 0
  #part: Part | undefined
  #isCopy = false
  #wasCopied = false

  constructor(file: Uint8Array, movie: Movie, work: Work) {
    this.#file = file
    this.#movie = movie
    this.#work = work
  }

  begin(fragment: Box): void {
    this.#fragmentStart = fragment.start
    this.#next = fragment.start
    this.#isCopy = this.#wasCopied
    this.#wasCopied = false
  }

  /** Notes that the next fragment is the same as one that was skipped. Decoders play one of them if they state their time. */
  skipCopy(): void {
    this.#wasCopied = true
  }

  /** Notes that the part of a track states its time. */
  time(): void {
    if (this.#part !== undefined) this.#part.hasTime = true
  }

  /** Reads `tfhd`. */
  header(box: Box): void {
    const flags = field(this.#file, box, 0)
    const id = field(this.#file, box, 4)
    const track = this.#movie.tracks.find((candidate) => candidate.id === id)
    const defaults = this.#movie.defaults.get(id)
    if (track === undefined || defaults === undefined) throw ambiguous("a fragment of an unknown track")
    let at = 8
    let base = flags & 0x02_0000 ? this.#fragmentStart : this.#next
    if (flags & 0x1) {
      field(this.#file, box, 12)
      base = u64(this.#file, box.body + at)
      at += 8
    }
    if (flags & 0x2) at += 4
    const ticks = flags & 0x8 ? field(this.#file, box, at) : defaults.ticks
    if (flags & 0x8) at += 4
    const bytes = flags & 0x10 ? field(this.#file, box, at) : defaults.bytes
    this.#part = { track, ticks, bytes, base, hasRuns: false, hasTime: false }
  }

  /** Reads `trun`: a count of samples, and for each the fields that the flags name. */
  *run(box: Box): Walk<void> {
    const part = this.#part
    if (part === undefined) return
    if (this.#isCopy && !part.hasTime) throw ambiguous("a fragment that is there twice")
    const view = viewOf(this.#file)
    const flags = field(this.#file, box, 0)
    const count = field(this.#file, box, 4)
    let at = box.body + 8
    let start = part.base
    if (flags & 0x1) {
      start += field(this.#file, box, 8) | 0
      at += 4
    } else if (part.hasRuns) throw ambiguous("a run without an offset")
    if (flags & 0x4) at += 4
    part.hasRuns = true
    const hasTicks = (flags & 0x100) !== 0
    const hasBytes = (flags & 0x200) !== 0
    const sizeAt = hasTicks ? 4 : 0
    const rowBytes = [0x100, 0x200, 0x400, 0x800].filter((fieldFlag) => flags & fieldFlag).length * 4
    if (at + count * rowBytes > box.end) throw ambiguous("trun is cut short")
    if (!hasBytes && part.bytes === 0 && count > 0) throw ambiguous("samples without a size")
    const { codec, samples } = part.track
    if (codec?.type === "blocks" && codec.only === "ticks") throw ambiguous("a format of raw samples")
    for (let row = 0; row < count && start <= this.#file.length; row++, at += rowBytes) {
      if (this.#work.spend(1)) yield
      const bytes = hasBytes ? view.getUint32(at + sizeAt) : part.bytes
      if (samples.add(this.#file, this.#movie.coverage, start, bytes))
        samples.ticks += hasTicks ? view.getUint32(at) : part.ticks
      start += bytes
    }
    this.#next = start
  }
}
