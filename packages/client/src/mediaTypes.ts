import type { AudioFormat } from "./wire.ts"

/** The media type under which a file of a format is sent. */
export const mediaTypes: Readonly<Record<AudioFormat, string>> = {
  mp3: "audio/mpeg",
  mp4: "audio/mp4",
  m4a: "audio/mp4",
  wav: "audio/wav",
  webm: "audio/webm",
}
