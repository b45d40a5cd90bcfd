import type { AudioFormat } from "@kiln/core/domain"

/** The outcome of a job with such a file. */
export type Outcome =
  /** Rejected by its first bytes, so there is no job; the probe finds it unreadable as well. */
  | "refused"
  | "audio_unreadable"
  | "audio_too_long"
  | "audio_too_short"
  /** Done, and billed for this many seconds. */
  | number

export interface HostileFile {
  readonly name: string
  readonly format: AudioFormat
  readonly file: () => Buffer
  readonly outcome: Outcome
}

/** The declared duration of every file. */
export const DECLARED_SECONDS = 1

/** The largest upload: 25 MiB. */
export const LARGEST = 26_214_400

/** Defines files of one format: name, outcome, and content. */
export const family = (
  format: AudioFormat,
  files: Readonly<Record<string, readonly [outcome: Outcome, file: () => Buffer]>>,
): ReadonlyArray<HostileFile> =>
  Object.entries(files).map(([name, [outcome, file]]) => ({ name: `${format}: ${name}`, format, outcome, file }))

export const times = (count: number, part: Buffer): Buffer => Buffer.alloc(count * part.length, part)

/** Returns pseudorandom bytes, the same in every run. */
export const noise = (bytes: number): Buffer => {
  const all = Buffer.alloc(bytes)
  let state = 0x9e3779b9
  for (let i = 0; i < bytes; i++) {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x6d2b79f5) | 0
    all[i] = state >>> 24
  }
  return all
}

/** Returns `head` followed by repetitions of `part`, up to the largest upload. */
export const largest = (head: Buffer, part: Buffer): Buffer =>
  Buffer.concat([head, Buffer.alloc(LARGEST - head.length, part)])
