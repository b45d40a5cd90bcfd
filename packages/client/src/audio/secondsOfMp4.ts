import { boxAt, viewOf } from "@kiln/core/media"

/** Boxes whose content is read. */
const containers: ReadonlySet<string> = new Set(["moov", "trak", "mdia", "mvex", "moof", "traf"])

/** What a track and its fragments state. */
interface Track {
  ticksPerSecond: number
  /** Ticks of a sample that states none. */
  ticks: number
  end: number
}

/** Returns the length of an MP4 as its movie states it, otherwise of its longest track of fragments, which recorders write. */
export const secondsOfMp4 = (file: Uint8Array): number => {
  const view = viewOf(file)
  const tracks = new Map<number, Track>()
  let seconds = 0
  let track: Track = { ticksPerSecond: 0, ticks: 0, end: 0 }
  let fragmentTicks = 0

  /** Reads a run of samples, which may state the ticks of each. */
  const run = (body: number, end: number): void => {
    const flags = view.getUint32(body)
    const count = view.getUint32(body + 4)
    const rowBytes = [0x100, 0x200, 0x400, 0x800].filter((flag) => flags & flag).length * 4
    if ((flags & 0x100) === 0) track.end += count * fragmentTicks
    else {
      let at = body + 8 + (flags & 1 ? 4 : 0) + (flags & 4 ? 4 : 0)
      for (let row = 0; row < count && at + 4 <= end; row++, at += rowBytes) track.end += view.getUint32(at)
    }
  }

  const read = (from: number, to: number): void => {
    for (let box = boxAt(file, from, to); box !== undefined; box = boxAt(file, box.end, to)) {
      const { body, type } = box
      const end = Math.min(box.end, to)
      const isLong = file[body] === 1
      if (containers.has(type)) read(body, end)
      else if (end - body < 16) continue
      else if (type === "mvhd" && end - body >= 28) {
        const ticksPerSecond = view.getUint32(body + (isLong ? 20 : 12))
        const ticks = isLong ? Number(view.getBigUint64(body + 24)) : view.getUint32(body + 16)
        seconds = ticks / ticksPerSecond || 0
      } else if (type === "tkhd" && end - body >= 24) {
        track = { ticksPerSecond: 0, ticks: 0, end: 0 }
        tracks.set(view.getUint32(body + (isLong ? 20 : 12)), track)
      } else if (type === "mdhd" && end - body >= 24) track.ticksPerSecond = view.getUint32(body + (isLong ? 20 : 12))
      else if (type === "trex" && end - body >= 20) {
        const extended = tracks.get(view.getUint32(body + 4))
        if (extended !== undefined) extended.ticks = view.getUint32(body + 12)
      } else if (type === "tfhd") {
        track = tracks.get(view.getUint32(body + 4)) ?? track
        const flags = view.getUint32(body)
        const at = body + 8 + (flags & 1 ? 8 : 0) + (flags & 2 ? 4 : 0)
        fragmentTicks = flags & 8 && at + 4 <= end ? view.getUint32(at) : track.ticks
      } else if (type === "trun") run(body, end)
    }
  }
  read(0, file.length)
  for (const { end, ticksPerSecond } of tracks.values()) if (end > 0) seconds = Math.max(seconds, end / ticksPerSecond)
  return Number.isFinite(seconds) && seconds < 1e6 ? seconds : 0
}
