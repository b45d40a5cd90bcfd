import type { AudioFormat } from "./wire.ts"

/** Under which media type a file of a format is sent: one of those the service takes. */
export const mediaTypes: Readonly<Record<AudioFormat, string>> = {
  mp3: "audio/mpeg",
  mp4: "audio/mp4",
  m4a: "audio/mp4",
  wav: "audio/wav",
  webm: "audio/webm",
}
