import { readEbmlNumber } from "./ebmlNumber.ts"

/** An element of a WebM: an id, a length and content. Offsets are in bytes from the beginning of the file. */
export interface Element {
  /** The id including its length marker, as specifications write it. */
  readonly id: number
  readonly start: number
  /** Offset of the content. */
  readonly body: number
  /** Offset after the element, which may lie past the end of the file; `limit` if its length is unknown. */
  readonly end: number
  readonly isUnknown: boolean
}

/** Reads the header of the element at `at`, inside a parent that ends at `limit`; `undefined` if no element can begin here. */
export const elementAt = (data: Uint8Array, at: number, limit: number): Element | undefined => {
  const id = readEbmlNumber(data, at, 4)
  const size = id && readEbmlNumber(data, at + id.bytes)
  if (id === undefined || size === undefined) return undefined
  const body = at + id.bytes + size.bytes
  if (body > limit) return undefined
  return { id: id.raw, start: at, body, end: size.isUnknown ? limit : body + size.value, isUnknown: size.isUnknown }
}
