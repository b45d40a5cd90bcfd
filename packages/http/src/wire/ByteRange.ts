/** The requested part of a file. Positions are byte offsets, both inclusive. */
export type ByteRange =
  /** Respond with 200 and the whole file. */
  | { readonly kind: "full" }
  /** Respond with 206 and this part. */
  | { readonly kind: "partial"; readonly start: number; readonly endInclusive: number }
  /** Respond with 416. */
  | { readonly kind: "unsatisfiable" }

const full: ByteRange = { kind: "full" }
const unsatisfiable: ByteRange = { kind: "unsatisfiable" }

const RANGE = /^bytes=[ \t]*([0-9]*)-([0-9]*)[ \t]*$/i

/**
 * Applies a `Range` header to a file of `size` bytes (RFC 9110, section 14). A header that is malformed, uses another
 * unit, or lists several ranges is ignored, as the RFC allows: the whole file is a valid response to each.
 *
 * Only GET supports ranges; for HEAD, pass `undefined`. Positions may have any number of digits.
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

/** Applies `-n`: the last n bytes, or the whole file if it is shorter. An empty file has no parts, but can be sent as a whole. */
const suffix = (length: bigint, size: number): ByteRange => {
  if (length === 0n) return unsatisfiable
  if (size === 0) return full
  const start = length >= BigInt(size) ? 0 : size - Number(length)
  return { kind: "partial", start, endInclusive: size - 1 }
}

/** Formats the `Content-Range` header of a 206 or a 416; `undefined` for a full response. */
export const formatContentRange = (range: ByteRange, size: number): string | undefined => {
  if (range.kind === "full") return undefined
  return range.kind === "unsatisfiable" ? `bytes */${size}` : `bytes ${range.start}-${range.endInclusive}/${size}`
}
