// A custom provider that serves live jobs: `node --conditions=@kiln/source examples/custom-provider/main.ts`.
import { asyncProviders, builtIn, createEngine, KilnError } from "@kiln/core"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import { speechFrom } from "./speechFrom.ts"
import { openStandIn } from "./standIn.ts"

const open = async (url: string, key: string) => {
  const engine = await createEngine({
    store: memoryStore(),
    blobs: memoryBlobs(),
    kinds: [builtIn.speechSynthesis()],
    // With live providers only, jobs are live by default.
    providers: { live: asyncProviders({ speech: speechFrom(url, key) }) },
    log: false,
  })
  await engine.operator.setPrice({ name: "svc-audio", currency: "usd", unitAmounts: { input_characters: "0.01" } })
  await engine.operator.setSwitch("ai", true)
  await engine.operator.setSwitch("audio", true)
  return engine
}

const denied = Promise.withResolvers<void>()
await using standIn = await openStandIn((status) => {
  console.log(`  the server answers ${status}`)
  if (status === 401) denied.resolve()
})

{
  await using engine = await open(standIn.url, "right")
  for (const input of ["hello", "out of order for a moment", "something it will not say", "silent"]) {
    console.log(input)
    const job = await engine.submitAndWait("speech_synthesis", { input })
    console.log(`  ${job.status === "failed" ? job.errorCode : job.status}, charged ${job.billing.amount}`)
  }
}

// A wrong key is not the job's fault: the provider is paused, and the job waits until an operator fixes it.
console.log("hello, with a wrong key")
await using engine = await open(standIn.url, "wrong")
const job = await engine.submit("speech_synthesis", { input: "hello" })
await denied.promise
const waited = await engine.wait(job, { timeoutMs: 100 }).catch((error: unknown) => error)
console.log(`  ${waited instanceof KilnError ? waited.code : "over"}: the job is ${(await engine.get(job)).status}`)
await engine.operator.cancel(job)
const canceled = await engine.wait(job)
console.log(`  ${canceled.status === "failed" ? canceled.errorCode : canceled.status}`)
