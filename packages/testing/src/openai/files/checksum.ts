/** Creates a cyclic redundancy check, most significant bit first, without inversions, as used by FLAC and Ogg. */
export const checksum = (bits: 8 | 16 | 32, polynomial: number): ((bytes: Uint8Array) => number) => {
  const top = bits - 8
  const mask = bits === 32 ? 0xffff_ffff : (1 << bits) - 1
  const table = Uint32Array.from({ length: 256 }, (_, byte) => {
    let value = (byte << top) >>> 0
    for (let bit = 0; bit < 8; bit++) {
      const carries = (value >>> (bits - 1)) & 1
      value = ((value << 1) ^ (carries === 1 ? polynomial : 0)) & mask
    }
    return value
  })
  return (bytes) => {
    let value = 0
    for (const byte of bytes) value = ((value << 8) ^ (table[((value >>> top) ^ byte) & 0xff] ?? 0)) & mask
    return value >>> 0
  }
}
