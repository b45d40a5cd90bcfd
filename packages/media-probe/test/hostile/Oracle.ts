import { spawn } from "node:child_process"
import { appendFileSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { ffmpegPath } from "./materials.ts"

const RATE = 8000
const BYTES_PER_SECOND = 2 * RATE

/** The result of playing a file. */
export interface Played {
  readonly seconds: number
  /** True if ffmpeg was still busy at the time limit. */
  readonly isSlow: boolean
}

/**
 * Plays files with ffmpeg, which chooses the stream, and counts the samples. Results are kept by digest in a file, so that
 * another run over the same variants is fast.
 */
export class Oracle {
  readonly #directory: string
  readonly #log: string
  readonly #known = new Map<string, Played>()
  /** Longest time to wait, and the number of seconds of sound after which to stop. */
  static readonly limits = { seconds: 20, playedSeconds: 120 } as const

  constructor(directory: string) {
    this.#directory = directory
    this.#log = join(directory, "played.tsv")
    for (const line of contentOf(this.#log).split("\n")) {
      const [key = "", seconds, slow] = line.split("\t")
      if (seconds !== undefined) this.#known.set(key, { seconds: Number(seconds), isSlow: slow === "slow" })
    }
  }

  /** Returns how long a file plays. The extension is part of the question, because ffmpeg considers it. */
  async play(bytes: Uint8Array, extension: string, sha256: string): Promise<Played> {
    const key = `${extension}:${sha256}`
    const known = this.#known.get(key)
    if (known !== undefined) return known
    const path = join(this.#directory, `${sha256.slice(0, 16)}-${process.pid}.${extension}`)
    writeFileSync(path, bytes)
    const played = await play(path).finally(() => rmSync(path, { force: true }))
    this.#known.set(key, played)
    appendFileSync(this.#log, `${key}\t${played.seconds}\t${played.isSlow ? "slow" : ""}\n`)
    return played
  }
}

const contentOf = (path: string): string => {
  try {
    return readFileSync(path, "utf8")
  } catch {
    return ""
  }
}

/** Stops at a number of samples instead of with `-t`, which goes by timestamps and would end a file that forges them. */
const play = (path: string): Promise<Played> =>
  new Promise((resolve, reject) => {
    const output = ["-ac", "1", "-ar", `${RATE}`, "-f", "s16le", "pipe:1"]
    const ffmpeg = spawn(ffmpegPath, ["-v", "quiet", "-nostdin", "-threads", "1", "-i", path, ...output], {
      stdio: ["ignore", "pipe", "ignore"],
    })
    let bytes = 0
    let isSlow = false
    const timer = setTimeout(() => {
      isSlow = true
      ffmpeg.kill("SIGKILL")
    }, Oracle.limits.seconds * 1000)
    ffmpeg.stdout.on("data", (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes >= Oracle.limits.playedSeconds * BYTES_PER_SECOND) ffmpeg.kill("SIGKILL")
    })
    ffmpeg.on("error", reject)
    ffmpeg.on("close", () => {
      clearTimeout(timer)
      resolve({ seconds: Math.min(bytes / BYTES_PER_SECOND, Oracle.limits.playedSeconds), isSlow })
    })
  })
