// Captions of a video: `node --conditions=@kiln/source examples/captioning/main.ts <directory> <video> <URL of transcription>`.
// Kill it whenever you like, and start it again: it continues, and pays for no finished scene again.
import { join } from "node:path"
import { fileBlobs } from "@kiln/adapter-blobs"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { createEngine } from "@kiln/core"
import { sceneKind, type Tools, videoKind } from "./captions.ts"

const [directory, video, url] = process.argv.slice(2)
if (directory === undefined || video === undefined || url === undefined)
  throw new Error("pass a directory, a video and the URL of a transcription service")

const ask = async (path: string, body: object, signal?: AbortSignal) => {
  const headers = { "content-type": "application/json" }
  const response = await fetch(`${url}${path}`, {
    method: "POST",
    headers,
    body: JSON.stringify(body),
    signal: signal ?? null,
  })
  if (!response.ok) throw new Error(`${response.status} from the transcription service`)
  return response.json()
}
const tools: Tools = {
  findScenes: async (name) => ask("/scenes", { video: name }),
  transcribe: async (name, scene, signal) => (await ask("/transcriptions", { video: name, ...scene }, signal)).text,
}
const scene = sceneKind(tools)
await using engine = await createEngine({
  store: sqliteStore({ path: join(directory, "kiln.db") }),
  blobs: fileBlobs({ directory: join(directory, "blobs") }),
  kinds: [videoKind(tools, scene), scene],
  // Short, so that a killed program continues soon. The default is 30 s.
  settings: { leaseDurationMs: 2_000, concurrency: 2 },
})

// Events of this process are enough for a progress bar.
let scenes = 0
engine.on(
  "completed",
  ({ kind }) => kind === "caption_scene" && console.error(`scenes done by this process: ${++scenes}`),
)

// The video is the key: started again, the program finds its job.
const job = await engine.submit("caption_video", { video }, { idempotencyKey: video })
const done = await engine.wait(job)
if (done.status !== "done" || done.output === null) throw new Error(`the job is ${done.status}`)
console.log(new TextDecoder().decode(await engine.readFile(done.output.captions)))
