/** What part of a file a request asks for. Positions are byte offsets, both inclusive. */
export type ByteRange =
  /** Answer 200 with the whole file. */
  | { readonly kind: "full" }
  /** Answer 206 with this part. */
  | { readonly kind: "partial"; readonly start: number; readonly endInclusive: number }
  /** Answer 416. */
  | { readonly kind: "unsatisfiable" }

const full: ByteRange = { kind: "full" }
const unsatisfiable: ByteRange = { kind: "unsatisfiable" }

const RANGE = /^bytes=[ \t]*([0-9]*)-([0-9]*)[ \t]*$/i

/**
 * Applies a `Range` header to a file of `size` bytes (RFC 9110, section 14). A header that is malformed, of another
 * unit, or asks for several ranges is ignored, as the RFC allows: the whole file is a right answer to each of them.
 *
 * Only GET has ranges; for HEAD, leave the header out. Positions may have any number of digits.
 */
export const parseByteRange = (header: string | undefined, size: number): ByteRange => {
  const [, first = "", last = ""] = RANGE.exec(header ?? "") ?? []
  if (first === "") return last === "" ? full : suffix(BigInt(last), size)

  const start = BigInt(first)
  if (last !== "" && BigInt(last) < start) return full
  if (start >= BigInt(size)) return unsatisfiable
  const end = last === "" || BigInt(last) >= BigInt(size) ? size - 1 : Number(last)
  return { kind: "partial", start: Number(start), endInclusive: end }
}

/** `-n`: the last n bytes, all of them when there are fewer. An empty file has no part to name, but all of it can be sent. */
const suffix = (length: bigint, size: number): ByteRange => {
  if (length === 0n) return unsatisfiable
  if (size === 0) return full
  const start = length >= BigInt(size) ? 0 : size - Number(length)
  return { kind: "partial", start, endInclusive: size - 1 }
}

/** The `Content-Range` header of a 206 or a 416; a full answer has none. */
export const formatContentRange = (range: ByteRange, size: number): string | undefined => {
  if (range.kind === "full") return undefined
  return range.kind === "unsatisfiable" ? `bytes */${size}` : `bytes ${range.start}-${range.endInclusive}/${size}`
}
