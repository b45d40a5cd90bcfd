const frame = (header: ReadonlyArray<number>, bytes: number): Buffer => {
  const all = Buffer.alloc(bytes)
  all.set(header)
  return all
}

/** MPEG 2.5 layer III, 8 kbit/s at 8 kHz: 72 ms in 72 bytes. */
export const slowFrame = frame([0xff, 0xe3, 0x18, 0xc4], 72)
/** The same at 11,025 Hz: 52 ms in 52 bytes. */
export const otherFrame = frame([0xff, 0xe3, 0x10, 0xc4], 52)
/** MPEG 2.5 layer II, 8 kbit/s at 8 kHz: 144 ms in 144 bytes. */
export const layer2Frame = frame([0xff, 0xe5, 0x18, 0xc4], 144)
/** MPEG 1 layer III, 320 kbit/s at 48 kHz: 24 ms in 960 bytes. */
export const fastFrame = frame([0xff, 0xfb, 0xe4, 0xc4], 960)
/** ADTS, AAC LC, mono at 8 kHz: 128 ms in 40 bytes. */
export const adtsFrame = frame([0xff, 0xf1, 0x6c, 0x40, 0x05, 0x1f, 0xfc], 40)

/** Returns an ID3v2 tag that states this many bytes. */
export const id3 = (bytes: number): Buffer =>
  Buffer.from([0x49, 0x44, 0x33, 4, 0, 0, ...[21, 14, 7, 0].map((shift) => (bytes >> shift) & 0x7f)])
