/** A chunk of a WAVE file: a name of four characters, a length, and content. Offsets are in bytes from the beginning of the file. */
export interface Chunk {
  readonly name: string
  readonly body: number
  readonly bytes: number
}

/** Reads the header of the chunk at `at`; `undefined` if the file ends before. */
export const chunkAt = (data: Uint8Array, at: number): Chunk | undefined => {
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
