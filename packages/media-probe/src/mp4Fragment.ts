import type { ByteCursor, Scan } from "./ByteCursor.ts"
import { hasSamplesToFind, type Mp4Track } from "./mp4Track.ts"

/** Defaults for samples of a fragment that do not specify a value. */
export interface SampleDefaults {
  readonly ticks: number
  readonly bytes: number
}

/** The fragment of one track that is being read. */
export interface Fragment {
  readonly track: Mp4Track | undefined
  readonly defaults: SampleDefaults
  /** Base of the data offsets of its runs. */
  readonly base: number
  /** Offset of the next run, unless the run specifies one. */
  next: number
}

/** Reads `tfhd`, of which `headBytes` are buffered. */
export const readFragmentHeader = (
  cursor: ByteCursor,
  headBytes: number,
  tracks: ReadonlyArray<Mp4Track>,
  defaultsOf: ReadonlyMap<number, SampleDefaults>,
  moofStart: number,
): Fragment => {
  const flags = cursor.u24(1)
  const id = cursor.u32(4)
  let at = 8
  const field = (flag: number, bytes: number): number | undefined => {
    if (!(flags & flag)) return undefined
    at += bytes
    if (at > headBytes) return undefined
    return bytes === 8 ? cursor.u64(at - 8) : cursor.u32(at - 4)
  }
  const base = field(0x1, 8) ?? moofStart
  field(0x2, 4)
  const defaults = defaultsOf.get(id)
  const ticks = field(0x8, 4) ?? defaults?.ticks ?? 0
  const bytes = field(0x10, 4) ?? defaults?.bytes ?? 0
  const track = tracks.find((candidate) => candidate.id === id)
  return { track, defaults: { ticks, bytes }, base, next: base }
}

/** Reads `trun`: a count of samples, and for each the fields named by the flags: duration, size, flags, composition offset. */
export function* readRun(cursor: ByteCursor, fragment: Fragment, payload: number): Scan<number> {
  const flags = cursor.u24(1)
  const count = cursor.u32(4)
  const headBytes = 8 + (flags & 0x1 ? 4 : 0) + (flags & 0x4 ? 4 : 0)
  if (payload < headBytes || !(yield* cursor.need(headBytes))) return 0
  if (flags & 0x1) fragment.next = fragment.base + cursor.i32(8)
  if (fragment.track === undefined) return 0
  fragment.track.fragmentSamples += count
  const rowBytes = [0x100, 0x200, 0x400, 0x800].filter((field) => flags & field).length * 4
  if (rowBytes === 0) {
    addUniform(fragment, fragment.track, count)
    return 0
  }
  const rows = Math.min(count, Math.floor((payload - headBytes) / rowBytes))
  if (rows < count) fragment.track.map.isPartial = true
  yield* cursor.skip(headBytes)
  for (let row = 0; row < rows; row++) {
    if (cursor.available < rowBytes && !(yield* cursor.need(rowBytes))) break
    const ticks = flags & 0x100 ? cursor.u32(0) : fragment.defaults.ticks
    const bytes = flags & 0x200 ? cursor.u32(flags & 0x100 ? 4 : 0) : fragment.defaults.bytes
    addSample(fragment, fragment.track, ticks, bytes)
    cursor.advance(rowBytes)
  }
  return headBytes + rows * rowBytes
}

const addSample = (fragment: Fragment, track: Mp4Track, ticks: number, bytes: number): void => {
  track.sampleTicks += ticks
  track.sampleBytes += bytes
  if (hasSamplesToFind(track)) track.map.addPlace(fragment.next)
  fragment.next += bytes
}

/** More than any fragment has; samples beyond it are counted, but not located. */
const MAX_UNIFORM_SAMPLES = 4096

/** Adds uniform samples by multiplication, not in a loop: twelve bytes can claim four billion of them. */
const addUniform = (fragment: Fragment, track: Mp4Track, count: number): void => {
  const { bytes, ticks } = fragment.defaults
  track.sampleTicks += count * ticks
  track.sampleBytes += count * bytes
  if (count > MAX_UNIFORM_SAMPLES) track.map.isPartial = true
  else if (hasSamplesToFind(track)) for (let i = 0; i < count; i++) track.map.addPlace(fragment.next + i * bytes)
  fragment.next += count * bytes
}
