import { builtInKinds, createEngine, jobKind } from "@kiln/core"
import { embeddedContext } from "@kiln/core/effect"
import { blobAdapter, BlobStore } from "@kiln/core/ports"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { MemoryBlobStore, memoryStore } from "@kiln/testing"
import { Effect, Layer, Stream } from "effect"
import { z } from "zod"
import { createKey, type NewKey } from "@kiln/service-lab"

/** Ends a job whose text asks to wait until its progress was seen. */
export const progressSeen = Promise.withResolvers<void>()

/** A custom kind: camelCase inside, a file, a separate scope. */
export const summary = jobKind({
  name: "text_summary",
  request: z.strictObject({ longText: z.string().min(1), maxWords: z.number().int().positive().default(3) }),
  output: z.object({ shortText: z.string(), wordCount: z.number() }),
  files: ["page"],
  errorCodes: ["text_unreadable"],
  run: async ({ failure, progress, writeFile, request }) => {
    if (request.longText === "unreadable")
      throw failure("text_unreadable", {
        message: "for the log",
        publicMessage: "Send text in a language with spaces.",
      })
    if (request.longText === "wait for progress") {
      progress(0.5, "reading")
      await progressSeen.promise
    }
    const words = request.longText.split(" ").slice(0, request.maxWords)
    await writeFile("page", async () => ({
      data: new TextEncoder().encode(`<p>${words.join(" ")}</p>`),
      mediaType: "text/html",
    }))
    return { output: { shortText: words.join(" "), wordCount: words.length } }
  },
})

/** A kind that waits for a signal. */
export const approval = jobKind({
  name: "approval",
  request: z.object({ title: z.string() }),
  output: z.object({ approvedBy: z.string().nullable() }),
  run: async ({ waitFor }) => {
    const approved = await waitFor("approved", { timeout: "1 hour", schema: z.object({ by: z.string() }) })
    return { output: { approvedBy: approved.timedOut ? null : approved.value.by } }
  },
})

/** Ends a job that streams its text. */
export const streamGate = { wait: Promise.withResolvers<void>() }

/** A kind that emits its text word by word, and waits before the last. */
export const reading = jobKind({
  name: "reading",
  request: z.object({ text: z.string() }),
  chunk: z.object({ nextWord: z.string() }),
  run: async ({ emit, emitted, request }) => {
    const words = request.text.split(" ")
    for (const [n, nextWord] of words.entries()) {
      if (n < emitted) continue
      if (n === words.length - 1) await streamGate.wait.promise
      emit({ nextWord })
    }
    return { output: {} }
  },
})

/** A blob store in memory that takes pieces only while its gate is open. */
const gatedBlobs = () => {
  let gate = Promise.resolve()
  const layer = Layer.effect(
    BlobStore,
    Effect.map(BlobStore, (store) =>
      BlobStore.of({
        ...store,
        put: (key, content, options) =>
          store.put(
            key,
            Stream.tap(content, () => Effect.promise(() => gate)),
            options,
          ),
      }),
    ),
  ).pipe(Layer.provide(MemoryBlobStore.layer))
  const shut = () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    gate = promise
    return resolve
  }
  return { adapter: blobAdapter(layer), shut }
}

/** An engine in memory as a program without Effect has one, and what tests do behind its back. */
export const openEngine = async () => {
  const blobs = gatedBlobs()
  const logged: Array<string> = []
  const engine = await createEngine({
    store: memoryStore(),
    blobs: blobs.adapter,
    providers: { sandbox: sandboxProviders({ steering: true }) },
    kinds: [...builtInKinds(), summary, approval, reading],
    log: ({ fields, level, message }) => void logged.push(`${level} ${message} ${JSON.stringify(fields)}`),
  })
  return {
    engine,
    logged,
    /** Lets no piece of a file into the blob store until it is called. */
    shutBlobs: blobs.shut,
    createKey: (key: NewKey = {}) =>
      Effect.runPromise(Effect.provide(createKey(key), embeddedContext(engine))).then(({ secret }) => secret),
    [Symbol.asyncDispose]: () => engine.stop(),
  }
}
export type MountedEngine = Awaited<ReturnType<typeof openEngine>>
