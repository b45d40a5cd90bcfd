import { type AudioContainer, SNIFF_BYTES, sniffContainer } from "../media/sniffContainer.ts"
import { id3End } from "../media/bytes.ts"

export { type AudioContainer, SNIFF_BYTES, sniffContainer } from "../media/sniffContainer.ts"

/** The audio formats a client may declare. */

export const audioFormats = ["mp3", "mp4", "wav", "webm", "m4a"] as const
export type AudioFormat = (typeof audioFormats)[number]

const mp4Types = ["audio/mp4", "audio/m4a", "audio/x-m4a", "video/mp4"]

/** The media types under which a file of a format may be sent, in lower case, without parameters. */
export const acceptedMediaTypes: Readonly<Record<AudioFormat, ReadonlyArray<string>>> = {
  mp3: ["audio/mp3", "audio/mpeg", "audio/mpeg3", "audio/x-mp3", "audio/x-mpeg"],
  mp4: mp4Types,
  m4a: mp4Types,
  wav: ["audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave"],
  webm: ["audio/webm", "video/webm"],
}

const MEDIA_TYPE = /^[ \t]*([^;\s]+)[ \t]*(?:;|$)/

/**
 * Returns whether a `Content-Type` header matches the declared format. Ignores case and parameters; a missing header does not
 * match.
 */
export const acceptsContentType = (format: AudioFormat, header: string | undefined): boolean => {
  const mediaType = MEDIA_TYPE.exec(header ?? "")?.[1]
  return mediaType !== undefined && acceptedMediaTypes[format].includes(mediaType.toLowerCase())
}

/** Returns whether a file in this container may be declared as this format. */
export const containerMatches = (format: AudioFormat, container: AudioContainer | undefined): boolean =>
  container === (format === "m4a" ? "mp4" : format)

/**
 * Finds the container of a file of a declared format as it arrives. An ID3 tag is at the beginning of an MP3, but a WAVE file may
 * follow it as well: if one is declared, the bytes behind the tags decide.
 */
export class FirstBytes {
  readonly #skipsTags: boolean
  readonly #bytes = new Uint8Array(SNIFF_BYTES)
  #length = 0
  /** Offset of the bytes in the file. */
  #start = 0
  #passed = 0

  constructor(declared: AudioFormat) {
    this.#skipsTags = declared === "wav"
  }

  get isEmpty(): boolean {
    return this.#passed === 0
  }

  /** The bytes that decide, so far. */
  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#length)
  }

  /** Adds the next piece of the file. Returns true once no more are needed. */
  add(piece: Uint8Array): boolean {
    do {
      const from = Math.max(0, this.#start + this.#length - this.#passed)
      const part = piece.subarray(from, from + SNIFF_BYTES - this.#length)
      this.#bytes.set(part, this.#length)
      this.#length += part.length
    } while (this.#length === SNIFF_BYTES && this.#skipTag())
    this.#passed += piece.length
    return this.#length === SNIFF_BYTES
  }

  /** Returns the container, once enough was added or the file has ended. */
  container(): AudioContainer | undefined {
    while (this.#skipTag());
    return sniffContainer(this.bytes) ?? (this.#start > 0 ? "mp3" : undefined)
  }

  #skipTag(): boolean {
    const end = this.#skipsTags ? id3End(this.bytes, 0) : 0
    this.#bytes.copyWithin(0, end)
    this.#length = Math.max(0, this.#length - end)
    this.#start += end
    return end > 0
  }
}
