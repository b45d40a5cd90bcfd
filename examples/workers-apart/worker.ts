// A worker process: `node --conditions=@kiln/source examples/workers-apart/worker.ts <postgres:// URL> <directory>`.
import { createEngine } from "@kiln/core"
import { printKind, sharedStores } from "./engine.ts"

const [url = "", directory = ""] = process.argv.slice(2)
const engine = await createEngine({
  ...sharedStores(url, directory),
  kinds: [printKind(directory)],
  // Another worker takes over after this time without a heartbeat. Short, so that you can see it.
  settings: { concurrency: 1, leaseDurationMs: 5_000 },
})
engine.on("active", ({ jobId }) => console.log(`began ${jobId}`))
process.once("SIGTERM", () => void engine.stop())
