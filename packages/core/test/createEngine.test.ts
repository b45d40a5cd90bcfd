import { builtInKinds, createEngine } from "@kiln/core"
import { storeAdapter, Switchboard } from "@kiln/core/ports"
import { memoryBlobs, memoryStore, MemoryStores } from "@kiln/testing"
import { Effect, Layer } from "effect"
import { describe, expect, it } from "vitest"
import { storesWith } from "./support/faults.ts"
import { mp3, plainProviders, speaks } from "./support/harness.ts"
import { openBoard } from "./support/jobs.ts"

const open = (sandbox = plainProviders) =>
  createEngine({ store: memoryStore(), blobs: memoryBlobs(), kinds: builtInKinds(), providers: { sandbox } })

/** An engine whose jobs never end by themselves, and that does not wait for them. */
const openHanging = () =>
  createEngine({
    store: memoryStore(),
    blobs: memoryBlobs(),
    kinds: builtInKinds(),
    providers: { sandbox: speaks(() => Effect.never) },
    settings: { drainMs: 0 },
  })

describe("the promise engine", () => {
  it("submits, waits, reads the file and erases it", async () => {
    await using engine = await open()
    const job = await engine.submit("speech_synthesis", { input: "hello" })
    expect(job).toMatchObject({ kind: "speech_synthesis", mode: "sandbox", status: "queued" })
    const done = await engine.wait(job)
    if (done.status !== "done" || done.output === null) throw new Error(`unexpected ${done.status}`)
    expect([...(await engine.readFile(done.output.audio))]).toEqual([...mp3.data])
    await engine.eraseData(job.id)
    expect(await engine.get(job.id)).toMatchObject({ status: "done", output: null, warningCode: "data_deleted" })
    await expect(engine.readFile(done.output.audio)).rejects.toMatchObject({ code: "file_gone" })
  })

  it("runs a transcription of uploaded bytes", async () => {
    await using engine = await open()
    const upload = await engine.createUpload({ format: "wav", declaredSeconds: 1 })
    const wav = new TextEncoder().encode("RIFF0000WAVEfmt ")
    await engine.receiveUpload(upload.id, "audio/wav", wav)
    expect(await engine.submitAndWait("transcription", { uploadId: upload.id })).toMatchObject({
      status: "done",
      output: { transcript: "hello" },
    })
  })

  it("rejects with the engine's own errors", async () => {
    await using engine = await open()
    await expect(engine.submit("speech_synthesis", { input: "" })).rejects.toMatchObject({
      code: "invalid_request",
      name: "InvalidRequest",
    })
    await expect(engine.get("job_nobody")).rejects.toMatchObject({ code: "job_not_found" })
  })

  it("a repeated key returns the same job, and is refused with a different request", async () => {
    await using engine = await open()
    const one = await engine.submit("speech_synthesis", { input: "a" }, { idempotencyKey: "k" })
    const again = await engine.submit("speech_synthesis", { input: "a" }, { idempotencyKey: "k" })
    expect(again.id).toBe(one.id)
    await expect(engine.submit("speech_synthesis", { input: "b" }, { idempotencyKey: "k" })).rejects.toMatchObject({
      code: "idempotency_key_reused",
      jobId: one.id,
    })
  })

  it("a wait can be aborted, and a closed engine rejects it", async () => {
    const engine = await openHanging()
    const job = await engine.submit("speech_synthesis", { input: "a" })
    const gaveUp = new AbortController()
    const waiting = engine.wait(job.id, { signal: gaveUp.signal })
    gaveUp.abort(new Error("enough"))
    await expect(waiting).rejects.toThrow("enough")
    await engine.stop()
    await expect(engine.submit("speech_synthesis", { input: "b" })).rejects.toThrow("the engine is closed")
  })

  it("stopping ends a wait in progress", async () => {
    const engine = await openHanging()
    const job = await engine.submit("speech_synthesis", { input: "a" })
    const waiting = engine.wait(job.id)
    const stopping = engine.stop()
    await expect(waiting).rejects.toThrow("the engine is closed")
    await stopping
  })

  it("live jobs are accepted as soon as the engine has started, however slow the store is", async () => {
    const slow = storesWith(Switchboard, (board) => ({
      publishWorker: (worker) => Effect.andThen(Effect.sleep(20), board.publishWorker(worker)),
    }))
    const store = Layer.provideMerge(Layer.effectDiscard(openBoard({ input_characters: "0.1" }, [])), slow)
    await using engine = await createEngine({
      store: storeAdapter(store),
      blobs: memoryBlobs(),
      kinds: builtInKinds(),
      providers: { live: plainProviders },
    })
    expect(await engine.submit("speech_synthesis", { input: "a" }, { mode: "live" })).toMatchObject({
      mode: "live",
      status: "queued",
    })
  })

  it("a process that serves no live jobs finds those it submitted", async () => {
    const elsewhere = Layer.effectDiscard(openBoard({ input_characters: "0.1" }))
    await using engine = await createEngine({
      store: storeAdapter(Layer.provideMerge(elsewhere, MemoryStores.layer)),
      blobs: memoryBlobs(),
      kinds: builtInKinds(),
      worker: false,
    })
    const job = await engine.submit("speech_synthesis", { input: "a" }, { mode: "live" })
    expect(await engine.get(job.id)).toMatchObject({ id: job.id, mode: "live" })
  })
})
