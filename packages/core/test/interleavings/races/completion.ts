import { assert } from "@effect/vitest"
import { Engine } from "@kiln/core/effect"
import { ProviderFailure } from "@kiln/core/providers"
import { Worker } from "@kiln/core/worker"
import { Effect, Fiber } from "effect"
import * as fc from "fast-check"
import { principal } from "../../support/harness.ts"
import { submitSpeech, submitVoiceTurn } from "../../support/jobs.ts"
import {
  blobsIn,
  bringToEnd,
  jobIn,
  later,
  leaseDurationMs,
  pass,
  passes,
  read,
  sweepAll,
  ticks,
  verifyBlank,
  verifyDoneOnce,
  wakesUp,
} from "../support/look.ts"
import type { Process } from "../support/Process.ts"
import { race } from "../support/Race.ts"
import type { World } from "../support/World.ts"

const kinds = { speech: submitSpeech("k"), voice: submitVoiceTurn("k") }
const kind = fc.constantFrom<keyof typeof kinds>("speech", "voice")

/** Asks for the deletion until it is granted, at most `times` times. */
const eraseWhenDone = (world: World, process: Process, jobId: `job_${string}`, times: number) =>
  Effect.gen(function* () {
    for (let asked = 0; asked < times; asked++) {
      const answer = yield* Effect.result(
        process.does(Effect.flatMap(Engine, (engine) => engine.eraseJobData(principal(), jobId))),
      )
      if (answer._tag === "Success") {
        world.events.add("erased")
        yield* verifyBlank(world, jobId)
        return true
      }
      assert.strictEqual((answer.failure as { readonly _tag: string })._tag, "JobProcessing")
    }
    return false
  })

export const completeAndErase = race({
  name: "complete × erase: refused, or erased permanently",
  given: kind,
  reaches: ["B eraseJobs Unfinished", "B eraseJobs Erased", "read a file", "read gone"],
  run: Effect.fnUntraced(function* (world, kind) {
    const [a, b, reader] = [yield* world.process("A"), yield* world.process("B"), yield* world.process("R")]
    const { id } = yield* a.does(kinds[kind])
    const attempt = yield* a.startsAttempt()
    const erase = Effect.gen(function* () {
      // Checked immediately: a caller whose erasure succeeded may look at once.
      if (yield* eraseWhenDone(world, b, id, 8)) assert.deepStrictEqual(yield* blobsIn(world), [])
    })
    const look = Effect.gen(function* () {
      for (let looks = 0; looks < 12; looks++) world.events.add(`read ${yield* read(reader, id)}`)
    })
    yield* world.race([Fiber.join(attempt), erase, look])
    assert.isTrue(yield* eraseWhenDone(world, b, id, 1))
    assert.deepStrictEqual(yield* blobsIn(world), [])
    yield* b.tick
    yield* verifyBlank(world, id)
  }),
})

export const completeAndTakeover = race({
  name: "complete × takeover: one result, with the winner's file",
  given: fc.record({ kind, third: fc.boolean(), sweeps: fc.boolean(), ends: fc.nat(8), wakes: fc.nat(12) }),
  reaches: ["A won", "B won", "C won", "A completeJobs LeaseLost", "B took over from A", "B took over from C"],
  run: Effect.fnUntraced(function* (world, { ends, kind, sweeps, third, wakes }) {
    const [a, b, c, s] = [
      yield* world.process("A"),
      yield* world.process("B"),
      yield* world.process("C"),
      yield* world.process("S"),
    ]
    const { id } = yield* a.does(kinds[kind])
    const attempt = yield* a.startsAttempt()
    yield* world.race([
      Fiber.join(attempt),
      later(world, ends).pipe(
        Effect.andThen(passes(world, leaseDurationMs, b, c)),
        Effect.andThen(ticks(world, b, id, 3)),
      ),
      third ? Effect.andThen(passes(world, leaseDurationMs, c), ticks(world, c, id, 3)) : Effect.void,
      Effect.andThen(later(world, wakes), wakesUp(world, a, leaseDurationMs)),
      sweeps ? sweepAll(s) : Effect.void,
    ])
    yield* bringToEnd(world, c, id)
    const job = yield* verifyDoneOnce(world, s, id)
    assert.isAtMost(job.lostWorkers, 2)
  }),
})

export const eraseAndTakeover = race({
  name: "complete × takeover × erase: data that a stale attempt writes after the erasure is unreachable",
  given: fc.nat(6),
  reaches: ["A won", "B won", "B eraseJobs Erased", "E eraseJobs Erased", "A completeJobs LeaseLost"],
  run: Effect.fnUntraced(function* (world, turns) {
    const [a, b, eraser] = [yield* world.process("A"), yield* world.process("B"), yield* world.process("E")]
    const { id } = yield* a.does(kinds.speech)
    const attempt = yield* a.startsAttempt()
    yield* world.race([
      Fiber.join(attempt),
      passes(world, leaseDurationMs, b).pipe(
        Effect.andThen(ticks(world, b, id, 2)),
        Effect.andThen(eraseWhenDone(world, b, id, 2)),
      ),
      eraseWhenDone(world, eraser, id, 8),
      Effect.andThen(later(world, turns), wakesUp(world, a, leaseDurationMs)),
    ])
    yield* bringToEnd(world, b, id)
    assert.isTrue(yield* eraseWhenDone(world, eraser, id, 1))
    yield* sweepAll(eraser)
    assert.deepStrictEqual(yield* blobsIn(world), [])
    yield* verifyBlank(world, id)
    assert.strictEqual(world.completions.length, 1)
    world.events.add(`${world.completions[0]?.by} won`)
  }),
})

export const failAndTakeover = race({
  name: "fail, defer × takeover: a stale attempt's failure does not count",
  given: fc.record({ retry: fc.boolean(), turns: fc.nat(8) }),
  reaches: ["A failJobs Written", "A failJobs LeaseLost", "A deferJobs Written", "A deferJobs LeaseLost"],
  run: Effect.fnUntraced(function* (world, { retry, turns }) {
    const fails = new ProviderFailure({ errorCode: "provider_unavailable", retry, detail: "no" })
    const [a, b] = [yield* world.process("A", { fails }), yield* world.process("B")]
    const { id } = yield* b.does(kinds.speech)
    const attempt = yield* a.startsAttempt()
    yield* world.race([
      Fiber.join(attempt),
      Effect.andThen(passes(world, leaseDurationMs, b), ticks(world, b, id, 3)),
      Effect.andThen(later(world, turns), wakesUp(world, a, leaseDurationMs)),
    ])
    yield* bringToEnd(world, b, id)
    if (!world.events.has("A failJobs Written")) return yield* verifyDoneOnce(world, b, id)
    const job = yield* jobIn(world, id)
    assert.deepStrictEqual([job.status, job.errorCode], ["failed", "provider_unavailable"])
    assert.deepStrictEqual(world.completions, [])
    yield* sweepAll(b)
    assert.deepStrictEqual(yield* blobsIn(world), [])
  }, Effect.asVoid),
})

export const beatAndComplete = race({
  name: "heartbeat × complete × claim: a heartbeat extends held leases and revives no ended one",
  given: kind,
  reaches: ["A won", "B won", "A extendLeases Extended", "A extendLeases LeaseLost", "B took over from A"],
  run: Effect.fnUntraced(function* (world, kind) {
    const [a, b] = [yield* world.process("A"), yield* world.process("B")]
    const { id } = yield* a.does(kinds[kind])
    const attempt = yield* a.startsAttempt()
    const time = Effect.gen(function* () {
      for (let thirds = 0; thirds < 4; thirds++) yield* passes(world, leaseDurationMs / 3, a, b)
    })
    yield* world.race([Fiber.join(attempt), time, ticks(world, b, id, 6)])
    yield* bringToEnd(world, b, id)
    yield* verifyDoneOnce(world, b, id)
  }),
})

export const releaseAndTakeover = race({
  name: "release × takeover: a release does not end the new holder's claim",
  given: fc.boolean(),
  reaches: ["A releaseJobs Written", "A releaseJobs LeaseLost", "B won", "C won"],
  run: Effect.fnUntraced(function* (world, late) {
    const [a, b, c] = [
      yield* world.process("A", { settings: { drainMs: 0 } }),
      yield* world.process("B"),
      yield* world.process("C"),
    ]
    const { id } = yield* a.does(kinds.speech)
    const running = yield* a.startsAttempt(Effect.flatMap(Worker, (worker) => worker.run))
    const stop = Effect.andThen(world.turn("A is told to stop"), Fiber.interrupt(running))
    // Late: the lease has ended already, so that the claims and the release meet.
    if (late) yield* pass(world, leaseDurationMs, b, c)
    yield* world.race([
      stop,
      passes(world, late ? 0 : leaseDurationMs, b, c),
      ticks(world, b, id, 3),
      ticks(world, c, id, 3),
    ])
    yield* bringToEnd(world, b, id)
    yield* verifyDoneOnce(world, c, id)
  }),
})

export const completeAndWait = race({
  name: "complete × wait: a caller that waits in the same process is woken without any delay",
  given: fc.record({ kind, turns: fc.nat(12) }),
  reaches: ["waits for what runs", "waits for what is done"],
  run: Effect.fnUntraced(function* (world, { kind, turns }) {
    const a = yield* world.process("A")
    const { id } = yield* a.does(kinds[kind])
    const attempt = yield* a.startsAttempt()
    const wait = a.does(Effect.flatMap(Engine, (engine) => engine.waitForJob(principal(), id)))
    const waits = Effect.gen(function* () {
      yield* later(world, turns)
      world.events.add((yield* jobIn(world, id)).status === "done" ? "waits for what is done" : "waits for what runs")
      assert.strictEqual((yield* wait).status, "done")
    })
    // No clock advances, so a caller that missed the wake-up would block the race.
    yield* world.race([Fiber.join(attempt), waits, waits])
  }),
})
