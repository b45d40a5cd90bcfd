import { startsWith, viewOf } from "./bytes.ts"

const STREAMINFO_BYTES = 34
const ID3V1_BYTES = 128

/**
 * Returns what is wrong with a FLAC file; `undefined` if it has its metadata and all frames are complete. Every frame ends with
 * its own checksum, which returns the register to zero, so one computation over all frames suffices. A cut between two frames is
 * not detected.
 */
export const flacProblem = (data: Uint8Array): string | undefined => {
  const first = firstFrame(data)
  if (typeof first === "string") return first
  if (data[first] !== 0xff || ((data[first + 1] ?? 0) & 0xfe) !== 0xf8) return "it has no frame"
  const end = data.length - (startsWith(data, data.length - ID3V1_BYTES, "TAG") ? ID3V1_BYTES : 0)
  return crc16(data, first, end) === 0 ? undefined : "its frames are cut short or damaged"
}

/** Returns the offset at which the metadata ends, or what is wrong with it. */
const firstFrame = (data: Uint8Array): number | string => {
  const view = viewOf(data)
  let at = 4
  for (;;) {
    if (at + 4 > data.length) return "its metadata is cut short"
    const head = view.getUint32(at)
    const [isLast, type, bytes] = [head >>> 31 === 1, (head >>> 24) & 0x7f, head & 0xff_ffff]
    if (at === 4 && (type !== 0 || bytes !== STREAMINFO_BYTES)) return "its stream information is missing or invalid"
    at += 4 + bytes
    if (isLast) return at
  }
}

/** The register after one byte. */
const table0 = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8
  for (let bit = 0; bit < 8; bit++) crc = (crc << 1) ^ (crc & 0x8000 ? 0x8005 : 0)
  return crc
})
const withByte = (crc: number, byte: number): number => ((crc & 0xff) << 8) ^ (table0[(crc >> 8) ^ byte] ?? 0)

/** The register after one, two and three more zero bytes, so that four bytes can be processed at once. */
const table1 = table0.map((crc) => withByte(crc, 0))
const table2 = table1.map((crc) => withByte(crc, 0))
const table3 = table2.map((crc) => withByte(crc, 0))

const crc16 = (data: Uint8Array, start: number, end: number): number => {
  let crc = 0
  let at = start
  for (; at + 4 <= end; at += 4)
    crc =
      (table3[(crc >> 8) ^ (data[at] ?? 0)] ?? 0) ^
      (table2[(crc & 0xff) ^ (data[at + 1] ?? 0)] ?? 0) ^
      (table1[data[at + 2] ?? 0] ?? 0) ^
      (table0[data[at + 3] ?? 0] ?? 0)
  for (; at < end; at++) crc = withByte(crc, data[at] ?? 0)
  return crc
}
