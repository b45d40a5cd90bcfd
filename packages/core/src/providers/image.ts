import { limits } from "../domain/Limits.ts"
import { crc32 } from "../domain/crc32.ts"
import { resultInvalid } from "./ProviderError.ts"
import { checkBytes, type GeneratedFile } from "./checks.ts"
import { providerPort } from "./ProviderPort.ts"

/** Bits for each color type that PNG has: grey, color, palette, grey with alpha, color with alpha. */
const bitDepths: Readonly<Record<number, ReadonlyArray<number>>> = {
  0: [1, 2, 4, 8, 16],
  2: [8, 16],
  3: [1, 2, 4, 8],
  4: [8, 16],
  6: [8, 16],
}

const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]
const IHDR = 0x49484452
const PLTE = 0x504c5445
const IDAT = 0x49444154
const IEND = 0x49454e44

/** A chunk is its length, its type, that many bytes, and a checksum. */
const CHUNK_FRAME = 12

/**
 * Returns why these bytes are not a PNG of `size` by `size` pixels, without quoting their content; `undefined` if they are.
 * Verifies the checksum of every chunk, so a cut, a flipped bit or appended data is detected. The pixels stay compressed; the
 * checksums imply that they decode.
 */
export const generatedPng = (data: Uint8Array, size: number): string | undefined => {
  if (!SIGNATURE.every((byte, index) => data[index] === byte)) return "it does not have the signature of a PNG"
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength)
  const seen = { previous: 0, lacksPalette: false, pixels: 0 }
  let at = SIGNATURE.length
  while (at < data.length) {
    if (at + CHUNK_FRAME > data.length || view.getUint32(at) > data.length - at - CHUNK_FRAME) return "it is cut short"
    const end = at + CHUNK_FRAME + view.getUint32(at)
    if (crc32(data, at + 4, end - 4) !== view.getUint32(end - 4)) return `the chunk at ${at} is damaged`
    const type = view.getUint32(at + 4)
    if (type === IHDR) {
      const problem = seen.previous === 0 ? headerProblem(view, at, size) : "it has two headers"
      if (problem !== undefined) return problem
      seen.lacksPalette = view.getUint8(at + 17) === 3
    } else if (seen.previous === 0) return "it does not begin with its header"
    else if (type === PLTE) seen.lacksPalette = false
    else if (type === IDAT) {
      if (seen.pixels > 0 && seen.previous !== IDAT) return "its pixel chunks are not consecutive"
      if (seen.lacksPalette) return "it lacks its palette"
      seen.pixels += view.getUint32(at)
    } else if (type === IEND) return endProblem(view, at, seen.pixels)
    // A type without bit 5 is critical: a decoder must know it, and PNG defines no others.
    else if ((type & 0x20000000) === 0) return `the chunk at ${at} has an unknown critical type`
    seen.previous = type
    at = end
  }
  return "it has no end chunk"
}

const headerProblem = (view: DataView, at: number, size: number): string | undefined => {
  if (view.getUint32(at) !== 13) return "its header is not 13 bytes long"
  const width = view.getUint32(at + 8)
  const height = view.getUint32(at + 12)
  if (width !== size || height !== size) return `it has ${width}x${height} pixels, not ${size}x${size}`
  const [bits = 0, color = 0, compression, filter, interlace = 0] = Array.from({ length: 5 }, (_, index) =>
    view.getUint8(at + 16 + index),
  )
  return bitDepths[color]?.includes(bits) === true && compression === 0 && filter === 0 && interlace <= 1
    ? undefined
    : "its header describes pixels that a PNG cannot have"
}

const endProblem = (view: DataView, at: number, pixelBytes: number): string | undefined => {
  if (view.getUint32(at) !== 0) return "its end chunk is not empty"
  // Two bytes of zlib header, four of its checksum, and something between them.
  if (pixelBytes < 7) return "it has no pixels"
  return at + CHUNK_FRAME === view.byteLength ? undefined : "data follows its end chunk"
}

/** Maximum size in bytes: 1024 by 1024 pixels with 16 bits per channel take half of it, uncompressed. */
const maxImageBytes = 16 * 1_024 * 1_024

/** Requires a complete PNG of exactly `size` by `size` pixels and at most 16 MiB. Throws `result_invalid`. */
export const checkPng = (answer: unknown, size: number): GeneratedFile => {
  const data = checkBytes(answer, maxImageBytes)
  const problem = generatedPng(data, size)
  if (problem !== undefined) throw resultInvalid(`expected a PNG, got ${data.length} bytes: ${problem}`)
  return { data, mediaType: "image/png" }
}

/** Text to a PNG of 1024 by 1024 pixels. */
export const image = providerPort({
  name: "image",
  callLimitMs: 300_000,
  check: (answer, _request: { readonly prompt: string }) => checkPng(answer, limits.imageSize),
})
