import type { ByteCursor, Scan } from "./ByteCursor.ts"
import { hasSamplesToFind, type Mp4Track } from "./mp4Track.ts"

/** Reads as many rows of one size as are claimed and fit, and returns the number of bytes read. */
function* readRows(
  cursor: ByteCursor,
  rows: { readonly headBytes: number; readonly count: number; readonly bytes: number; readonly payload: number },
  read: (cursor: ByteCursor) => void,
): Scan<number> {
  const count = Math.max(0, Math.min(rows.count, Math.floor((rows.payload - rows.headBytes) / rows.bytes)))
  yield* cursor.skip(rows.headBytes)
  for (let row = 0; row < count; row++) {
    if (cursor.available < rows.bytes && !(yield* cursor.need(rows.bytes))) break
    read(cursor)
    cursor.advance(rows.bytes)
  }
  return rows.headBytes + count * rows.bytes
}

/** Reads a table of the track. Claimed counts are used even if the box ends earlier, because decoders read beyond its end. */
export function* readTable(cursor: ByteCursor, track: Mp4Track, type: string, payload: number): Scan<number> {
  switch (type) {
    case "stts":
      return yield* readRows(cursor, { headBytes: 8, count: cursor.u32(4), bytes: 8, payload }, () => {
        track.timedSamples += cursor.u32(0)
        track.sampleTicks += cursor.u32(0) * cursor.u32(4)
      })
    case "stsz":
      return payload < 12 || !(yield* cursor.need(12)) ? 0 : yield* readSizes(cursor, track, payload)
    case "stz2":
      return payload < 12 || !(yield* cursor.need(12)) ? 0 : yield* readCompactSizes(cursor, track, payload)
    case "stsc":
      return yield* readRows(cursor, { headBytes: 8, count: cursor.u32(4), bytes: 12, payload }, () => {
        const { first, samples } = track.lastChunkRow
        track.chunkedSamples += Math.max(0, cursor.u32(0) - first) * samples
        track.lastChunkRow = { first: cursor.u32(0), samples: cursor.u32(4) }
        if (hasSamplesToFind(track)) track.map.addRun(cursor.u32(0), cursor.u32(4))
      })
    case "stco":
    case "co64": {
      const bytes = type === "stco" ? 4 : 8
      const count = cursor.u32(4)
      track.chunks += count
      return yield* readRows(cursor, { headBytes: 8, count, bytes, payload }, () => {
        if (hasSamplesToFind(track)) track.map.addChunk(bytes === 4 ? cursor.u32(0) : cursor.u64(0))
      })
    }
    case "elst":
      return yield* readEdits(cursor, track, payload)
    default:
      return 0
  }
}

function* readSizes(cursor: ByteCursor, track: Mp4Track, payload: number): Scan<number> {
  const size = cursor.u32(4)
  const count = cursor.u32(8)
  track.sizedSamples += count
  if (size > 0) {
    track.sampleBytes += size * count
    track.map.setSize(size)
    return 0
  }
  if (count > (payload - 12) / 4) track.map.isPartial = true
  return yield* readRows(cursor, { headBytes: 12, count, bytes: 4, payload }, () => {
    track.sampleBytes += cursor.u32(0)
    if (hasSamplesToFind(track)) track.map.addSize(cursor.u32(0))
  })
}

/** Reads sizes of 4, 8 or 16 bits. */
function* readCompactSizes(cursor: ByteCursor, track: Mp4Track, payload: number): Scan<number> {
  const bits = cursor.u8(7)
  const count = cursor.u32(8)
  track.sizedSamples += count
  track.map.isPartial = true
  if (bits === 16)
    return yield* readRows(cursor, { headBytes: 12, count, bytes: 2, payload }, () => {
      track.sampleBytes += cursor.u16(0)
    })
  const perByte = bits === 4 ? 2 : 1
  return yield* readRows(cursor, { headBytes: 12, count: Math.ceil(count / perByte), bytes: 1, payload }, () => {
    track.sampleBytes += bits === 4 ? (cursor.u8(0) >> 4) + (cursor.u8(0) & 15) : cursor.u8(0)
  })
}

/** Reads which pieces of the track are played, and for how long; a media time of -1 is silence. */
function* readEdits(cursor: ByteCursor, track: Mp4Track, payload: number): Scan<number> {
  const isLong = cursor.u8(0) === 1
  const count = cursor.u32(4)
  return yield* readRows(cursor, { headBytes: 8, count, bytes: isLong ? 20 : 12, payload }, () => {
    const isSilence = isLong ? cursor.u32(8) === 0xffff_ffff : cursor.u32(4) === 0xffff_ffff
    const ticks = isLong ? cursor.u64(0) : cursor.u32(0)
    if (isSilence) return
    track.edits++
    // 0 means "up to the end".
    track.editTicks += ticks === 0 ? Infinity : ticks
  })
}
