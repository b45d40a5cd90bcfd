import {
  type AudioContainer,
  chunkAt,
  dataBytes,
  id3End,
  mpegFrameAt,
  sniffContainer,
  startsWith,
  viewOf,
} from "@kiln/core/media"
import type { CreateUpload } from "../wire.ts"
import { secondsOfMp4 } from "./secondsOfMp4.ts"
import { secondsOfWebm } from "./secondsOfWebm.ts"

/** Returns the length of a WAVE file by its bytes per second; 0 if it has no samples. */
const secondsOfWav = (file: Uint8Array): number => {
  let bytesPerSecond = 0
  for (let chunk = chunkAt(file, 12); chunk !== undefined;) {
    const { body, bytes, name } = chunk
    if (name === "fmt " && body + 12 <= file.length) bytesPerSecond = viewOf(file).getUint32(body + 8, true)
    if (name === "data") return bytesPerSecond === 0 ? 0 : dataBytes(file, body, bytes).bytes / bytesPerSecond
    chunk = chunkAt(file, body + bytes + (bytes % 2))
  }
  return 0
}

/** Returns the length of an MP3 by its frames; 0 without any. */
const secondsOfMp3 = (file: Uint8Array): number => {
  let seconds = 0
  for (let at = id3End(file, 0); at < file.length;) {
    const frame = mpegFrameAt(file, at)
    if (frame !== undefined) seconds += frame.samples / frame.sampleRate
    at += frame?.bytes ?? 1
  }
  return seconds
}

const readers: Readonly<Record<AudioContainer, (file: Uint8Array) => number>> = {
  wav: secondsOfWav,
  mp3: secondsOfMp3,
  mp4: secondsOfMp4,
  webm: secondsOfWebm,
}

/** Returns the length of a file; 0 for one that is damaged, whose headers point past its end. */
const secondsOf = (container: AudioContainer, file: Uint8Array): number => {
  try {
    return readers[container](file)
  } catch {
    return 0
  }
}

/** Maximum `declared_seconds`. The service accepts a measured length of up to a second more. */
const MAX_SECONDS = 900

/**
 * Returns the format and length of a file, as the service wants them announced; given values win. The length is a declaration: the
 * service measures the file, so this follows headers and does not decode. Throws `TypeError` if the file shows neither.
 */
export const readAudio = (file: Uint8Array, given: Partial<CreateUpload>): CreateUpload => {
  const container = sniffContainer(file)
  const format = given.format ?? (container === "mp4" && startsWith(file, 8, "M4A") ? "m4a" : container)
  if (format === undefined)
    throw new TypeError(
      "the file is not mp3, mp4, m4a, wav or webm audio; if it is, pass its format and declared_seconds",
    )
  const seconds = given.declared_seconds ?? (container === undefined ? 0 : secondsOf(container, file))
  if (!(seconds > 0)) throw new TypeError(`the length of this ${format} file cannot be read; pass declared_seconds`)
  return { format, declared_seconds: seconds > MAX_SECONDS && seconds <= MAX_SECONDS + 1 ? MAX_SECONDS : seconds }
}
