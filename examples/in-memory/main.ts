// A complete engine in memory: `node --conditions=@kiln/source examples/in-memory/main.ts`.
import { builtInKinds, createEngine, KilnError } from "@kiln/core"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { memoryBlobs, memoryStore } from "@kiln/testing"

await using engine = await createEngine({
  store: memoryStore(),
  blobs: memoryBlobs(),
  kinds: builtInKinds(),
  // Sandbox providers call nothing and cost nothing. The same request always returns the same bytes.
  providers: { sandbox: sandboxProviders() },
  // Or a function that receives each line. By default, warnings go to the console.
  log: false,
})
using _ = engine.on("failed", ({ errorCode, kind }) => console.log(`event: a ${kind} failed, ${errorCode}`))

// A submitted job has an id immediately and runs in the background.
const job = await engine.submit("speech_synthesis", { input: "Hello from kiln" })
console.log(`${job.kind} is ${job.status}`)
const spoken = await engine.wait(job)
if (spoken.status !== "done" || spoken.output === null) throw new Error(`the job is ${spoken.status}`)
const { audio } = spoken.output
console.log(`${spoken.kind} is done: ${audio.bytes} bytes of ${audio.mediaType}`)

// Audio input is an upload: created, sent, and used by one job.
const upload = await engine.createUpload({ format: "mp3", declaredSeconds: 2 })
await engine.receiveUpload(upload, audio.mediaType, await engine.readFile(audio))
const heard = await engine.submitAndWait("transcription", { uploadId: upload.id })
console.log(`${heard.kind} is ${heard.status}: ${heard.status === "done" ? heard.output?.transcript : ""}`)

// A failed job is not an exception: it has an error code. This text makes the sandbox reject the job.
const refused = await engine.submitAndWait("speech_synthesis", { input: "sandbox:fail:content_rejected" })
console.log(`${refused.kind} is ${refused.status}: ${refused.status === "failed" ? refused.errorCode : ""}`)

// A rejected call is: it throws a `KilnError` with a code.
try {
  await engine.submit("speech_synthesis", { input: "" })
} catch (error) {
  if (error instanceof KilnError) console.log(`refused: ${error.code}, ${error.message}`)
}

await engine.eraseData(job)
const erased = await engine.get(job)
console.log("erased:", erased.status, erased.status === "done" && erased.output)
for (const { count, kind, status } of await engine.operator.count()) console.log(`${count} × ${kind} ${status}`)
