import { crc32, deflate } from "node:zlib"
import * as Effect from "effect/Effect"

/** An image whose pixels are indices into a palette of at most 256 colors. */
export interface IndexedImage {
  readonly width: number
  readonly height: number
  /** Three bytes per color: red, green, blue. */
  readonly palette: Uint8Array
  /** Consecutive rows: a 0 byte, then an index for each pixel. The 0 is PNG's "no filter", which suits indices best. */
  readonly rows: Uint8Array
}

const signature = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a)

/** Writes a PNG. The compression runs off the event loop. */
export const encodePng = Effect.fnUntraced(function* (image: IndexedImage) {
  const compressed = yield* Effect.callback<Uint8Array>((resume) => {
    deflate(image.rows, (error, data) => {
      resume(error === null ? Effect.succeed(data) : Effect.die(error))
    })
  })
  return concat([
    signature,
    chunk("IHDR", header(image)),
    chunk("PLTE", image.palette),
    chunk("IDAT", compressed),
    chunk("IEND", new Uint8Array(0)),
  ])
})

const header = ({ height, width }: IndexedImage): Uint8Array => {
  const bytes = new Uint8Array(13)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, width)
  view.setUint32(4, height)
  view.setUint8(8, 8) // bits of an index
  view.setUint8(9, 3) // indexed color
  return bytes // compression, filter and interlace methods are 0
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

const concat = (parts: ReadonlyArray<Uint8Array>): Uint8Array => {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    bytes.set(part, at)
    at += part.length
  }
  return bytes
}
