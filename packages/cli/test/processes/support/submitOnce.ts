import { postgresStore } from "@kiln/adapter-postgres"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { createEngine, jobKind, type StoreAdapter } from "@kiln/core"
import { memoryStore } from "@kiln/testing"
import * as Schema from "effect/Schema"

/** Does one thing with an engine without a worker, and ends without stopping it. */

const [place = "", what = ""] = process.argv.slice(2)
const storeAt = (): StoreAdapter => {
  if (place === "memory") return memoryStore()
  return place.startsWith("postgres") ? postgresStore({ url: place }) : sqliteStore({ path: place })
}
const report = jobKind({
  name: "report",
  request: Schema.Struct({ n: Schema.Number }),
  run: async () => ({ output: {} }),
})
const engine = await createEngine({ store: storeAt(), kinds: [report], worker: false })
const job = await engine.submit("report", { n: 1 })
const print = (text: string) => process.stdout.write(`${text}\n`)
if (what === "submit") print(job.id)
// Nothing but the engine keeps the process alive while it waits.
if (what === "wait") {
  const failure: unknown = await engine.wait(job, { timeoutMs: 1_500 }).catch((error: unknown) => error)
  print(failure instanceof Error ? failure.name : "finished")
}
if (what === "events") {
  const stopped = engine.events()[Symbol.asyncIterator]().next()
  void engine.submit("report", { n: 2 })
  print((await stopped).value?.type ?? "none")
}
if (what === "stop") {
  await engine.stop()
  print("stopped")
}
