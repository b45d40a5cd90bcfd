import { assert } from "@effect/vitest"
import { Engine } from "@kiln/core/effect"
import { collectOrphans, expireOverdue, pruneOnce } from "@kiln/core/worker"
import { Effect, Fiber, Stream } from "effect"
import * as fc from "fast-check"
import { principal } from "../../support/harness.ts"
import { readJob, submitSpeech, submitVoiceTurn } from "../../support/jobs.ts"
import { blobsIn, jobIn, later, pass, passes, sweepAll, verifyBlank, verifyDoneOnce, wakesUp } from "../support/look.ts"
import type { Process } from "../support/Process.ts"
import { race } from "../support/Race.ts"

const erase = (process: Process, jobId: string) =>
  process.does(Effect.flatMap(Engine, (engine) => engine.eraseJobData(principal(), jobId)))

export const sweepAndCommit = race({
  name: "sweep × running attempt and transfer: nothing is removed that may still be committed",
  given: fc.record({ voice: fc.boolean(), starts: fc.nat(20) }),
  reaches: ["S lists an uncommitted blob of jobs", "S lists an uncommitted blob of uploads"],
  run: Effect.fnUntraced(function* (world, { starts, voice }) {
    const [a, s, t, u] = [
      yield* world.process("A"),
      yield* world.process("S"),
      yield* world.process("T"),
      yield* world.process("U"),
    ]
    const { id } = yield* a.does(voice ? submitVoiceTurn("k") : submitSpeech("k"))
    const attempt = yield* a.startsAttempt()
    const upload = yield* u.does(
      Effect.flatMap(Engine, (engine) => engine.createUpload(principal(), { format: "wav", declaredSeconds: 3 })),
    )
    const content = Stream.fromEffect(
      Effect.as(world.turn("U: bytes arrive"), new TextEncoder().encode("RIFF0000WAVEfmt ")),
    )
    yield* world.race([
      Fiber.join(attempt),
      Effect.andThen(
        later(world, starts),
        u.does(
          Effect.flatMap(Engine, (engine) =>
            engine.receiveUpload({ uploadId: upload.id, contentType: "audio/wav", contentLength: undefined, content }),
          ),
        ),
      ),
      Effect.repeat(s.does(collectOrphans), { times: 2 }),
      Effect.repeat(t.does(collectOrphans), { times: 2 }),
      s.does(Effect.andThen(expireOverdue, pruneOnce)),
    ])
    yield* verifyDoneOnce(world, s, id)
    const file = (yield* world.stores.uploads.findUpload(upload.id))?.file
    assert.include(yield* blobsIn(world), file?.blobKey ?? "no file")
  }),
})

export const expireAndComplete = race({
  name: "expire × complete: done with its file, or timed out without one",
  given: fc.record({ ends: fc.nat(8), wakes: fc.nat(12) }),
  reaches: ["done", "failed", "A completeJobs LeaseLost"],
  run: Effect.fnUntraced(function* (world, { ends, wakes }) {
    const settings = { runLimitMs: 20_000 }
    const [a, s] = [yield* world.process("A", { settings }), yield* world.process("S", { settings })]
    const { id } = yield* a.does(submitSpeech("k"))
    const attempt = yield* a.startsAttempt()
    yield* world.race([
      Fiber.join(attempt),
      later(world, ends).pipe(Effect.andThen(passes(world, 20_000, s)), Effect.andThen(s.does(expireOverdue))),
      Effect.andThen(later(world, wakes), wakesUp(world, a, 20_000)),
    ])
    const job = yield* jobIn(world, id)
    world.events.add(job.status)
    if (job.status === "done") return yield* verifyDoneOnce(world, s, id)
    assert.deepStrictEqual([job.status, job.errorCode, job.files, job.output], ["failed", "job_timeout", [], null])
    assert.deepStrictEqual(world.completions, [])
    yield* sweepAll(s)
    assert.deepStrictEqual(yield* blobsIn(world), [])
  }, Effect.asVoid),
})

const retention = { dataRetentionMs: 60_000 }

export const sweepAndSweep = race({
  name: "sweep × sweep × erase: all data is gone, all calls finish, and the eraser gets the true result",
  given: fc.boolean(),
  reaches: ["E eraseJobs Erased", "E eraseJobs AlreadyErased"],
  run: Effect.fnUntraced(function* (world, collects) {
    const [a, s, t, eraser] = [
      yield* world.process("A"),
      yield* world.process("S", { settings: retention }),
      yield* world.process("T", { settings: retention }),
      yield* world.process("E"),
    ]
    const kept = yield* a.does(submitVoiceTurn("k"))
    const erased = yield* a.does(submitSpeech("l"))
    yield* a.tick
    yield* pass(world, 60_000, s, t, eraser)
    yield* world.race([
      s.does(pruneOnce),
      t.does(collects ? Effect.andThen(collectOrphans, pruneOnce) : pruneOnce),
      Effect.gen(function* () {
        // A sweep reads what is to be kept before it erases anything.
        yield* eraser.does(Effect.andThen(readJob(erased.id), readJob(erased.id)))
        yield* erase(eraser, erased.id)
        const left = (yield* blobsIn(world)).filter((key) => key.startsWith(`jobs/${erased.id.slice(4)}`))
        assert.deepStrictEqual(left, [])
      }),
    ])
    assert.deepStrictEqual(yield* blobsIn(world), [])
    assert.deepStrictEqual(yield* world.stores.jobs.listPurges(10), [])
    assert.strictEqual((yield* jobIn(world, kept.id)).retained, "expired")
    yield* verifyBlank(world, erased.id)
  }),
})

export const eraseAndErase = race({
  name: "erase × erase × erase: each succeeds only once the data is gone",
  given: fc.constantFrom(2, 3),
  reaches: ["A eraseJobs Erased", "B eraseJobs Erased", "C eraseJobs Erased", "A eraseJobs AlreadyErased"],
  run: Effect.fnUntraced(function* (world, count) {
    const processes = yield* Effect.forEach(["A", "B", "C"].slice(0, count), (name) => world.process(name))
    const { id } = yield* processes[0]!.does(submitVoiceTurn("k"))
    yield* processes[0]!.tick
    yield* world.race(
      processes.map((process) =>
        Effect.gen(function* () {
          yield* erase(process, id)
          yield* verifyBlank(world, id)
          assert.deepStrictEqual(yield* blobsIn(world), [])
        }),
      ),
    )
    assert.deepStrictEqual(yield* world.stores.jobs.listPurges(10), [])
  }),
})
