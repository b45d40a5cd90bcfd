// Runs a job whose `onFinished` is called. `end` dies when the job has ended, `call` in the call, `live` prints the calls.
import { createEngine, jobKind } from "@kiln/core"
import { memoryBlobs } from "@kiln/testing"
import { z } from "zod"
import { sqliteStore } from "../../src/index.ts"

const [, , path = "", mode = ""] = process.argv
const die = () => void process.kill(process.pid, "SIGKILL")

const digest = jobKind({
  name: "digest",
  request: z.object({ to: z.string() }),
  run: async ({ request }) => ({ output: { sent: request.to } }),
  onFinished: ({ attempt, job }) => {
    if (mode === "call") die()
    console.log(`${job.id} ${job.status} ${attempt}`)
  },
})

const engine = await createEngine({
  store: sqliteStore({ path }),
  blobs: memoryBlobs(),
  kinds: [digest],
  autoStart: false,
})
if (mode !== "live") {
  engine.on("completed", () => {
    if (mode === "end") die()
  })
  const { id } = await engine.submit("digest", { to: "ada" })
  console.log(id)
}
await engine.start()
