/** Returns the number of frames of `frameMs` for the duration, rounded up. */
export const framesIn = (seconds: number, frameMs: number): number => Math.max(1, Math.ceil((seconds * 1000) / frameMs))

const MP3_FRAME_MS = 24

/**
 * Creates silent MPEG 2 layer III, mono, 24 kHz, 32 kbit/s: 576 samples in 96 bytes. A frame with zero side information
 * decodes to silence, and the rest of it is ancillary data that decoders ignore; the first frame holds the bytes of `seed`.
 */
export const mp3 = (seed: Buffer, seconds: number): Buffer => {
  const silence = Buffer.alloc(96)
  silence.set([0xff, 0xf3, 0x44, 0xc4])
  const first = Buffer.from(silence)
  // Seven bits of each byte, so that no byte looks like a sync word.
  first.set(
    seed.map((byte) => byte & 0x7f),
    4 + 9,
  )
  return Buffer.concat([first, ...Array.from({ length: framesIn(seconds, MP3_FRAME_MS) - 1 }, () => silence)])
}

const AAC_FRAME_MS = (1024 / 24_000) * 1000

/** A single channel element of zeros: silence, as players use it for gaps. */
const silentAac = Buffer.of(0x00, 0xc8, 0x00, 0x80, 0x23, 0x80)

/** Creates silent AAC-LC, mono, 24 kHz, in ADTS frames. The first one holds `seed` in a data stream element, which decoders skip. */
export const aac = (seed: Buffer, seconds: number): Buffer => {
  const frame = (block: Buffer): Buffer => {
    const length = block.length + 7
    return Buffer.concat([
      Buffer.of(0xff, 0xf1, 0x58, 0x40 | (length >> 11), (length >> 3) & 0xff, ((length & 7) << 5) | 0x1f, 0xfc),
      block,
    ])
  }
  const first = frame(Buffer.concat([Buffer.of(0x80, seed.length), seed, silentAac]))
  const silence = frame(silentAac)
  return Buffer.concat([first, ...Array.from({ length: framesIn(seconds, AAC_FRAME_MS) - 1 }, () => silence)])
}
