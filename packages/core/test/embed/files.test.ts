import { createEngine, type FileRef, jobKind } from "@kiln/core"
import { BlobCorrupt } from "@kiln/core/domain"
import { type BlobAdapter, blobAdapter, BlobStore } from "@kiln/core/ports"
import { MemoryBlobStore, memoryBlobs, memoryStore } from "@kiln/testing"
import { Effect, Layer, Stream } from "effect"
import { describe, expect, it, vi } from "vitest"
import { z } from "zod"
import { mp3, plainProviders } from "../support/harness.ts"

/** Brings one file. */
const speaks = jobKind({
  name: "speaks",
  request: z.object({}),
  files: ["audio"],
  providers: ["speech"],
  run: async ({ ask, writeFile }) => {
    await writeFile("audio", () => ask.speech({ text: "hi", voice: "v" }))
    return { output: {} }
  },
})

/** Blobs in memory that open after `opening` and are read according to `reading`. */
const blobsThat = (
  reading: (content: Stream.Stream<Uint8Array>) => Stream.Stream<Uint8Array, BlobCorrupt>,
  opening: Effect.Effect<void> = Effect.void,
): BlobAdapter =>
  blobAdapter(
    Layer.effect(
      BlobStore,
      Effect.map(BlobStore, (blobs) =>
        BlobStore.of({
          ...blobs,
          open: (key, range) =>
            Effect.map(Effect.andThen(opening, blobs.open(key, range)), (blob) => ({
              ...blob,
              content: reading(Stream.orDie(blob.content)),
            })),
        }),
      ),
    ).pipe(Layer.provide(MemoryBlobStore.layer)),
  )

const openWith = (blobs: BlobAdapter) =>
  createEngine({ store: memoryStore(), blobs, kinds: [speaks], providers: { sandbox: plainProviders }, log: false })

type Opened = Awaited<ReturnType<typeof openWith>>

const spoken = async (engine: Opened): Promise<FileRef> => {
  const job = await engine.submitAndWait("speaks", {})
  if (job.status !== "done" || job.output === null) throw new Error(`unexpected ${job.status}`)
  return job.output.audio
}

const all = async (pieces: AsyncIterable<Uint8Array>): Promise<ReadonlyArray<number>> => {
  const read: Array<number> = []
  for await (const piece of pieces) read.push(...piece)
  return read
}

/** A file whose first byte comes and whose second never does. */
const stalling = () => {
  const seen: Array<string> = []
  const blobs = blobsThat((content) =>
    Stream.concat(Stream.take(content, 1), Stream.never).pipe(
      Stream.ensuring(Effect.sync(() => void seen.push("closed"))),
    ),
  )
  return { blobs, seen, closed: () => vi.waitUntil(() => seen.includes("closed"), { timeout: 60_000, interval: 2 }) }
}

describe("a file of a job", () => {
  it("can be read whole or in chunks", async () => {
    await using engine = await openWith(memoryBlobs())
    const file = await spoken(engine)
    const whole = [...(await engine.readFile(file))]
    expect(whole).toEqual([...mp3.data])
    expect(await all(engine.streamFile(file))).toEqual(whole)
    await expect(all(engine.streamFile({ id: "fil_none" }))).rejects.toMatchObject({ code: "file_gone" })
    await expect(engine.readFile({ id: "fil_none" })).rejects.toMatchObject({ code: "file_gone" })
  })

  it("is read until its signal aborts, and the open blob is closed", async () => {
    const { blobs, closed } = stalling()
    await using engine = await openWith(blobs)
    const file = await spoken(engine)
    const enough = new Error("enough")
    await expect(all(engine.streamFile(file, { signal: AbortSignal.abort(enough) }))).rejects.toBe(enough)
    await expect(engine.readFile(file, { signal: AbortSignal.abort(enough) })).rejects.toBe(enough)
    const later = new AbortController()
    const pieces = engine.streamFile(file, { signal: later.signal })[Symbol.asyncIterator]()
    expect(await pieces.next()).toMatchObject({ done: false })
    const next = pieces.next()
    later.abort(enough)
    await expect(next).rejects.toBe(enough)
    await closed()
  })

  it("is awaited until its signal aborts if it cannot be opened", async () => {
    await using engine = await openWith(blobsThat((content) => content, Effect.never))
    const file = await spoken(engine)
    const enough = new Error("enough")
    const streamed = (of: FileRef, options: { readonly signal: AbortSignal }) => all(engine.streamFile(of, options))
    for (const read of [engine.readFile, streamed]) {
      const later = new AbortController()
      const reading: Promise<unknown> = read(file, { signal: later.signal })
      setImmediate(() => later.abort(enough))
      await expect(reading).rejects.toBe(enough)
    }
  })

  it("is closed if the reader stops in the middle", async () => {
    const { blobs, closed } = stalling()
    await using engine = await openWith(blobs)
    for await (const piece of engine.streamFile(await spoken(engine))) {
      expect(piece.length).toBeGreaterThan(0)
      break
    }
    await closed()
  })

  it("is read no further when the engine stops, which does not wait for readers", async () => {
    const { blobs, closed } = stalling()
    const engine = await openWith(blobs)
    const pieces = engine.streamFile(await spoken(engine))[Symbol.asyncIterator]()
    await pieces.next()
    const next = pieces.next()
    await Promise.all([expect(next).rejects.toMatchObject({ name: "AbortError" }), engine.stop()])
    await closed()
  })

  it("fails when it is read if it is damaged", async () => {
    const damaged = blobsThat((content) =>
      Stream.concat(content, Stream.fail(new BlobCorrupt({ key: "of this file" }))),
    )
    await using engine = await openWith(damaged)
    const file = await spoken(engine)
    const broken = { code: "internal_error", message: expect.stringContaining("is damaged") }
    await expect(all(engine.streamFile(file))).rejects.toMatchObject(broken)
    await expect(engine.readFile(file)).rejects.toMatchObject(broken)
  })
})
