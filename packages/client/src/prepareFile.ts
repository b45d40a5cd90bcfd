import { readAudio } from "./audio/readAudio.ts"
import type { WebBody } from "./sendUpload.ts"
import type { CreateUpload } from "./wire.ts"

/** The fields of a job without its upload, and what is known of the file. */
export type AboutFile = Partial<CreateUpload> & Readonly<Record<string, unknown>>

/** A file and what is announced of it. */
export interface Source {
  readonly body: WebBody
  readonly about: CreateUpload
  /** The content, unless it is a stream that need not be read in advance. */
  readonly bytes: Uint8Array | undefined
}

/** The limit of every service, `max_bytes` of an upload. Larger files are not read into memory. */
const MAX_BYTES = 26_214_400

/**
 * Separates the fields of a job from those of its upload, and reads from the file what is not given. Programs that send no files do not load
 * this module.
 */
export const prepareFile = async (
  file: WebBody,
  { declared_seconds, format, ...fields }: AboutFile,
  needsBytes = false,
  signal?: AbortSignal,
): Promise<{ readonly fields: object; readonly source: Source }> => {
  if (declared_seconds !== undefined && format !== undefined && !needsBytes)
    return { fields, source: { body: file, about: { declared_seconds, format }, bytes: undefined } }
  const bytes = await bytesOf(file, signal)
  const given = { ...(declared_seconds !== undefined && { declared_seconds }), ...(format && { format }) }
  // A stream has been read, so its bytes are sent.
  return { fields, source: { body: "getReader" in file ? bytes : file, about: readAudio(bytes, given), bytes } }
}

const bytesOf = async (file: WebBody, signal: AbortSignal | undefined): Promise<Uint8Array<ArrayBuffer>> => {
  if ("getReader" in file) return bytesOfStream(file, signal)
  if ("size" in file) requireFits(file.size)
  else requireFits(file.byteLength)
  return file instanceof Uint8Array ? file : new Uint8Array("size" in file ? await file.arrayBuffer() : file)
}

const bytesOfStream = async (
  stream: ReadableStream<Uint8Array>,
  signal: AbortSignal | undefined,
): Promise<Uint8Array<ArrayBuffer>> => {
  const pieces: Array<Uint8Array<ArrayBuffer>> = []
  let bytes = 0
  // A pipe, because a reader has no signal: a sender that stalls must not hold the call.
  const reader = stream.pipeThrough(new TransformStream<Uint8Array, Uint8Array>(), signal && { signal }).getReader()
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    pieces.push(next.value as Uint8Array<ArrayBuffer>)
    bytes += next.value.byteLength
    if (bytes > MAX_BYTES) await reader.cancel()
    requireFits(bytes)
  }
  return new Uint8Array(await new Blob(pieces).arrayBuffer())
}

const requireFits = (bytes: number): void => {
  if (bytes > MAX_BYTES) throw new TypeError(`the file is larger than ${MAX_BYTES} bytes, the limit of an upload`)
}
