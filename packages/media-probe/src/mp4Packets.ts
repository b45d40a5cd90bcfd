import type { ByteCursor, Scan } from "./ByteCursor.ts"
import type { Mp4Track } from "./mp4Track.ts"
import { opusPacketMs } from "./opusDuration.ts"

/** Adds up the durations of the Opus packets of some tracks, located by their tables. */
export function* lookAtPackets(
  cursor: ByteCursor,
  tracks: ReadonlyArray<Mp4Track>,
  seconds: Map<Mp4Track, number>,
): Scan<void> {
  const queues = tracks.map((track) => ({ track, places: track.map.places(), next: 0, ms: 0 }))
  while (true) {
    const nearest = Math.min(...queues.map(({ next, places }) => places[next] ?? Infinity))
    if (nearest === Infinity) break
    yield* cursor.skip(nearest - cursor.position)
    // One byte suffices for most packets, and the last packet of a file may have no second byte.
    if (!(yield* cursor.need(2)) && cursor.available === 0) break
    const ms = opusPacketMs(cursor.u8(0), cursor.available > 1 ? cursor.u8(1) : undefined) ?? 0
    for (const queue of queues)
      while (queue.places[queue.next] === nearest) {
        queue.next++
        queue.ms += ms
      }
  }
  for (const { ms, track } of queues) seconds.set(track, ms / 1000)
}
