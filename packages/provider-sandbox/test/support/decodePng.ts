import { inflateSync } from "node:zlib"

export interface DecodedPng {
  readonly width: number
  readonly height: number
  /** Red, green and blue of a pixel. */
  readonly pixel: (x: number, y: number) => readonly [number, number, number]
}

/**
 * Reads an indexed PNG as strictly as the specification allows, independently of the encoder. Throws at the first violation.
 */
export const decodePng = (file: Uint8Array): DecodedPng => {
  const view = new DataView(file.buffer, file.byteOffset, file.length)
  must(Buffer.from(file.subarray(0, 8)).toString("hex") === "89504e470d0a1a0a", "signature")
  const chunks: Array<{ readonly type: string; readonly data: Uint8Array }> = []
  let at = 8
  while (at < file.length) {
    const length = view.getUint32(at)
    must(at + 12 + length <= file.length, "a chunk ends past the file")
    must(view.getUint32(at + 8 + length) === slowCrc(file.subarray(at + 4, at + 8 + length)), "checksum")
    chunks.push({
      type: String.fromCharCode(...file.subarray(at + 4, at + 8)),
      data: file.subarray(at + 8, at + 8 + length),
    })
    at += 12 + length
  }
  must(chunks.map((chunk) => chunk.type).join() === "IHDR,PLTE,IDAT,IEND", "chunks and their order")
  const [header, palette, pixels, end] = chunks.map((chunk) => Buffer.from(chunk.data))
  must(header?.length === 13 && end?.length === 0, "chunk sizes")
  const width = header!.readUInt32BE(0)
  const height = header!.readUInt32BE(4)
  must([...header!.subarray(8)].join() === "8,3,0,0,0", "8 bits, indexed, no interlacing")
  must(palette!.length % 3 === 0 && palette!.length > 0 && palette!.length <= 768, "palette size")
  const rows = inflateSync(pixels!)
  must(rows.length === height * (width + 1), "pixel count")
  for (let y = 0; y < height; y++) {
    must(rows[y * (width + 1)] === 0, "row filter")
    for (let x = 0; x < width; x++)
      must(rows[y * (width + 1) + 1 + x]! * 3 < palette!.length, "index outside of the palette")
  }
  return {
    width,
    height,
    pixel: (x, y) => {
      const color = rows[y * (width + 1) + 1 + x]! * 3
      return [palette![color]!, palette![color + 1]!, palette![color + 2]!]
    },
  }
}

const must = (holds: boolean, rule: string): void => {
  if (!holds) throw new Error(`not a valid PNG: ${rule}`)
}

/** The bit-by-bit definition of CRC-32. */
const slowCrc = (bytes: Uint8Array): number => {
  let crc = 0xffff_ffff
  for (const byte of bytes) {
    crc ^= byte
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb8_8320 : crc >>> 1
  }
  return (crc ^ 0xffff_ffff) >>> 0
}
