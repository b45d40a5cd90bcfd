import { spawn } from "node:child_process"

const DECODER = "ffmpeg"

export interface Decoded {
  /** Samples of the stream that ffmpeg selects, divided by their rate. */
  readonly seconds: number
  /** Messages of level `error`. */
  readonly messages: string
  readonly exitCode: number | null
}

/** Decodes a whole file with ffmpeg and counts the samples. */
export const decode = async (path: string): Promise<Decoded> => {
  // A WAV header tells channels and rate of the samples behind it.
  const args = [
    "-v",
    "error",
    "-nostdin",
    "-i",
    path,
    "-c:a",
    "pcm_s16le",
    "-fflags",
    "+bitexact",
    "-f",
    "wav",
    "pipe:1",
  ]
  const child = spawn(DECODER, args, { stdio: ["ignore", "pipe", "pipe"], timeout: 120_000 })
  let header = Buffer.alloc(0)
  let bytes = 0
  let messages = ""
  child.stdout.on("data", (chunk: Buffer) => {
    bytes += chunk.length
    if (header.length < 256) header = Buffer.concat([header, chunk.subarray(0, 256)])
  })
  child.stderr.on("data", (chunk: Buffer) => (messages += chunk.toString()))
  const exitCode = await new Promise<number | null>((resolve, reject) => {
    child.on("error", reject)
    child.on("close", resolve)
  })
  const data = header.indexOf("data")
  if (data < 0) return { seconds: NaN, messages, exitCode }
  const frameBytes = header.readUInt16LE(22) * 2
  return { seconds: Math.floor((bytes - data - 8) / frameBytes) / header.readUInt32LE(24), messages, exitCode }
}
