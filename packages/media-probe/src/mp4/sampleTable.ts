import { type Box, viewOf } from "@kiln/core/media"
import type { Walk, Work } from "../Work.ts"
import { ambiguous, field, u64 } from "./fields.ts"
import type { Track } from "./Movie.ts"
import type { Coverage } from "./Samples.ts"

/** Durations from here on are negative ones, by which some encoders correct earlier ones. */
const MIN_NEGATIVE = 2 ** 32 - 480_000

/** Rows per step of work. */
const ROWS = 8

/** Returns the number of rows of a table, all of which must be in its box. */
const rowsOf = (file: Uint8Array, box: Box | undefined, rowBytes: number): number => {
  if (box === undefined) return 0
  const count = field(file, box, 4)
  if (box.body + 8 + count * rowBytes > box.end) throw ambiguous(`${box.type} is cut short`)
  return count
}

/** Finds the samples of a track by the tables of the movie, as decoders do. */
export function* readTable(file: Uint8Array, track: Track, coverage: Coverage, work: Work): Walk<void> {
  const view = viewOf(file)
  const { codec, samples, tables } = track
  const times = tables.get("stts")
  const timeRows = rowsOf(file, times, 8)
  const runs = tables.get("stsc")
  const runRows = rowsOf(file, runs, 12)
  const chunks = tables.get("stco")
  const chunkBytes = chunks?.type === "co64" ? 8 : 4
  const chunkCount = rowsOf(file, chunks, chunkBytes)
  const sizes = readSizes(file, tables.get("stsz"))
  if (chunkCount === 0 && sizes.count === 0) return
  if (times === undefined || runs === undefined || chunks === undefined || timeRows * runRows * chunkCount === 0)
    throw ambiguous("tables of samples that do not fit together")
  const block = codec?.type === "blocks" ? codec : undefined
  // Raw samples: one row of one tick each. Decoders then ignore the table of sizes.
  const isRaw = codec !== undefined && timeRows === 1 && view.getUint32(times.body + 12) === 1
  if (isRaw && block === undefined) throw ambiguous("frames of one tick")
  if (block?.only !== undefined && (block.only === "ticks") !== isRaw) throw ambiguous("a format of raw samples")

  let run = 0
  let time = 0
  let timeLeft = view.getUint32(times.body + 8)
  let sample = 0
  for (let chunk = 1; chunk <= chunkCount; chunk++) {
    const row = runs.body + 8 + run * 12
    if (chunk === 1 && view.getUint32(row) !== 1) throw ambiguous("chunks that do not begin at 1")
    if (run + 1 < runRows && view.getUint32(row + 12) === chunk) run++
    const perChunk = view.getUint32(runs.body + 12 + run * 12)
    if (perChunk === 0 || view.getUint32(runs.body + 16 + run * 12) === 0) throw ambiguous("a chunk without samples")
    const at = chunks.body + 8 + (chunk - 1) * chunkBytes
    const start = chunkBytes === 8 ? u64(file, at) : view.getUint32(at)
    if (work.spend(1)) yield
    if (block !== undefined && (isRaw || sizes.size > 0)) {
      const sampleBytes = isRaw ? block.bytes / block.samples : Math.max(sizes.size, block.bytes)
      const count = isRaw ? perChunk - (perChunk % block.samples) : Math.min(perChunk, sizes.count - sample)
      const before = samples.bytes
      samples.add(file, coverage, start, count * sampleBytes)
      samples.ticks += ((samples.bytes - before) / sampleBytes) * view.getUint32(times.body + 12)
      sample += count
      continue
    }
    let offset = start
    const end = Math.min(sizes.count, sample + perChunk)
    for (; sample < end; sample++) {
      if (sample % ROWS === 0 && work.spend(1)) yield
      const bytes = sizes.at(sample)
      while (timeLeft === 0 && time + 1 < timeRows) timeLeft = view.getUint32(times.body + 8 + ++time * 8)
      const stated = view.getUint32(times.body + 12 + time * 8)
      const ticks = stated >= MIN_NEGATIVE ? 1 : stated
      timeLeft--
      if (samples.add(file, coverage, offset, bytes)) samples.ticks += ticks
      offset += bytes
    }
  }
  if (run + 1 < runRows) throw ambiguous("more rows of chunks than chunks")
  samples.tableCount = samples.count
}

interface Sizes {
  readonly count: number
  /** The size of all samples; 0 if they differ. */
  readonly size: number
  readonly at: (sample: number) => number
}

const readSizes = (file: Uint8Array, box: Box | undefined): Sizes => {
  if (box === undefined) return { count: 0, size: 0, at: () => 0 }
  const view = viewOf(file)
  const count = field(file, box, 8)
  const rows = box.body + 12
  const isCompact = box.type === "stz2"
  const size = isCompact ? 0 : field(file, box, 4)
  if (size > 0) return { count, size, at: () => size }
  const bits = isCompact ? field(file, box, 4) & 0xff : 32
  if (![4, 8, 16, 32].includes(bits) || rows + Math.ceil((count * bits) / 8) > box.end)
    throw ambiguous(`${box.type} is cut short`)
  const at =
    bits === 32
      ? (sample: number) => view.getUint32(rows + sample * 4)
      : bits === 16
        ? (sample: number) => view.getUint16(rows + sample * 2)
        : bits === 8
          ? (sample: number) => file[rows + sample] ?? 0
          : (sample: number) => ((file[rows + (sample >> 1)] ?? 0) >> (sample % 2 === 0 ? 4 : 0)) & 15
  return { count, size: 0, at }
}
