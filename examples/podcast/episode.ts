import { jobKind } from "@kiln/core"
import { z } from "zod"

/** The parts of the program that a test replaces. */
export interface Tools {
  /** Writes the script. Costs money. */
  readonly write: (topic: string) => Promise<ReadonlyArray<string>>
  /** Speaks a part. Costs money. Returns `undefined` for a text that the service refuses. */
  readonly speak: (text: string, signal: AbortSignal) => Promise<Uint8Array | undefined>
}

/** One spoken part. */
export const partKind = ({ speak }: Tools) =>
  jobKind({
    name: "podcast_part",
    request: z.strictObject({ text: z.string() }),
    output: z.object({ bytes: z.int() }),
    files: ["audio"],
    errorCodes: { text_refused: "The speech service refuses this text." },
    limits: { attemptTimeoutMs: 60_000 },
    run: async ({ failure, request, signal, writeFile }) => {
      const audio = await speak(request.text, signal)
      if (audio === undefined) throw failure("text_refused")
      await writeFile("audio", async () => ({ data: audio, mediaType: "audio/mpeg" }))
      return { output: { bytes: audio.length } }
    },
  })

/** An episode: a script, and a part for each of its paragraphs. */
export const episodeKind = ({ write }: Tools, part: ReturnType<typeof partKind>) =>
  jobKind({
    name: "podcast_episode",
    request: z.strictObject({ topic: z.string() }),
    output: z.object({ parts: z.array(z.string()), bytes: z.int() }),
    errorCodes: { part_failed: "A part could not be spoken." },
    run: async ({ children, failure, request, step }) => {
      // A step, so that every attempt asks for the same parts, and the script is paid for once.
      const script = await step("script", async () => [...(await write(request.topic))])
      // While the parts are spoken, the job shows "7 of 20".
      const parts = await children(
        "parts",
        part,
        script.map((text) => ({ text })),
      )
      const files: Array<{ readonly id: string; readonly bytes: number }> = []
      for (const each of parts) {
        // `operator.retry` of this job speaks only the parts that failed.
        if (each.status === "failed" || each.output === null)
          throw failure("part_failed", { message: `part ${each.id}` })
        files.push(each.output.audio)
      }
      return {
        output: { parts: files.map(({ id }) => id), bytes: files.reduce((sum, { bytes }) => sum + bytes, 0) },
      }
    },
  })
