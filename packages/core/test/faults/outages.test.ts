import { assert, describe, it } from "@effect/vitest"
import { BlobStore, JobStore } from "@kiln/core/ports"
import type { ProviderSet } from "@kiln/core/providers"
import { expireOverdue } from "@kiln/core/worker"
import { Effect, Stream } from "effect"
import { blobsDown, blobsWith, makeOutage, storeDown, storesWith } from "../support/faults.ts"
import { mp3, speaks, within } from "../support/harness.ts"
import { finished, running, submitSpeech, submitTranscription } from "../support/jobs.ts"
import { passTime } from "../support/virtualTime.ts"

/** A blob store that takes uploads but has no room for results. */
const fullForResults = blobsWith((blobs) => ({
  put: (key, content, options) => (key.startsWith("jobs/") ? Effect.fail(blobsDown) : blobs.put(key, content, options)),
}))

describe("an outage costs only time", () => {
  it.effect("a store that is unavailable three times for longer than a lease exhausts no job", () => {
    const outage = makeOutage(storeDown)
    const stores = storesWith(JobStore, (store) => ({
      claimJobs: (request) => outage.strikes(store.claimJobs(request)),
      extendLeases: (items) => outage.strikes(store.extendLeases(items)),
      completeJobs: (items) => outage.strikes(store.completeJobs(items)),
      releaseJobs: (items) => outage.strikes(store.releaseJobs(items)),
      deferJobs: (items) => outage.strikes(store.deferJobs(items)),
      failJobs: (items) => outage.strikes(store.failJobs(items)),
    }))
    return Effect.gen(function* () {
      yield* running
      const { id } = yield* submitSpeech("k")
      for (let outages = 0; outages < 3; outages++) {
        yield* passTime("60 seconds")
        yield* outage.begin
        yield* passTime("35 seconds")
        yield* outage.end
      }
      const job = yield* finished(id, "5 minutes")
      assert.deepStrictEqual([job.status, job.errorCode, job.lostWorkers], ["done", null, 0])
    }).pipe(within({ stores, sandbox: speaks(() => Effect.as(Effect.sleep("2 minutes"), mp3)) }))
  })

  it.effect("a blob store that is unavailable for longer than the run limit fails no job", () => {
    const outage = makeOutage(blobsDown)
    const blobs = blobsWith((store) => ({
      put: (key, content, options) => outage.strikes(store.put(key, content, options)),
    }))
    return Effect.gen(function* () {
      yield* outage.begin
      yield* running
      const { id } = yield* submitSpeech("k")
      yield* passTime("35 minutes")
      yield* outage.end
      yield* expireOverdue
      const job = yield* finished(id, "5 minutes")
      assert.deepStrictEqual([job.status, job.errorCode], ["done", null])
    }).pipe(within({ blobs }))
  })

  it.effect("a store that is unavailable when the first file is to be written lets no provider be called again", () => {
    const outage = makeOutage(storeDown)
    let bought = 0
    const stores = storesWith(JobStore, (store) => ({
      readLineage: outage.strikes(store.readLineage),
      failJobs: (items) => outage.strikes(store.failJobs(items)),
      deferJobs: (items) => outage.strikes(store.deferJobs(items)),
    }))
    const sandbox = speaks(() =>
      Effect.sync(() => {
        bought += 1
        return mp3
      }),
    )
    return Effect.gen(function* () {
      yield* outage.begin
      yield* running
      const { id } = yield* submitSpeech("k")
      yield* passTime("10 seconds")
      yield* outage.end
      assert.deepStrictEqual([(yield* finished(id, "5 minutes")).status, bought], ["done", 1])
    }).pipe(within({ stores, sandbox }))
  })

  it.effect("a result that does not fit on the disk is requested once, not repeatedly", () => {
    let bought = 0
    const sandbox = speaks(() =>
      Effect.sync(() => {
        bought += 1
        return mp3
      }),
    )
    return Effect.gen(function* () {
      yield* running
      yield* submitSpeech("k")
      yield* passTime("20 minutes")
      assert.strictEqual(bought, 1)
    }).pipe(within({ blobs: fullForResults, sandbox }))
  })

  it.effect("while there is no room for files, jobs without files continue", () =>
    Effect.gen(function* () {
      yield* running
      for (let n = 0; n < 8; n++) yield* submitSpeech(`speech ${n}`)
      yield* passTime("1 seconds")
      const { id } = yield* submitTranscription("transcription")
      assert.strictEqual((yield* finished(id, "5 minutes")).status, "done")
    }).pipe(within({ blobs: fullForResults })),
  )

  it.effect("a blob store that does not respond delays only jobs that write files", () => {
    let puts = 0
    // It fails at first, until the worker only probes it; the probe is never answered.
    const blobs = blobsWith((store) => ({
      put: (key, content, options) => {
        if (!key.startsWith("jobs/")) return store.put(key, content, options)
        puts += 1
        return puts <= 21 ? Effect.fail(blobsDown) : Effect.never
      },
    }))
    return Effect.gen(function* () {
      yield* running
      yield* submitSpeech("k")
      yield* passTime("1 minutes")
      assert.strictEqual(puts, 22)
      const { id } = yield* submitTranscription("t")
      assert.strictEqual((yield* finished(id, "10 seconds")).status, "done")
    }).pipe(within({ blobs }))
  })

  it.effect("an upload whose bytes are gone fails its job immediately", () => {
    const transcription: ProviderSet["transcription"] = ({ audio }) =>
      Effect.as(Stream.runDrain(audio.content), { text: "read" })
    return Effect.gen(function* () {
      const { id, uploadId } = yield* submitTranscription("t")
      yield* Effect.flatMap(BlobStore, (blobs) => blobs.remove(`uploads/${uploadId?.slice(4)}`))
      yield* running
      const job = yield* finished(id, "1 minutes")
      assert.deepStrictEqual([job.status, job.errorCode, job.attempts], ["failed", "internal_error", 1])
    }).pipe(within({ sandbox: { transcription } }))
  })
})
