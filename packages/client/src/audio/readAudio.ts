import { type AudioContainer, sniffContainer, startsWith } from "@kiln/core/media"
import type { CreateUpload } from "../wire.ts"
import { secondsOfMp3 } from "./secondsOfMp3.ts"
import { secondsOfMp4 } from "./secondsOfMp4.ts"
import { secondsOfWav } from "./secondsOfWav.ts"
import { secondsOfWebm } from "./secondsOfWebm.ts"

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
