import { viewOf } from "./bytes.ts"

/** A box of an MP4: a length, a type of four characters, and a payload. Offsets are in bytes from the beginning of the file. */
export interface Box {
  readonly type: string
  readonly start: number
  /** Offset of the payload. */
  readonly body: number
  /** Offset after the box; may lie past the end of the file. */
  readonly end: number
}

/**
 * Reads the header of the box at `at`, inside a parent that ends at `limit`; `undefined` if no box can begin here. A length of 0
 * means up to `limit`, 1 means that 64 bits with the length follow.
 */
export const boxAt = (data: Uint8Array, at: number, limit: number): Box | undefined => {
  const present = Math.min(limit, data.length) - at
  if (present < 8) return undefined
  const view = viewOf(data)
  const short = view.getUint32(at)
  const type = String.fromCharCode(data[at + 4] ?? 0, data[at + 5] ?? 0, data[at + 6] ?? 0, data[at + 7] ?? 0)
  if (short === 0) return { type, start: at, body: at + 8, end: limit }
  if (short !== 1) return short < 8 ? undefined : { type, start: at, body: at + 8, end: at + short }
  if (present < 16) return undefined
  // Rounded above 2^53, which is past any end.
  const long = view.getUint32(at + 8) * 2 ** 32 + view.getUint32(at + 12)
  return long < 16 ? undefined : { type, start: at, body: at + 16, end: at + long }
}
