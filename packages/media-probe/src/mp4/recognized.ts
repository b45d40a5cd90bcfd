import { boxAt, startsWith } from "@kiln/core/media"
import { MIN_PROBE, signatureIn } from "../codecs/otherStream.ts"

/** Boxes by which decoders are sure of a movie, and those by which they prefer a few other formats. */
const sure = new Set(["moov", "mdat", "pnot", "udta", "ftyp"])
const common = new Set(["free", "wide"])

/** Bytes in which decoders look for a sign that a movie is a wrapped MPEG program stream. */
const MAX_PROBE = 2 ** 20

/** Returns whether decoders, which compare all formats, choose this one by the beginning of a file. */
export const isCertainlyMovie = (file: Uint8Array): boolean => {
  const { buffer, byteOffset } = file
  if (Buffer.from(buffer, byteOffset, Math.min(file.length, MAX_PROBE)).includes("mhlrMPEG")) return false
  let isCommon = false
  const end = Math.min(file.length, MIN_PROBE)
  for (let at = 0; at + 8 <= end;) {
    const box = boxAt(file, at, end)
    if (box === undefined) break
    if (sure.has(box.type)) return !(box.type === "ftyp" && images.some((brand) => startsWith(file, box.body, brand)))
    isCommon ||= common.has(box.type)
    at = box.end
  }
  return isCommon && signatureIn(file.subarray(0, end)) === undefined
}

/** Brands of images, which begin like movies. */
const images = ["jp2 ", "jpx ", "jxl "]
