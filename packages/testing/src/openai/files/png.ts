import { crc32, deflateSync } from "node:zlib"

const TILES = 16

/**
 * Creates a PNG in two colors with a pattern of 16 × 16 tiles, one for each bit of `seed` (32 bytes), so that different seeds
 * give different images. `width` must be a multiple of 128.
 */
export const png = (seed: Buffer, width: number, height: number): Buffer => {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  // One bit per pixel, an index into the palette.
  header.set([1, 3, 0, 0, 0], 8)
  const dark = seed.subarray(0, 3).map((byte) => byte >> 1)
  const light = seed.subarray(3, 6).map((byte) => 0x80 | (byte >> 1))
  return Buffer.concat([
    Buffer.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a),
    chunk("IHDR", header),
    chunk("PLTE", Buffer.concat([dark, light])),
    chunk("IDAT", deflateSync(rows(seed, width, height))),
    chunk("IEND", Buffer.alloc(0)),
  ])
}

const rows = (seed: Buffer, width: number, height: number): Buffer => {
  const rowBytes = width / 8
  const tileBytes = rowBytes / TILES
  const bandRows = Array.from({ length: TILES }, (_, band) => {
    // The byte before each row means "no filter".
    const row = Buffer.alloc(1 + rowBytes)
    const bits = seed.readUInt16BE(band * 2)
    for (let tile = 0; tile < TILES; tile++) {
      if ((bits >> tile) & 1) row.fill(0xff, 1 + tile * tileBytes, 1 + (tile + 1) * tileBytes)
    }
    return row
  })
  return Buffer.concat(
    Array.from({ length: height }, (_, y) => bandRows[Math.floor((y * TILES) / height)] ?? Buffer.alloc(1 + rowBytes)),
  )
}

const chunk = (type: string, data: Buffer): Buffer => {
  const named = Buffer.concat([Buffer.from(type), data])
  const whole = Buffer.alloc(8 + named.length)
  whole.writeUInt32BE(data.length, 0)
  named.copy(whole, 4)
  whole.writeUInt32BE(crc32(named), 4 + named.length)
  return whole
}
