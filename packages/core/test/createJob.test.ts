import { assert, describe, it } from "@effect/vitest"
import { authorize } from "@kiln/core/domain"
import { defaultEngineSettings, Engine } from "@kiln/core/effect"
import { Cause, Effect, Exit, Stream } from "effect"
import { grantOf, kind, principal, within } from "./support/harness.ts"

describe("createJob", () => {
  it.effect("a grant for one scope cannot create a job that requires another", () =>
    Effect.gen(function* () {
      const engine = yield* Engine
      const grant = authorize({ ...principal(), scopes: ["audio.create"] }, "audio.create")
      if (grant === undefined) throw new Error("no grant")
      const exit = yield* Effect.exit(engine.createJob(grant, kind("image_generation"), { prompt: "x" }, "k"))
      assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
    }).pipe(within()),
  )

  it.effect("an upload without transfers left under this engine's settings is not awaited", () => {
    const upload = { ...defaultEngineSettings.upload, maxTransfers: 1 }
    return Effect.gen(function* () {
      const engine = yield* Engine
      const { id: uploadId } = yield* engine.createUpload(principal(), { format: "wav", declaredSeconds: 3 })
      const create = Effect.flip(engine.createJob(grantOf(principal()), kind("transcription"), { uploadId }, "k"))
      assert.strictEqual((yield* create)._tag, "UploadNotReady")
      const empty = { contentType: "audio/wav", contentLength: undefined, content: Stream.empty }
      assert.strictEqual((yield* Effect.flip(engine.receiveUpload({ uploadId, ...empty })))._tag, "EmptyFile")
      assert.strictEqual((yield* create)._tag, "UploadExpired")
    }).pipe(within({ settings: { upload } }))
  })
})
