import { clock, size } from "@kiln/pages/ui"
import { config } from "./api.ts"

export const formats = ["mp3", "mp4", "m4a", "wav", "webm"] as const
export type Format = (typeof formats)[number]

/** A file that may be sent. */
export interface Audio {
  readonly file: Blob
  readonly name: string
  readonly format: Format
  readonly seconds: number
  /** For a player. Belongs to the page until it is closed. */
  readonly url: string
  /** Loudness from 0 to 1 over the length of the file. */
  readonly peaks: ReadonlyArray<number>
}

/** A file that the service would refuse, with the reason. */
export class NotAccepted extends Error {}

const text = (bytes: Uint8Array, from: number, to: number): string => String.fromCharCode(...bytes.subarray(from, to))

/** Tells the container of a file by its first bytes, as the service does. */
const detect = (head: Uint8Array): ReadonlyArray<Format> => {
  if (text(head, 0, 4) === "RIFF" && text(head, 8, 12) === "WAVE") return ["wav"]
  if (text(head, 4, 8) === "ftyp") return ["mp4", "m4a"]
  if (head[0] === 0x1a && head[1] === 0x45 && head[2] === 0xdf && head[3] === 0xa3) return ["webm"]
  if (text(head, 0, 3) === "ID3" || (head[0] === 0xff && ((head[1] ?? 0) & 0xe0) === 0xe0)) return ["mp3"]
  return []
}

/** Reads the length of a WAV file from its header: players refuse some that are fine. */
const wavSeconds = async (file: Blob): Promise<number | undefined> => {
  const view = new DataView(await file.slice(0, 4_096).arrayBuffer())
  let bytesPerSecond = 0
  for (let at = 12; at + 8 <= view.byteLength;) {
    const id = String.fromCharCode(...[0, 1, 2, 3].map((n) => view.getUint8(at + n)))
    const length = view.getUint32(at + 4, true)
    if (id === "fmt " && at + 20 <= view.byteLength) bytesPerSecond = view.getUint32(at + 16, true)
    if (id === "data") return bytesPerSecond > 0 ? Math.min(length, file.size - at - 8) / bytesPerSecond : undefined
    at += 8 + length + (length % 2)
  }
  return undefined
}

const playerSeconds = (url: string): Promise<number | undefined> =>
  new Promise((resolve) => {
    const player = document.createElement("audio")
    const timer = setTimeout(() => resolve(undefined), 5_000)
    const done = (seconds: number | undefined): void => {
      clearTimeout(timer)
      resolve(seconds !== undefined && Number.isFinite(seconds) && seconds > 0 ? seconds : undefined)
    }
    player.addEventListener("loadedmetadata", () => done(player.duration))
    player.addEventListener("error", () => done(undefined))
    player.preload = "metadata"
    player.src = url
  })

const mostDecodedBytes = 6_000_000
const bars = 96

const peaksOf = async (file: Blob): Promise<ReadonlyArray<number>> => {
  if (file.size > mostDecodedBytes) return []
  try {
    const buffer = await new OfflineAudioContext(1, 1, 16_000).decodeAudioData(await file.arrayBuffer())
    const samples = buffer.getChannelData(0)
    const each = Math.max(1, Math.floor(samples.length / bars))
    const loud = Array.from({ length: Math.min(bars, samples.length) }, (_, n) => {
      let most = 0
      for (let at = n * each; at < (n + 1) * each; at += 8) most = Math.max(most, Math.abs(samples[at] ?? 0))
      return most
    })
    const most = Math.max(0.05, ...loud)
    return loud.map((value) => value / most)
  } catch {
    return []
  }
}

/**
 * Checks format, size and length before anything is sent. Throws `NotAccepted` with the reason.
 *
 * @param knownSeconds the length, where the file does not say it: recordings of a browser often do not
 */
export const inspect = async (file: Blob, name: string, knownSeconds?: number): Promise<Audio> => {
  if (file.size === 0) throw new NotAccepted(`${name} is empty. Choose a file with audio in it.`)
  if (file.size > config.maxBytes)
    throw new NotAccepted(`${name} has ${size(file.size)}. A file may have at most ${size(config.maxBytes)} (25 MiB).`)
  const found = detect(new Uint8Array(await file.slice(0, 16).arrayBuffer()))
  const ending = formats.find((format) => name.toLowerCase().endsWith(`.${format}`))
  const format = found.find((one) => one === ending) ?? found[0]
  if (format === undefined)
    throw new NotAccepted(`${name} is not an audio file that the service reads. Choose mp3, mp4, m4a, wav or webm.`)
  const url = URL.createObjectURL(file)
  const seconds =
    knownSeconds ?? (format === "wav" ? await wavSeconds(file) : undefined) ?? (await playerSeconds(url)) ?? 60
  if (seconds > config.maxSeconds) {
    URL.revokeObjectURL(url)
    throw new NotAccepted(
      `${name} is ${clock(seconds)} long. The service accepts at most ${clock(config.maxSeconds)}. Nothing was sent.`,
    )
  }
  return {
    file,
    name,
    format,
    seconds: Math.max(0.1, Math.round(seconds * 100) / 100),
    url,
    peaks: await peaksOf(file),
  }
}

const rate = 16_000

/** A short melody as a WAV file, for those who have no file at hand. */
export const exampleFile = (): Blob => {
  const notes = [523.25, 659.25, 783.99, 1046.5]
  const each = 0.4 * rate
  const samples = new Int16Array(notes.length * each)
  for (let at = 0; at < samples.length; at++) {
    const within = (at % each) / each
    const loud = Math.min(1, within * 20) * (1 - within) ** 1.5
    samples[at] = 9_000 * loud * Math.sin((2 * Math.PI * (notes[Math.floor(at / each)] ?? 0) * at) / rate)
  }
  const head = new DataView(new ArrayBuffer(44))
  const write = (at: number, word: string): void =>
    [...word].forEach((char, n) => head.setUint8(at + n, char.charCodeAt(0)))
  write(0, "RIFF")
  head.setUint32(4, 36 + samples.byteLength, true)
  write(8, "WAVEfmt ")
  head.setUint32(16, 16, true)
  head.setUint16(20, 1, true)
  head.setUint16(22, 1, true)
  head.setUint32(24, rate, true)
  head.setUint32(28, rate * 2, true)
  head.setUint16(32, 2, true)
  head.setUint16(34, 16, true)
  write(36, "data")
  head.setUint32(40, samples.byteLength, true)
  return new Blob([head, samples], { type: "audio/wav" })
}
