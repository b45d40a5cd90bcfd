const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte
  for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0)
  return crc
})

/** Returns the CRC-32 (ISO-HDLC, the one of zip, zlib and PNG) of the bytes from `start` up to `end`, all of them by default. */
export const crc32 = (bytes: Uint8Array, start = 0, end = bytes.length): number => {
  let crc = -1
  for (let at = start; at < end; at++) crc = (crc >>> 8) ^ (table[(crc ^ (bytes[at] ?? 0)) & 0xff] ?? 0)
  return ~crc >>> 0
}
