// A job of a custom kind, on any store: `node --conditions=@kiln/source examples/custom-kind/main.ts [store] [--effect]`.
// The store is a directory for SQLite, a postgres:// URL, or memory by default.
import { join } from "node:path"
import { parseArgs } from "node:util"
import { fileBlobs } from "@kiln/adapter-blobs"
import { postgresStore } from "@kiln/adapter-postgres"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { type BlobAdapter, createEngine, type StoreAdapter } from "@kiln/core"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import { summaryKind } from "./kind.ts"
import { summaryKindWithEffect } from "./kindWithEffect.ts"
import { makeTools } from "./tools.ts"

const { positionals, values } = parseArgs({ allowPositionals: true, options: { effect: { type: "boolean" } } })
const [place = "memory"] = positionals

const storesAt = (): { readonly store: StoreAdapter; readonly blobs: BlobAdapter } => {
  if (place === "memory") return { store: memoryStore(), blobs: memoryBlobs() }
  // With several processes, store files where all of them can reach them: `fileBlobs`, `unstorageBlobs`.
  if (place.startsWith("postgres")) return { store: postgresStore({ url: place }), blobs: memoryBlobs() }
  return { store: sqliteStore({ path: join(place, "kiln.db") }), blobs: fileBlobs({ directory: join(place, "blobs") }) }
}

const kind = values.effect ? summaryKindWithEffect(makeTools()) : summaryKind(makeTools())
// This kind calls no provider, so none is configured.
await using engine = await createEngine({ ...storesAt(), kinds: [kind], log: false })

// A live job is charged, so it needs a price, here for the kind's own meter.
await engine.operator.setPrice({ name: "svc-summary", currency: "usd", unitAmounts: { input_words: "0.001" } })
const text = "Kilns are ovens for clay. The hot air rises. Bricks are fired for days."
const job = await engine.submit("summary", { text, documentId: "doc-7" }, { mode: "live" })
const done = await engine.wait(job)
if (done.status !== "done" || done.output === null) throw new Error(`the job is ${done.status}`)

const { page, summary, wordCount } = done.output
console.log(`${wordCount} words: ${summary}`)
console.log(`${page.mediaType}: ${new TextDecoder().decode(await engine.readFile(page)).trim()}`)
console.log(`${done.attempts} attempts, charged ${done.billing.amount} ${done.billing.currency}`)
await engine.eraseData(job)
const { metadata, warningCode } = await engine.get(job)
console.log(`${warningCode}, metadata: ${JSON.stringify(metadata)}`)
