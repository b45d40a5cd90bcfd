import { createHash } from "node:crypto"
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Readable } from "node:stream"
import { fileBlobs } from "@kiln/adapter-blobs"
import {
  type BlobAdapter,
  createEngine,
  type EmbeddedEngine,
  type FileBody,
  type Kind,
  jobKind,
  type LogEntry,
  type StoreAdapter,
} from "@kiln/core"
import { embeddedContext } from "@kiln/core/effect"
import { JobKind } from "@kiln/core/kinds"
import { BlobCorrupt } from "@kiln/core/domain"
import { blobAdapter, BlobStore } from "@kiln/core/ports"
import { MemoryBlobStore, memoryBlobs, memoryStore } from "@kiln/testing"
import { Context, Effect, Layer, Stream } from "effect"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { everyStore } from "../support/everyStore.ts"

const quick = {
  attempts: { maxFailures: 3, maxLostWorkers: 3, backoffBaseMs: 1, backoffMaxMs: 2, retryAfterMaxMs: 10 },
  pollIntervalMs: 20,
  claimCheckIntervalMs: 50,
} as const

const piece = (length: number, seed = 7): Uint8Array => Uint8Array.from({ length }, (_, at) => (at * seed) % 251)
const sha256 = (pieces: ReadonlyArray<Uint8Array>): string => {
  const hash = createHash("sha256")
  for (const each of pieces) hash.update(each)
  return hash.digest("hex")
}

/** A kind that writes what `body` returns as its video. */
const writes = (
  body: (about: { readonly attempt: number; readonly signal: AbortSignal }) => FileBody | Promise<FileBody>,
  maxBytes?: number,
) =>
  jobKind({
    name: "render",
    request: z.object({}),
    limits: { maxFailures: 2 },
    files: { video: { description: "The video.", ...(maxBytes !== undefined && { maxBytes }) } },
    run: async ({ attempt, writeFile }) => {
      await writeFile("video", async (signal) => ({ data: await body({ attempt, signal }), mediaType: "video/mp4" }))
      return { output: {} }
    },
  })

const openWith = async <K extends Kind>(
  kind: K,
  blobs: BlobAdapter = memoryBlobs(),
  store: StoreAdapter = memoryStore(),
): Promise<{ readonly engine: EmbeddedEngine<K>; readonly said: ReadonlyArray<string> }> => {
  const said: Array<string> = []
  const engine: EmbeddedEngine<K> = await createEngine({
    store,
    blobs,
    kinds: [kind],
    settings: quick,
    log: ({ fields, message }: LogEntry) => said.push(`${message} ${JSON.stringify(fields)}`),
  } as never)
  return { engine, said }
}

/** Keys of all blobs of jobs. */
const blobKeys = (engine: object): Promise<ReadonlyArray<string>> =>
  Effect.runPromise(Stream.runCollect(Context.get(embeddedContext(engine as never), BlobStore).list("jobs")) as never)

async function* generated(pieces: ReadonlyArray<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield* pieces
}

const webStream = (of: ReadonlyArray<Uint8Array>): ReadableStream<Uint8Array> =>
  new ReadableStream({
    start: (controller) => {
      for (const each of of) controller.enqueue(each)
      controller.close()
    },
  })

const pieces = [piece(70_000), piece(3), piece(0), piece(200_001, 11)]
const whole = Buffer.concat(pieces)

const bodies: ReadonlyArray<readonly [string, () => FileBody]> = [
  ["bytes", () => whole],
  ["a Blob", () => new Blob([whole])],
  ["an async generator", () => generated(pieces)],
  ["a ReadableStream", () => webStream(pieces)],
  ["a Node.js Readable", () => Readable.from(pieces)],
]

describe("a file that an attempt writes", () => {
  it.each(bodies)("may be %s", async (_, body) => {
    const { engine } = await openWith(writes(body))
    await using _engine = engine
    const job = await engine.submitAndWait("render", {})
    if (job.status !== "done" || job.output === null) throw new Error(`unexpected ${job.status}`)
    const { video } = job.output as { readonly video: Parameters<typeof engine.readFile>[0] & object }
    expect(video).toMatchObject({ bytes: whole.length, sha256: sha256([whole]), mediaType: "video/mp4" })
    expect(Buffer.from(await engine.readFile(video)).equals(whole)).toBe(true)
  })

  it("is written by the Effect face of a kind as a stream too", async () => {
    const kind = JobKind({
      name: "render",
      request: z.object({}),
      files: ["video"],
      run: (attempt) =>
        Effect.map(
          attempt.writeFile("video", Effect.succeed({ data: Stream.fromIterable(pieces), mediaType: "video/mp4" })),
          (file) => ({ output: {}, files: [file], usage: {} }),
        ),
    })
    const { engine } = await openWith(kind)
    await using _engine = engine
    expect(await engine.submitAndWait("render", {})).toMatchObject({
      output: { video: { bytes: whole.length, sha256: sha256([whole]) } },
    })
  })

  it("fails while it is written once it is longer than its kind allows, and nothing of it remains", async () => {
    let made = 0
    const seen: Array<string> = []
    const runaway = writes(({ signal }) => {
      signal.addEventListener("abort", () => seen.push("aborted"))
      return (async function* () {
        try {
          for (;;) {
            made += 1_000
            yield piece(1_000)
          }
        } finally {
          seen.push("closed")
        }
      })()
    }, 10_000)
    const { engine, said } = await openWith(runaway)
    await using _engine = engine
    expect(await engine.submitAndWait("render", {})).toMatchObject({ status: "failed", errorCode: "result_invalid" })
    // Two attempts, each with one piece beyond the limit.
    expect(made).toBe(22_000)
    expect(seen).toEqual(["closed", "aborted", "closed", "aborted"])
    expect(said.join("\n")).toContain(
      'the file "video" is larger than 10000 bytes; files.video.maxBytes of its kind sets the limit',
    )
    expect(await blobKeys(engine)).toEqual([])
  })

  it("may be exactly as long as its kind allows, and 64 MiB without a limit", async () => {
    const exact = await openWith(writes(() => generated([piece(6_000), piece(4_000)]), 10_000))
    await using _exact = exact.engine
    expect(await exact.engine.submitAndWait("render", {})).toMatchObject({ output: { video: { bytes: 10_000 } } })
    const mebibyte = piece(2 ** 20)
    const usual = await openWith(writes(() => generated(Array.from({ length: 65 }, () => mebibyte))))
    await using _usual = usual.engine
    expect(await usual.engine.submitAndWait("render", {})).toMatchObject({ errorCode: "result_invalid" })
  })

  it("fails as its stream fails, and a later attempt writes it", async () => {
    const flaky = writes(({ attempt }) =>
      attempt === 1
        ? (async function* () {
            yield piece(5_000)
            throw new Error("the encoder died")
          })()
        : generated(pieces),
    )
    const errors: Array<string> = []
    await using engine = await createEngine({
      store: memoryStore(),
      blobs: memoryBlobs(),
      kinds: [flaky],
      settings: quick,
      log: false,
      onAttemptFailed: (error) => errors.push(String(error)),
    })
    expect(await engine.submitAndWait("render", {})).toMatchObject({ status: "done", attempts: 2 })
    expect(errors).toEqual(["Error: the encoder died"])
    expect(await blobKeys(engine)).toHaveLength(1)
  })

  it.each<[string, unknown]>([
    ["text", "text"],
    ["nothing", undefined],
    ["a stream of text", webStream(["text"] as never)],
  ])("is a bug of the kind if it is %s", async (_, data) => {
    const { engine, said } = await openWith(writes(() => data as FileBody))
    await using _engine = engine
    expect(await engine.submitAndWait("render", {})).toMatchObject({ status: "failed", errorCode: "internal_error" })
    expect(said.join("\n")).toContain('the data of file "video" must be bytes, or a stream of bytes')
  })

  it("leaves nothing when the job is canceled in the middle", async () => {
    const begun = Promise.withResolvers<void>()
    const closed = Promise.withResolvers<void>()
    const kind = writes(({ signal }) =>
      (async function* () {
        try {
          yield piece(100_000)
          begun.resolve()
          await new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted"))))
        } finally {
          closed.resolve()
        }
      })(),
    )
    const directory = mkdtempSync(join(tmpdir(), "kiln-streams-"))
    try {
      const { engine } = await openWith(kind, fileBlobs({ directory }))
      await using _engine = engine
      const job = await engine.submit("render", {})
      await begun.promise
      await engine.operator.cancel(job)
      expect(await engine.wait(job)).toMatchObject({ errorCode: "canceled_by_operator" })
      await closed.promise
      await engine.stop()
      const files = readdirSync(directory, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
      const large = files.filter(({ name, parentPath }) => statSync(join(parentPath, name)).size >= 100_000)
      expect(large.map(({ name }) => name)).toEqual([])
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  })

  it("of a stale attempt never replaces the winner's", async () => {
    const resume = Promise.withResolvers<void>()
    const stored = Promise.withResolvers<string>()
    // The first attempt times out in the middle of a write that cannot be interrupted.
    const blobs = blobAdapter(
      Layer.effect(
        BlobStore,
        Effect.map(BlobStore, (blobs) =>
          BlobStore.of({
            ...blobs,
            put: (key, content, options) =>
              key.startsWith("jobs/") && key.split("/")[2] === "1"
                ? Effect.uninterruptible(
                    Effect.tap(blobs.put(key, content, options), () => Effect.sync(() => stored.resolve(key))),
                  )
                : blobs.put(key, content, options),
          }),
        ),
      ).pipe(Layer.provide(MemoryBlobStore.layer)),
    )
    const kind = jobKind({
      name: "render",
      request: z.object({}),
      limits: { attemptTimeoutMs: 50 },
      files: ["video"],
      run: async ({ attempt, writeFile }) => {
        const slow = async function* () {
          yield piece(1_000, 5)
          await resume.promise
          yield piece(1_000, 5)
        }
        await writeFile("video", async () => ({
          data: attempt === 1 ? slow() : generated([piece(10, 3)]),
          mediaType: "video/mp4",
        }))
        return { output: {} }
      },
    })
    const { engine } = await openWith(kind, blobs)
    await using _engine = engine
    const job = await engine.submitAndWait("render", {})
    expect(job).toMatchObject({ status: "done", attempts: 2 })
    resume.resolve()
    const stale = await stored.promise
    if (job.status !== "done" || job.output === null) throw new Error(`unexpected ${job.status}`)
    expect([...(await engine.readFile(job.output.video))]).toEqual([...piece(10, 3)])
    expect(await blobKeys(engine)).toContain(stale)
  })

  it("of 256 MiB is written with one piece in memory", async () => {
    let made = 0
    let kept = 0
    let most = 0
    const discarding = blobAdapter(
      Layer.effect(
        BlobStore,
        Effect.map(BlobStore, (blobs) =>
          BlobStore.of({
            ...blobs,
            put: (key, content, options) =>
              key.startsWith("jobs/")
                ? Effect.map(
                    Stream.runForEach(content, (part) =>
                      Effect.andThen(
                        Effect.yieldNow,
                        Effect.sync(() => {
                          kept += part.length
                          most = Math.max(most, made - kept)
                        }),
                      ),
                    ),
                    () => ({ bytes: kept, sha256: "0".repeat(64) }),
                  )
                : blobs.put(key, content, options),
          }),
        ),
      ).pipe(Layer.provide(MemoryBlobStore.layer)),
    )
    const mebibyte = piece(2 ** 20)
    const kind = writes(async function* () {
      for (let count = 0; count < 256; count++) {
        made += mebibyte.length
        yield mebibyte
      }
    }, 2 ** 30)
    const { engine } = await openWith(kind, discarding)
    await using _engine = engine
    expect(await engine.submitAndWait("render", {})).toMatchObject({ output: { video: { bytes: 256 * 2 ** 20 } } })
    expect(most).toBeLessThanOrEqual(2 ** 20)
  })

  it("is kept in the files of one machine as it was streamed, up to a limit beyond the default", async () => {
    const directory = mkdtempSync(join(tmpdir(), "kiln-streams-"))
    try {
      const mebibyte = piece(2 ** 20)
      const many = Array.from({ length: 70 }, () => mebibyte)
      const { engine } = await openWith(
        writes(() => generated(many), 2 ** 30),
        fileBlobs({ directory }),
      )
      await using _engine = engine
      const job = await engine.submitAndWait("render", {})
      expect(job).toMatchObject({ output: { video: { bytes: 70 * 2 ** 20, sha256: sha256(many) } } })
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  })
})

describe("limits of files", () => {
  it.each<[string, unknown, RegExp]>([
    ["an unknown option", { video: { maxByte: 1 } }, /"maxByte".*did you mean "maxBytes"/],
    ["a limit of zero", { video: { maxBytes: 0 } }, /files\.video\.maxBytes must be a positive integer/],
    ["a limit that is text", { video: { maxBytes: "1" } }, /files\.video\.maxBytes must be a positive integer/],
    [
      "a description that is a number",
      { video: { description: 1 } },
      /description of "video" in files must be a string/,
    ],
    ["a number", { video: 1 }, /files\.video/],
  ])("refuse %s", (_, files, message) => {
    const define = () =>
      jobKind({ name: "render", request: z.object({}), files: files as never, run: async () => ({ output: {} }) })
    expect(define).toThrow(message)
  })
})

describe("the upload of a job", () => {
  const copies = jobKind({
    name: "copy",
    request: z.object({ uploadId: z.string() }),
    output: z.object({ read: z.number(), format: z.string(), bytes: z.number(), seconds: z.number() }),
    upload: "uploadId",
    files: ["copy"],
    limits: { maxFailures: 1 },
    run: async ({ upload, writeFile }) => {
      const { bytes, declaredSeconds, format, stream } = await upload()
      let read = 0
      for await (const each of stream()) read += each.length
      // It can be read again, and written while it is read.
      await writeFile("copy", async () => ({ data: stream(), mediaType: "audio/wav" }))
      return { output: { read, format, bytes, seconds: declaredSeconds } }
    },
  })
  const content = [Buffer.from("RIFF\u0000\u0000\u0000\u0000WAVEfmt "), ...pieces]

  const uploaded = async (engine: EmbeddedEngine<typeof copies>) => {
    const ticket = await engine.createUpload({ format: "wav", declaredSeconds: 3 })
    await engine.receiveUpload(ticket, "audio/wav", generated(content))
    return engine.submitAndWait("copy", { uploadId: ticket.id })
  }

  it.each(everyStore)("is a stream, and a file may be written from it (%s)", async (_, open) => {
    await using opened = await open()
    const { engine } = await openWith(copies, memoryBlobs(), opened.store)
    await using _engine = engine
    const bytes = Buffer.concat(content).length
    expect(await uploaded(engine)).toMatchObject({
      status: "done",
      output: { read: bytes, bytes, format: "wav", seconds: 3, copy: { bytes, sha256: sha256(content) } },
    })
  })

  it("fails the job if its file is damaged, whether it is read or written on", async () => {
    const damaged = blobAdapter(
      Layer.effect(
        BlobStore,
        Effect.map(BlobStore, (blobs) =>
          BlobStore.of({
            ...blobs,
            open: (key, range) =>
              Effect.map(blobs.open(key, range), (blob) => ({
                ...blob,
                content: Stream.concat(blob.content, Stream.fail(new BlobCorrupt({ key }))),
              })),
          }),
        ),
      ).pipe(Layer.provide(MemoryBlobStore.layer)),
    )
    const attempts: Array<number> = []
    const onlyCopies = jobKind({
      name: "copy",
      request: z.object({ uploadId: z.string() }),
      upload: "uploadId",
      files: ["copy"],
      run: async ({ attempt, upload, writeFile }) => {
        attempts.push(attempt)
        const { stream } = await upload()
        await writeFile("copy", async () => ({ data: stream(), mediaType: "audio/wav" }))
        return { output: {} }
      },
    })
    for (const kind of [copies, onlyCopies]) {
      const { engine, said } = await openWith(kind as typeof copies, damaged)
      await using _engine = engine
      expect(await uploaded(engine)).toMatchObject({ status: "failed", errorCode: "internal_error" })
      expect(said.join("\n")).toContain("BlobCorrupt")
    }
    // A damaged file is no reason to try again.
    expect(attempts).toEqual([1])
  })
})
