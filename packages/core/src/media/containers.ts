import { readEbmlNumber, viewOf } from "./bytes.ts"

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

/** A chunk of a WAVE file: a name of four characters, a length, and content. Offsets are in bytes from the beginning of the file. */
export interface RiffChunk {
  readonly name: string
  readonly body: number
  readonly bytes: number
}

/** Reads the header of the chunk at `at`; `undefined` if the file ends before. */
export const chunkAt = (data: Uint8Array, at: number): RiffChunk | undefined => {
  if (at + 8 > data.length) return undefined
  const name = String.fromCharCode(data[at] ?? 0, data[at + 1] ?? 0, data[at + 2] ?? 0, data[at + 3] ?? 0)
  const low = (data[at + 4] ?? 0) | ((data[at + 5] ?? 0) << 8) | ((data[at + 6] ?? 0) << 16)
  return { name, body: at + 8, bytes: low + (data[at + 7] ?? 0) * 2 ** 24 }
}

/** No file that kiln accepts or that a provider may return is longer: 32 MiB. */
const MAX_FILE_BYTES = 32 * 1_024 * 1_024

/**
 * Returns the bytes of samples that are present in a data chunk whose content begins at `body`, by the length that the chunk states.
 * A 64-bit form states a second length, `longBytes`; the larger one counts, because decoders differ in which they use. A length of
 * 0, or one that reaches past the end by more than a file can hold, is the placeholder of a streaming encoder: the samples then last
 * to the end of the file. `isCut` means that stated samples are missing.
 */
export const dataBytes = (
  data: Uint8Array,
  body: number,
  stated: number,
  longBytes = 0,
): { readonly bytes: number; readonly isCut: boolean } => {
  const present = Math.max(0, data.length - body)
  const bytes = longBytes > 0 && stated === 0xffff_ffff ? longBytes : Math.max(stated, longBytes)
  if (bytes === 0 || bytes - present > MAX_FILE_BYTES) return { bytes: present, isCut: false }
  return { bytes: Math.min(bytes, present), isCut: bytes > present }
}

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
