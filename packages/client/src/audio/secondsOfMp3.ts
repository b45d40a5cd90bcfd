import { id3End, mpegFrameAt } from "@kiln/core/media"

/** Returns the length of an MP3 by its frames; 0 without any. */
export const secondsOfMp3 = (file: Uint8Array): number => {
  let seconds = 0
  for (let at = id3End(file, 0); at < file.length;) {
    const frame = mpegFrameAt(file, at)
    if (frame !== undefined) seconds += frame.samples / frame.sampleRate
    at += frame?.bytes ?? 1
  }
  return seconds
}
