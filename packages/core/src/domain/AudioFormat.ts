import { type AudioContainer, sniffContainer } from "../media/sniffContainer.ts"
import { id3End } from "../media/tags.ts"

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

export const isAudioFormat = (value: unknown): value is AudioFormat => audioFormats.some((format) => format === value)

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
 * Returns whether a file that begins with these bytes may be of this format. An ID3 tag is at the beginning of an MP3, but a WAVE
 * file may follow it as well; that shows only when the file is measured.
 */
export const mayBeginWith = (format: AudioFormat, firstBytes: Uint8Array): boolean =>
  containerMatches(format, sniffContainer(firstBytes)) || (format === "wav" && id3End(firstBytes, 0) > 0)
