import type { AudioFormat } from "@kiln/core/domain"

/** What becomes of a job that is given such a file. */
export type Outcome =
  /** The first bytes give it away: there is no job, and whoever probes it all the same finds it unreadable. */
  | "refused"
  | "audio_unreadable"
  | "audio_too_long"
  | "audio_too_short"
  /** Done, and billed so many seconds. */
  | number

export interface HostileFile {
  readonly name: string
  readonly format: AudioFormat
  readonly file: () => Buffer
  readonly outcome: Outcome
}

/** Every file is declared to last a second. */
export const DECLARED_SECONDS = 1

/** The largest upload: 25 MiB. */
export const LARGEST = 26_214_400

/** Files of one format: a name, what becomes of it, and how it is made. */
export const family = (
  format: AudioFormat,
  files: Readonly<Record<string, readonly [outcome: Outcome, file: () => Buffer]>>,
): ReadonlyArray<HostileFile> =>
  Object.entries(files).map(([name, [outcome, file]]) => ({ name: `${format}: ${name}`, format, outcome, file }))

export const times = (count: number, part: Buffer): Buffer => Buffer.alloc(count * part.length, part)

/** Bytes without any order, always the same. */
export const noise = (bytes: number): Buffer => {
  const all = Buffer.alloc(bytes)
  let state = 0x9e3779b9
  for (let i = 0; i < bytes; i++) {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x6d2b79f5) | 0
    all[i] = state >>> 24
  }
  return all
}

/** `head` and then `part` again and again, up to the largest upload. */
export const largest = (head: Buffer, part: Buffer): Buffer =>
  Buffer.concat([head, Buffer.alloc(LARGEST - head.length, part)])
