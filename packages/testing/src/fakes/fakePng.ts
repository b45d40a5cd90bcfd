import { crc32 } from "node:zlib"

/**
 * The deflated pixels of a black image of 1024 × 1024: 1,024 rows of a zero (no filter) and 1,024 black bits, 132,096 zeros
 * in total, deflated at level 9. Stored as a constant so that no compressor is needed.
 */
const blackPixels = new Uint8Array(150)
blackPixels.set([0x78, 0xda, 0xed, 0xc1, 0x01, 0x01, 0x00, 0x00, 0x00, 0x82, 0x20, 0xff, 0xaf, 0x6e, 0x48, 0x40, 0x01])
blackPixels.set([0xef, 0x06, 0x04, 0x1e, 0x00, 0x01], 144)

/**
 * Returns a valid PNG of 1024 × 1024 black pixels with the comment `mark`, so that different marks give different bytes. An
 * unused chunk of `padding` bytes makes it larger.
 */
export const fakePng = (mark = "", padding = 0): Uint8Array<ArrayBuffer> => {
  const header = Uint8Array.of(0, 0, 4, 0, 0, 0, 4, 0, 1, 0, 0, 0, 0)
  const comment = new TextEncoder().encode(`Comment\0${mark}`)
  const chunks = [
    chunk("IHDR", header),
    ...(mark === "" ? [] : [chunk("tEXt", comment)]),
    ...(padding === 0 ? [] : [chunk("paDd", new Uint8Array(padding))]),
    chunk("IDAT", blackPixels),
    chunk("IEND", new Uint8Array()),
  ]
  const bytes = new Uint8Array(8 + chunks.reduce((sum, { length }) => sum + length, 0))
  bytes.set([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
  let at = 8
  for (const one of chunks) {
    bytes.set(one, at)
    at += one.length
  }
  return bytes
}

const chunk = (type: string, data: Uint8Array): Uint8Array => {
  const bytes = new Uint8Array(data.length + 12)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, data.length)
  bytes.set(new TextEncoder().encode(type), 4)
  bytes.set(data, 8)
  view.setUint32(data.length + 8, crc32(bytes.subarray(4, data.length + 8)))
  return bytes
}
