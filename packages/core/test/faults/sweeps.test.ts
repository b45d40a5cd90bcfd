import { assert, describe, it } from "@effect/vitest"
import { defaultEngineSettings, Engine, EngineConfig } from "@kiln/core/effect"
import { jobBlobKey } from "@kiln/core/domain"
import { BlobStore, JobStore, UploadStore } from "@kiln/core/ports"
import { layerSweeps, pruneOnce, sweepOrphans, Worker } from "@kiln/core/worker"
import { Effect, Layer, Stream } from "effect"
import { blobsDown, blobsWith, makeOutage, storesWith } from "../support/faults.ts"
import { principal, within } from "../support/harness.ts"
import { readJob, submitSpeech } from "../support/jobs.ts"
import { passTime, passUntil } from "../support/virtualTime.ts"

const storedForJobs = Effect.flatMap(BlobStore, (blobs) => Stream.runCollect(blobs.list("jobs")))

const storedForUploads = Effect.flatMap(BlobStore, (blobs) => Stream.runCollect(blobs.list("uploads")))
const settings = {
  ...defaultEngineSettings,
  upload: { ...defaultEngineSettings.upload, usableForMs: 60_000 },
  dataRetentionMs: 60_000,
  jobRetentionMs: 300_000,
}
const pruning = Effect.provideService(pruneOnce, EngineConfig, settings)

/** An upload with its file, which no job came for yet. */
const uploaded = Effect.gen(function* () {
  const engine = yield* Engine
  const { id } = yield* engine.createUpload(principal(), { format: "wav", declaredSeconds: 3 })
  const content = Stream.succeed(new TextEncoder().encode("RIFF0000WAVEfmt "))
  yield* engine.receiveUpload({ uploadId: id, contentType: "audio/wav", contentLength: undefined, content })
  return id
})
const findUpload = (id: `upl_${string}`) => Effect.flatMap(UploadStore, (uploads) => uploads.findUpload(id))

describe("an unused upload", () => {
  it.effect("loses its file when it can no longer be used, and its record with the records of jobs", () =>
    Effect.gen(function* () {
      const id = yield* uploaded
      yield* submitSpeech("k")
      yield* (yield* Worker).tick
      yield* passTime("59999 millis")
      assert.strictEqual(yield* pruning, 0)
      assert.strictEqual((yield* storedForUploads).length, 1)
      yield* passTime("1 millis")
      // With the data of the job.
      assert.strictEqual(yield* pruning, 2)
      assert.deepStrictEqual(yield* storedForUploads, [])
      assert.deepInclude(yield* findUpload(id), { erased: true, file: null })
      yield* passTime("239999 millis")
      yield* pruning
      assert.isDefined(yield* findUpload(id))
      yield* passTime("1 millis")
      assert.strictEqual(yield* pruning, 2)
      assert.isUndefined(yield* findUpload(id))
    }).pipe(within({ settings })),
  )

  it.effect("is removed by the sweeps of a running process, even if data of jobs is kept indefinitely", () =>
    Effect.gen(function* () {
      const id = yield* uploaded
      const keeping = { ...settings, dataRetentionMs: 0, jobRetentionMs: 0 }
      yield* Effect.provideService(Layer.build(layerSweeps), EngineConfig, keeping)
      yield* passTime("59 seconds")
      assert.strictEqual((yield* storedForUploads).length, 1)
      yield* passTime("121 seconds")
      assert.deepStrictEqual(yield* storedForUploads, [])
      yield* passTime("400 seconds")
      assert.isDefined(yield* findUpload(id))
    }).pipe(within({ settings })),
  )
})

describe("a sweep is best effort", () => {
  it.effect("a failed purge does not delay the rest: other records and uploads", () => {
    const blobs = blobsWith((store) => ({
      remove: (prefix) => (prefix.startsWith("jobs/") ? Effect.fail(blobsDown) : store.remove(prefix)),
    }))
    return Effect.gen(function* () {
      const old = yield* submitSpeech("old")
      yield* Effect.flatMap(Worker, (worker) => worker.tick)
      yield* passTime("240 seconds")
      const fresh = yield* submitSpeech("fresh")
      yield* Effect.flatMap(Worker, (worker) => worker.tick)
      const id = yield* uploaded
      yield* passTime("60 seconds")
      assert.strictEqual((yield* Effect.flip(pruning))._tag, "BlobUnavailable")
      assert.strictEqual((yield* Effect.flip(readJob(old.id)))._tag, "JobNotFound")
      assert.strictEqual((yield* readJob(fresh.id)).retained, "expired")
      assert.deepInclude(yield* findUpload(id), { erased: true, file: null })
      assert.deepStrictEqual([(yield* storedForUploads).length, (yield* storedForJobs).length], [0, 2])
    }).pipe(within({ settings, blobs }))
  })

  it.effect("data is unreachable in time although the blob store is unavailable", () => {
    const outage = makeOutage(blobsDown)
    const blobs = blobsWith((store) => ({
      list: (root) => Stream.unwrap(outage.strikes(Effect.succeed(store.list(root)))),
      remove: (prefix) => outage.strikes(store.remove(prefix)),
    }))
    return Effect.gen(function* () {
      const { id } = yield* submitSpeech("k")
      yield* (yield* Worker).tick
      yield* passTime("60 seconds")
      yield* outage.begin
      assert.strictEqual((yield* Effect.flip(pruning))._tag, "BlobUnavailable")
      assert.strictEqual((yield* readJob(id)).retained, "expired")
    }).pipe(within({ settings, blobs }))
  })

  it.effect("a repeated erasure removes what a failing blob store left behind", () => {
    const outage = makeOutage(blobsDown)
    const blobs = blobsWith((store) => ({ remove: (prefix) => outage.strikes(store.remove(prefix)) }))
    return Effect.gen(function* () {
      const engine = yield* Engine
      const { id } = yield* submitSpeech("k")
      yield* Effect.flatMap(Worker, (worker) => worker.tick)
      yield* outage.begin
      assert.strictEqual((yield* Effect.flip(engine.eraseJobData(principal(), id)))._tag, "BlobUnavailable")
      assert.strictEqual((yield* storedForJobs).length, 1)
      yield* outage.end
      yield* engine.eraseJobData(principal(), id)
      assert.deepStrictEqual(yield* storedForJobs, [])
    }).pipe(within({ blobs }))
  })

  it.effect("erased files that cannot be removed do not prevent the removal of others", () => {
    const outage = makeOutage(blobsDown)
    let stuck = "none"
    const blobs = blobsWith((store) => ({
      remove: (prefix) => (stuck.startsWith(prefix) ? Effect.fail(blobsDown) : outage.strikes(store.remove(prefix))),
    }))
    return Effect.gen(function* () {
      const engine = yield* Engine
      const ids: Array<string> = []
      for (const key of ["a", "b", "c"]) {
        ids.push((yield* submitSpeech(key)).id)
        // So that there is a first one.
        yield* passTime("1 millis")
      }
      yield* Effect.flatMap(Worker, (worker) => worker.tick)
      stuck = (yield* readJob(ids[0] ?? "")).files[0]?.blobKey ?? ""
      yield* outage.begin
      for (const id of ids) yield* Effect.flip(engine.eraseJobData(principal(), id))
      assert.strictEqual((yield* storedForJobs).length, 3)
      yield* outage.end
      yield* passTime("60 seconds")
      assert.strictEqual((yield* Effect.flip(pruneOnce))._tag, "BlobUnavailable")
      assert.deepStrictEqual(yield* storedForJobs, [stuck])
    }).pipe(within({ blobs }))
  })

  it.effect("purges that never succeed, even more than one step reads, do not prevent others", () => {
    const outage = makeOutage(blobsDown)
    const stuck = new Set<string>()
    const blobs = blobsWith((store) => ({
      remove: (prefix) => (stuck.has(prefix) ? Effect.fail(blobsDown) : outage.strikes(store.remove(prefix))),
    }))
    return Effect.gen(function* () {
      const engine = yield* Engine
      const store = yield* JobStore
      const ids: Array<string> = []
      for (let n = 0; n < 230; n++) ids.push((yield* submitSpeech(`${n}`)).id)
      yield* Effect.flatMap(Worker, (worker) => worker.tick)
      yield* outage.begin
      for (const id of ids) yield* Effect.flip(engine.eraseJobData(principal(), id))
      yield* outage.end
      yield* passTime("60 seconds")
      const due = yield* store.listPurges(1_000)
      for (const { blobPrefix } of due.slice(0, 210)) stuck.add(blobPrefix)
      assert.strictEqual((yield* Effect.flip(pruneOnce))._tag, "BlobUnavailable")
      const left = yield* store.listPurges(1_000)
      assert.deepStrictEqual([due.length, left.length], [230, 210])
      assert.deepStrictEqual(new Set(left.map(({ blobPrefix }) => blobPrefix)), stuck)
    }).pipe(within({ blobs, settings: { concurrency: 230 } }))
  })

  it.effect("more purges than a sweep tries, none of which succeeds, delay others by one sweep", () => {
    const stuck = new Set<string>()
    const blobs = blobsWith((store) => ({
      remove: (prefix) => (stuck.has(prefix) ? Effect.fail(blobsDown) : store.remove(prefix)),
    }))
    return Effect.gen(function* () {
      const store = yield* JobStore
      const ids: Array<string> = []
      for (let n = 0; n < 610; n++) ids.push((yield* submitSpeech(`${n}`)).id)
      yield* Effect.flatMap(Worker, (worker) => worker.tick)
      const { purges } = yield* store.expireData(0, 1_000)
      for (const { blobPrefix } of purges.slice(0, 605)) stuck.add(blobPrefix)
      const left = Effect.map(store.listPurges(1_000), (all) => all.length)
      assert.strictEqual((yield* Effect.flip(pruneOnce))._tag, "BlobUnavailable")
      assert.deepStrictEqual([purges.length, yield* left], [610, 610])
      // The next sweep is soon enough for the first 500 to be paused still.
      assert.strictEqual((yield* Effect.flip(pruneOnce))._tag, "BlobUnavailable")
      assert.strictEqual(yield* left, 605)
      // All are paused, so there is nothing to fail.
      assert.strictEqual(yield* pruneOnce, 0)
      stuck.clear()
      yield* passTime("60 seconds")
      assert.strictEqual(yield* pruneOnce, 605)
      assert.deepStrictEqual(yield* storedForJobs, [])
    }).pipe(within({ blobs, settings: { concurrency: 610 } }))
  })

  it.effect("while the blob store is unavailable, at most some hundreds of purges are tried at once", () => {
    const due = Array.from({ length: 5_000 }, (_, n) => ({ blobPrefix: `jobs/${n}/` }))
    const stores = storesWith(JobStore, () => ({ nextPurges: (limit) => Effect.succeed(due.slice(0, limit)) }))
    let tried = 0
    const blobs = blobsWith(() => ({
      remove: () =>
        Effect.suspend(() => {
          tried += 1
          return Effect.fail(blobsDown)
        }),
    }))
    return Effect.gen(function* () {
      assert.strictEqual((yield* Effect.flip(pruneOnce))._tag, "BlobUnavailable")
      assert.strictEqual(tried, 500)
    }).pipe(within({ blobs, stores }))
  })

  it.effect(
    "leftover files that cannot be removed, more than one page of them, do not prevent the removal of others",
    () => {
      const blobs = blobsWith((store) => ({
        remove: (prefix) => (prefix.includes("/stuck") ? Effect.fail(blobsDown) : store.remove(prefix)),
      }))
      return Effect.gen(function* () {
        const store = yield* BlobStore
        const { id } = yield* submitSpeech("k")
        yield* (yield* Worker).tick
        yield* passUntil(
          "it is done",
          Effect.map(readJob(id), ({ status }) => status === "done"),
          "1 minute",
        )
        const stuck = Array.from({ length: 510 }, (_, n) => jobBlobKey(id, 1, `stuck${n}`))
        const keys = [...stuck, ...["one", "two"].map((name) => jobBlobKey(id, 1, name))]
        for (const key of keys) yield* store.put(key, Stream.succeed(new Uint8Array(1)), { maxBytes: 1 })
        yield* sweepOrphans({ force: true })
        assert.deepStrictEqual(new Set(yield* storedForJobs), new Set([jobBlobKey(id, 1, "audio"), ...stuck]))
      }).pipe(within({ blobs }))
    },
  )
})
