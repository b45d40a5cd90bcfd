import { createEngine, JobNotFound, jobKind, type JobChunk, type StoreAdapter } from "@kiln/core"
import { memoryBlobs } from "@kiln/testing"
import { describe, expect, expectTypeOf, it } from "vitest"
import { z } from "zod"
import { everyStore } from "../support/everyStore.ts"

const text = jobKind({
  name: "text",
  request: z.object({ words: z.array(z.string()), failures: z.number().default(0), waits: z.boolean().default(false) }),
  chunk: z.object({ word: z.string() }),
  limits: { maxFailures: 2 },
  retry: { backoff: { baseMs: 1, maxMs: 1 } },
  run: async (job) => {
    const { failures, waits, words } = job.request
    const from = job.emitted
    for (const word of words.slice(job.emitted)) {
      job.emit({ word })
      if (job.failures < failures && job.emitted === 2 + job.failures) throw new Error("broken")
      if (waits && job.emitted === 2) await job.sleep("pause", 1)
    }
    return { output: { emitted: job.emitted, from } }
  },
})

const open = (store: StoreAdapter) =>
  createEngine({ store, blobs: memoryBlobs(), kinds: [text], log: false, settings: { pollIntervalMs: 20 } })

const all = async <Value>(chunks: AsyncIterable<JobChunk<Value>>) => {
  const read: Array<JobChunk<Value>> = []
  for await (const chunk of chunks) read.push(chunk)
  return read
}

const chunk = (index: number, attempt: number, word: string) => ({ index, attempt, value: { word } })

describe.each(everyStore)("stream (%s)", (_, openStore) => {
  it("reads all chunks from any index, while the job runs and after it", async () => {
    await using opened = await openStore()
    await using engine = await open(opened.store)
    const words = Array.from({ length: 1_200 }, (_, n) => `w${n}`)
    const job = await engine.submit("text", { words })
    const while_ = await all(engine.stream(job))
    expectTypeOf(while_[0]?.value).toEqualTypeOf<{ word: string } | undefined>()
    expect(while_).toEqual(words.map((word, index) => chunk(index, 1, word)))
    expect(await engine.get(job)).toMatchObject({ status: "done", output: { emitted: 1_200 } })
    expect(await all(engine.stream(job.id, { from: 1_198 }))).toEqual(while_.slice(1_198))
    expect(await all(engine.stream(job, { from: 1_200 }))).toEqual([])
    await engine.eraseData(job)
    expect(await all(engine.stream(job))).toEqual([])
  })

  it("keeps what an attempt emitted before it failed, and the next goes on after it", async () => {
    await using opened = await openStore()
    await using engine = await open(opened.store)
    const job = await engine.submit("text", { words: ["a", "b", "c", "d"], failures: 1 })
    expect(await all(engine.stream(job))).toEqual([
      chunk(0, 1, "a"),
      chunk(1, 1, "b"),
      chunk(2, 2, "c"),
      chunk(3, 2, "d"),
    ])
    expect(await engine.get(job)).toMatchObject({ output: { emitted: 4, from: 2 } })
    const failed = await engine.submit("text", { words: ["a", "b", "c", "d"], failures: 2 })
    expect(await all(engine.stream(failed))).toEqual([chunk(0, 1, "a"), chunk(1, 1, "b"), chunk(2, 2, "c")])
    expect(await engine.get(failed)).toMatchObject({ status: "failed" })
  })

  it("keeps what an attempt emitted before it waits", async () => {
    await using opened = await openStore()
    await using engine = await open(opened.store)
    const job = await engine.submit("text", { words: ["a", "b", "c"], waits: true })
    expect((await all(engine.stream(job))).map(({ value }) => value.word)).toEqual(["a", "b", "c"])
  })

  it("ends when it is left, aborted or the engine stops, and refuses unknown jobs", async () => {
    await using opened = await openStore()
    const engine = await open(opened.store)
    const job = await engine.submit("text", { words: ["a"] }, { delayMs: 60_000 })
    const controller = new AbortController()
    const aborted = all(engine.stream(job, { signal: controller.signal }))
    controller.abort(new Error("enough"))
    await expect(aborted).rejects.toThrow("enough")
    await expect(all(engine.stream("job_00000000000000000000000000"))).rejects.toBeInstanceOf(JobNotFound)
    await expect(all(engine.stream(job, { project: "other" }))).rejects.toBeInstanceOf(JobNotFound)
    expect(() => engine.stream(job, { from: -1 })).toThrow("from must be a non-negative integer, not -1")
    const stopped = all(engine.stream(job)).catch((error: unknown) => error)
    await new Promise((resolve) => setTimeout(resolve, 20))
    await engine.stop()
    expect(await stopped).toMatchObject({ name: "AbortError" })
  })
})

const [, openMemory] = everyStore[0] ?? []

const failedWith = async (emit: (job: { readonly emit: (chunk: never) => void }) => void, chunkSchema?: object) => {
  const kind = jobKind({
    name: "odd",
    request: z.object({}),
    limits: { maxFailures: 1 },
    ...(chunkSchema !== undefined && { chunk: chunkSchema as never }),
    run: async (job) => {
      emit(job)
      return { output: {} }
    },
  })
  await using opened = await openMemory?.()
  const details: Array<string> = []
  await using engine = await createEngine({
    store: opened?.store as StoreAdapter,
    kinds: [kind],
    log: false,
    onAttemptFailed: (error) => void details.push(String(error)),
  })
  const job = await engine.submitAndWait("odd", {})
  return [job.status === "failed" ? job.errorCode : job.status, details.join()]
}

const anyText = z.string()
const emits =
  (...chunks: ReadonlyArray<unknown>) =>
  (job: { readonly emit: (chunk: never) => void }) => {
    for (const each of chunks) job.emit(each as never)
  }

describe("emit", () => {
  it("refuses what cannot be stored, by name", async () => {
    expect(await failedWith(emits("a"))).toEqual([
      "internal_error",
      expect.stringContaining("emit: odd declares no chunks: add the schema of one to it as chunk"),
    ])
    expect(await failedWith(emits(5), anyText)).toEqual([
      "result_invalid",
      expect.stringContaining("the chunk does not match its schema: chunk"),
    ])
    expect(await failedWith(emits(new Date(0)), anyText)).toEqual([
      "internal_error",
      expect.stringContaining("chunk: Date is not JSON"),
    ])
    expect(await failedWith(emits("é".repeat(32_768)), anyText)).toEqual([
      "result_invalid",
      expect.stringContaining("the chunk has 65538 bytes of JSON; the limit is 65536"),
    ])
    expect(await failedWith(emits(...Array.from({ length: 257 }, () => "x".repeat(65_534))), anyText)).toEqual([
      "result_invalid",
      expect.stringContaining("the chunks of the job exceed 16777216 bytes of JSON"),
    ])
    expect(await failedWith(emits(...Array.from({ length: 100_001 }, () => "x")), anyText)).toEqual([
      "result_invalid",
      expect.stringContaining("the job keeps 100000 chunks already"),
    ])
  })
})
