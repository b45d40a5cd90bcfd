/**
 * 24 milliseconds of silence: an MPEG-2 layer III frame of 8 kbit/s, 24 kHz, mono, built from its header fields. The side
 * information is zero, so there is nothing to decode.
 */
const silentFrame = Uint8Array.from({ length: 24 }, (_, index) => [0xff, 0xf3, 0x14, 0xc0][index] ?? 0)

/**
 * Returns a valid MP3 of `frames` frames of silence (default 3), titled with `mark` in an ID3v2 tag, so that different marks
 * give different bytes.
 */
export const fakeMp3 = (mark = "", frames = 3): Uint8Array<ArrayBuffer> => {
  const title = new TextEncoder().encode(mark)
  const tag = mark === "" ? new Uint8Array() : id3(title)
  const bytes = new Uint8Array(tag.length + frames * silentFrame.length)
  bytes.set(tag)
  const silence = bytes.subarray(tag.length)
  silence.set(silentFrame.subarray(0, silence.length))
  // Doubles each time, so that large files are created quickly.
  for (let done = silentFrame.length; done < silence.length; done *= 2) silence.copyWithin(done, 0, done)
  return bytes
}

/** An ID3v2.4 tag with a title in UTF-8. */
const id3 = (title: Uint8Array): Uint8Array => {
  const text = title.length + 1
  const header = [0x49, 0x44, 0x33, 4, 0, 0, ...sevenBits(text + 10)]
  const frame = [0x54, 0x49, 0x54, 0x32, ...sevenBits(text), 0, 0]
  const utf8 = 3
  return Uint8Array.of(...header, ...frame, utf8, ...title)
}

/** Encodes a length for ID3v2: four bytes of seven bits. */
const sevenBits = (value: number): ReadonlyArray<number> => [21, 14, 7, 0].map((shift) => (value >> shift) & 0x7f)
