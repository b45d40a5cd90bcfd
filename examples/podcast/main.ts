// An episode of a podcast: `node --conditions=@kiln/source examples/podcast/main.ts <directory> <topic> <URL of the services>`.
// Kill it whenever you like, and start it again: it continues. If a part failed, starting it again speaks only that part.
import { join } from "node:path"
import { fileBlobs } from "@kiln/adapter-blobs"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { createEngine } from "@kiln/core"
import { episodeKind, partKind, type Tools } from "./episode.ts"

const [directory, topic, url] = process.argv.slice(2)
if (directory === undefined || topic === undefined || url === undefined)
  throw new Error("pass a directory, a topic and the URL of the services")

const ask = (path: string, body: object, signal?: AbortSignal) =>
  fetch(`${url}${path}`, { method: "POST", body: JSON.stringify(body), signal: signal ?? null })
const tools: Tools = {
  write: async (about) => (await ask("/script", { about })).json(),
  speak: async (text, signal) => {
    const response = await ask("/speech", { text }, signal)
    if (response.status === 422) return undefined
    if (!response.ok) throw new Error(`${response.status} from the speech service`)
    return new Uint8Array(await response.arrayBuffer())
  },
}
const part = partKind(tools)
await using engine = await createEngine({
  store: sqliteStore({ path: join(directory, "kiln.db") }),
  blobs: fileBlobs({ directory: join(directory, "blobs") }),
  kinds: [episodeKind(tools, part), part],
  // Short, so that a killed program continues soon. The default is 30 s.
  settings: { leaseDurationMs: 2_000, concurrency: 4 },
})

// The topic is the key: started again, the program finds its job, or continues with the retry of a failed one.
let job = await engine.get(await engine.submit("podcast_episode", { topic }, { idempotencyKey: topic }))
while (job.status === "failed")
  job =
    job.retriedAs === undefined ? await engine.operator.retry(job) : await engine.get<"podcast_episode">(job.retriedAs)

process.once("SIGINT", () => void engine.operator.cancel(job))
// While the parts are spoken: "7 of 20".
const show = async (): Promise<void> => {
  const seen = await engine.get(job)
  if ((seen.status === "queued" || seen.status === "processing") && seen.progress !== null)
    console.error(seen.progress.message)
}
const showing = setInterval(() => void show(), 100)
const done = await engine.wait(job)
clearInterval(showing)
if (done.status === "done") console.log(`${done.output?.parts.length} parts, ${done.output?.bytes} bytes`)
if (done.status === "failed") console.log(done.errorCode)
