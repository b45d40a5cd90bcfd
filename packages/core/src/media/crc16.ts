/** The register after one byte, of the checksum that FLAC and AC-3 use: the polynomial 0x8005, the highest bit first. */
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

/** Returns the checksum of a range of bytes, which is 0 if the range ends with its own checksum. */
export const crc16 = (data: Uint8Array, start: number, end: number): number => {
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
