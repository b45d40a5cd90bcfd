import { elementAt, viewOf } from "@kiln/core/media"

const SEGMENT = 0x1853_8067
const INFO = 0x1549_a966
const TIMESTAMP_SCALE = 0x2ad7b1
const DURATION = 0x4489
const CLUSTER = 0x1f43_b675
const CLUSTER_TIME = 0xe7
const BLOCK_GROUP = 0xa0
const BLOCK = 0xa1
const SIMPLE_BLOCK = 0xa3

/** Elements whose content is read. Their own lengths do not matter, because recorders do not know them. */
const containers: ReadonlySet<number> = new Set([SEGMENT, INFO, CLUSTER, BLOCK_GROUP])

/** Returns the length of a WebM as it states it, otherwise the time of its last block: recorders state no length. */
export const secondsOfWebm = (file: Uint8Array): number => {
  const view = viewOf(file)
  const uint = (from: number, to: number): number => file.subarray(from, to).reduce((sum, byte) => sum * 256 + byte, 0)
  let scale = 1_000_000
  let stated = 0
  let cluster = 0
  let last = 0
  for (let at = 0; at < file.length;) {
    const element = elementAt(file, at, file.length)
    if (element === undefined) break
    const { body, end, id } = element
    at = containers.has(id) ? body : end
    if (end > file.length) continue
    if (id === TIMESTAMP_SCALE) scale = uint(body, end)
    if (id === DURATION) stated = end - body === 4 ? view.getFloat32(body) : view.getFloat64(body)
    if (id === CLUSTER_TIME) cluster = uint(body, end)
    // The time follows the number of the track, which has one byte in files with fewer than 127 tracks.
    if (id === BLOCK || id === SIMPLE_BLOCK) last = Math.max(last, cluster + view.getInt16(body + 1))
  }
  return ((stated || last) * scale) / 1e9
}
