import { describe, expect, it } from "@effect/vitest"
import { Engine } from "@kiln/core/effect"
import { BlobStore } from "@kiln/core/ports"
import type { ProviderSet } from "@kiln/core/providers"
import { Effect, Stream } from "effect"
import { mp3, plainProviders, principal, within } from "./support/harness.ts"
import { finished, running, submitSpeech, submitTranscription } from "./support/jobs.ts"

/** Puts whole, sound bytes under a key, as a restored or mixed-up blob store would hold them. */
const exchange = (key: string, bytes: Uint8Array) =>
  Effect.flatMap(BlobStore, (blobs) => blobs.put(key, Stream.succeed(bytes), { maxBytes: 1_000 }))

/** Reads the audio that it transcribes, like a real provider. */
const sandbox: ProviderSet = {
  ...plainProviders,
  transcription: ({ audio }) => Effect.as(Stream.runDrain(audio.content), { text: "hello" }),
}

describe("a blob that differs from its row", () => {
  it.effect("is not served, whole or in part, whether its length is the same or not", () =>
    Effect.gen(function* () {
      const engine = yield* Engine
      yield* running
      const { id } = yield* submitSpeech("k")
      const file = (yield* finished(id, "10 seconds")).files[0]
      if (file === undefined) throw new Error("no file")
      const found = yield* engine.findFile(file.id)
      for (const other of [mp3.data.map((byte) => byte ^ 1), Uint8Array.of(...mp3.data, 4)]) {
        yield* exchange(file.blobKey, other)
        for (const range of [undefined, { offset: 0, length: 1 }])
          expect((yield* Effect.flip(engine.openFile(found, range)))._tag).toBe("BlobCorrupt")
      }
      yield* exchange(file.blobKey, mp3.data)
      expect(yield* Stream.runCollect((yield* engine.openFile(found)).content)).toEqual([mp3.data])
    }).pipe(within()),
  )

  it.effect("is not transcribed: the job fails", () =>
    Effect.gen(function* () {
      const { id, uploadId } = yield* submitTranscription("k")
      const blobs = yield* BlobStore
      const [key] = yield* Stream.runCollect(blobs.list(`uploads/${uploadId?.slice(4) ?? ""}`))
      yield* exchange(key ?? "", new TextEncoder().encode("RIFF0000WAVEfmX "))
      yield* running
      const job = yield* finished(id, "10 seconds", principal())
      expect([job.status, job.errorCode, job.attempts]).toEqual(["failed", "internal_error", 1])
    }).pipe(within({ sandbox })),
  )
})
