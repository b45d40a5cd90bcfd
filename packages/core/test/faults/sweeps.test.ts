import { assert, describe, it } from "@effect/vitest"
import { Engine } from "@kiln/core"
import { jobBlobKey } from "@kiln/core/domain"
import { BlobStore } from "@kiln/core/ports"
import { collectOrphans, pruneOnce, Worker } from "@kiln/core/worker"
import { Effect, Stream } from "effect"
import { blobsDown, blobsWith, makeOutage } from "../support/faults.ts"
import { principal, within } from "../support/harness.ts"
import { readJob, submitSpeech } from "../support/jobs.ts"
import { passTime } from "../support/virtualTime.ts"

const storedForJobs = Effect.flatMap(BlobStore, (blobs) => Stream.runCollect(blobs.list("jobs")))

describe("a sweep does what it can", () => {
  it.effect("erased files that cannot be removed do not keep others from being removed", () => {
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
      assert.strictEqual((yield* Effect.flip(pruneOnce))._tag, "BlobUnavailable")
      assert.deepStrictEqual(yield* storedForJobs, [stuck])
    }).pipe(within({ blobs }))
  })

  it.effect("a leftover file that cannot be removed does not keep others from being removed", () => {
    const [stuck, ...others] = [0, 1, 2].map((n) => jobBlobKey(`job_${"0".repeat(25)}${n}`, 1, "audio"))
    const blobs = blobsWith((store) => ({
      remove: (prefix) => (prefix === stuck ? Effect.fail(blobsDown) : store.remove(prefix)),
    }))
    return Effect.gen(function* () {
      const store = yield* BlobStore
      for (const key of [stuck ?? "", ...others])
        yield* store.put(key, Stream.succeed(new Uint8Array(1)), { maxBytes: 1 })
      yield* collectOrphans
      assert.deepStrictEqual(yield* storedForJobs, [stuck])
    }).pipe(within({ blobs }))
  })
})
