import { existsSync } from "node:fs"
import { readFile } from "node:fs/promises"
import { Effect } from "effect"
import { probeBytes } from "../support/probe.ts"
import { type Decoded, decode } from "./decode.ts"
import { generate, store } from "./generate.ts"
import type { Recipe } from "./Recipe.ts"

/** The result of building and measuring one file. */
export interface Outcome {
  readonly name: string
  readonly path?: string
  readonly bytes?: number
  /** Why the file could not be built or decoded. */
  readonly failure?: string
  /** Seconds by a full decode, when asked for. */
  readonly decoded?: number
  /** Messages of the decoder. */
  readonly messages?: string
  /** Seconds by the probe; absent when it has refused the file or found no duration. */
  readonly probed?: number
  readonly refusal?: string
  readonly probeCpuMs?: number
}

/** The chunk size of blob stores. */
const CHUNK_BYTES = 65_536

/**
 * A decode that differs more than this from the signal did not return the whole file. Encoders add up to several frames
 * of silence, which are longest at 8 kHz. PCM needs none.
 */
const paddingSeconds = ({ format, group }: Recipe): number =>
  format === "wav" && !/-in-|adpcm|sox|sndfile|wavefile|long/.test(group) ? 0.08 : 0.36

/** Builds a file and probes it; with `isDecoded`, also decodes it. */
export const outcomeOf = async (recipe: Recipe, isDecoded: boolean): Promise<Outcome> => {
  const { name } = recipe
  try {
    const path = await generate(recipe)
    const file = await readFile(path)
    const before = process.cpuUsage()
    const probed = await Effect.runPromise(probe(recipe, file))
    const { system, user } = process.cpuUsage(before)
    const measured = { name, path, bytes: file.length, probeCpuMs: (system + user) / 1000, ...probed }
    if (!isDecoded) return measured
    const { exitCode, messages, seconds } = await decodeOnce(path)
    const wrong =
      exitCode !== 0 || (recipe.isLive && messages !== "")
        ? `ffmpeg cannot decode the file: ${messages.slice(0, 200)}`
        : !recipe.isLive && !(Math.abs(seconds - (recipe.seconds ?? seconds)) <= paddingSeconds(recipe))
          ? `ffmpeg decodes ${seconds.toFixed(3)} s of ${recipe.seconds} s`
          : undefined
    return { ...measured, decoded: seconds, messages, ...(wrong === undefined ? {} : { failure: wrong }) }
  } catch (error) {
    return { name, failure: error instanceof Error ? error.message.slice(0, 600) : String(error) }
  }
}

/** Decodes a file unless the result is cached beside it. */
const decodeOnce = async (path: string): Promise<Decoded> => {
  const cached = `${path}.decoded.json`
  if (existsSync(cached)) return JSON.parse(await readFile(cached, "utf8")) as Decoded
  const decoded = await decode(path)
  await store(cached, Buffer.from(JSON.stringify(decoded)))
  return decoded
}

const probe = ({ format }: Recipe, file: Buffer) =>
  probeBytes(format, file, CHUNK_BYTES).pipe(
    Effect.map(({ seconds }): Pick<Outcome, "probed" | "refusal"> =>
      seconds === undefined ? { refusal: "no duration" } : { probed: seconds },
    ),
    Effect.catchTag("MediaUnreadable", ({ reason }) => Effect.succeed({ refusal: reason })),
  )
