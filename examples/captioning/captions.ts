import { jobKind } from "@kiln/core"
import { z } from "zod"

/** A part of a video, in seconds. */
export interface Scene {
  readonly from: number
  readonly to: number
}

/** The parts of the program that a test replaces. */
export interface Tools {
  readonly findScenes: (video: string) => Promise<ReadonlyArray<Scene>>
  /** Costs money. Returns `undefined` for a scene without speech. */
  readonly transcribe: (video: string, scene: Scene, signal: AbortSignal) => Promise<string | undefined>
}

/** The captions of one scene. */
export const sceneKind = ({ transcribe }: Tools) =>
  jobKind({
    name: "caption_scene",
    request: z.strictObject({ video: z.string(), from: z.number(), to: z.number() }),
    output: z.object({ text: z.string() }),
    errorCodes: { no_speech: "Nobody speaks in this scene." },
    limits: { maxFailures: 5, attemptTimeoutMs: 60_000, concurrency: 4 },
    retry: { backoff: { baseMs: 200 } },
    run: async ({ failure, request: { video, ...scene }, signal }) => {
      const text = await transcribe(video, scene, signal)
      if (text === undefined) throw failure("no_speech")
      return { output: { text } }
    },
  })

/** The captions of a video, as a WebVTT file. */
export const videoKind = (tools: Tools, scene: ReturnType<typeof sceneKind>) =>
  jobKind({
    name: "caption_video",
    request: z.strictObject({ video: z.string() }),
    output: z.object({ scenes: z.int(), silent: z.int() }),
    files: ["captions"],
    metadata: ["video"],
    run: async ({ children, failure, request: { video }, step, writeFile }) => {
      // A step, so that every attempt asks for the same scenes.
      const scenes = await step("scenes", async () => (await tools.findScenes(video)).map(({ from, to }) => [from, to]))
      const requests = scenes.map(([from = 0, to = 0]) => ({ video, from, to }))
      // The parent holds no slot while its children run.
      const captions = await children("captions", scene, requests)
      for (const child of captions)
        if (child.status === "failed" && child.errorCode !== "no_speech")
          throw failure(child.errorCode, { message: `scene ${child.id} failed` })

      const cues = captions.flatMap((child, index) => {
        const { from = 0, to = 0 } = requests[index] ?? {}
        return child.status === "done" && child.output !== null ? [cue({ from, to }, child.output.text)] : []
      })
      const data = new TextEncoder().encode(["WEBVTT", ...cues].join("\n\n"))
      await writeFile("captions", async () => ({ data, mediaType: "text/vtt" }))
      return { output: { scenes: scenes.length, silent: scenes.length - cues.length } }
    },
  })

const cue = ({ from, to }: Scene, text: string): string => `${clock(from)} --> ${clock(to)}\n${text}`
const clock = (seconds: number): string => new Date(seconds * 1_000).toISOString().slice(11, 23)
