import { assert } from "@effect/vitest"
import { defaultEngineSettings, Engine } from "@kiln/core/effect"
import { collectOrphans, pruneOnce } from "@kiln/core/worker"
import { Effect, Stream } from "effect"
import * as fc from "fast-check"
import { grantOf, kind, principal } from "../../support/harness.ts"
import { submitSpeech } from "../../support/jobs.ts"
import { blobsIn, jobIn, later, passes } from "../support/look.ts"
import type { Process } from "../support/Process.ts"
import { race } from "../support/Race.ts"
import type { World } from "../support/World.ts"

const { keyId } = principal()

const create = (process: Process, name: string, request: unknown, key: string) =>
  Effect.result(
    process.does(Effect.flatMap(Engine, (engine) => engine.createJob(grantOf(principal()), kind(name), request, key))),
  )

/** A file that arrived, waiting for its job. */
const uploaded = (process: Process) =>
  process.does(
    Effect.gen(function* () {
      const engine = yield* Engine
      const { id } = yield* engine.createUpload(principal(), { format: "wav", declaredSeconds: 3 })
      const content = Stream.succeed(new TextEncoder().encode("RIFF0000WAVEfmt "))
      yield* engine.receiveUpload({ uploadId: id, contentType: "audio/wav", contentLength: undefined, content })
      return id
    }),
  )

/** Requests of one process share commits, those of two do not: both must come to the same. */
const senders = (world: World, count: number, together: boolean) =>
  together
    ? Effect.map(world.process("A"), (process) => Array.from({ length: count }, () => process))
    : Effect.forEach(["A", "B", "C"].slice(0, count), (name) => world.process(name))

const together = fc.boolean()
const body = fc.constantFrom("x", "y")

export const createAndCreate = race({
  name: "create × create with the same idempotency key: one job, replayed or refused",
  given: fc.record({ bodies: fc.tuple(body, body, body), together }),
  reaches: ["number 0 won", "number 1 won", "number 2 won", "replayed", "reused"],
  run: Effect.fnUntraced(function* (world, { bodies, together }) {
    const processes = yield* senders(world, bodies.length, together)
    const answers: Array<Effect.Success<ReturnType<typeof create>>> = []
    yield* world.race(
      bodies.map((input, n) =>
        Effect.map(create(processes[n]!, "speech_synthesis", { input }, "k"), (answer) => (answers[n] = answer)),
      ),
    )
    assert.strictEqual(world.accepted.length, 1)
    const winners = answers.flatMap((answer, n) => (answer._tag === "Success" && !answer.success.replayed ? [n] : []))
    assert.strictEqual(winners.length, 1)
    world.events.add(`number ${winners[0]} won`)
    for (const [n, answer] of answers.entries()) {
      if (answer._tag === "Success") {
        assert.strictEqual(answer.success.job.id, world.accepted[0]?.id)
        assert.deepStrictEqual(answer.success.job.request, { input: bodies[n] ?? "" })
        if (answer.success.replayed) world.events.add("replayed")
      } else {
        assert.strictEqual((answer.failure as { readonly _tag: string })._tag, "IdempotencyKeyReused")
        assert.notStrictEqual(bodies[n], bodies[winners[0] ?? 0])
        world.events.add("reused")
      }
    }
  }),
})

/** All but the accepted ones were refused with this error, and their idempotency keys are free. */
const verifyRefusals = (
  world: World,
  answers: ReadonlyArray<Effect.Success<ReturnType<typeof create>>>,
  accepted: number,
  refusal: string,
) =>
  Effect.gen(function* () {
    const winners = answers.flatMap((answer, n) => (answer._tag === "Success" ? [n] : []))
    assert.strictEqual(winners.length, accepted)
    assert.strictEqual(world.accepted.length, accepted)
    world.events.add(`numbers ${winners.join(" and ")} won`)
    for (const [n, answer] of answers.entries()) {
      const bound = yield* Effect.orDie(world.stores.jobs.findByIdempotencyKey(keyId, `k${n}`))
      assert.strictEqual(bound === undefined, answer._tag === "Failure")
      if (answer._tag === "Failure") assert.strictEqual((answer.failure as { readonly _tag: string })._tag, refusal)
    }
  })

export const oneUploadTwoJobs = race({
  name: "create × create with the same upload: one job, and the other idempotency key stays free",
  given: together,
  reaches: ["numbers 0 won", "numbers 1 won", "numbers 2 won"],
  run: Effect.fnUntraced(function* (world, together) {
    const processes = yield* senders(world, 3, together)
    const uploadId = yield* uploaded(processes[0]!)
    const answers: Array<Effect.Success<ReturnType<typeof create>>> = []
    yield* world.race(
      processes.map((process, n) =>
        Effect.map(create(process, "transcription", { uploadId }, `k${n}`), (answer) => (answers[n] = answer)),
      ),
    )
    yield* verifyRefusals(world, answers, 1, "UploadAlreadyUsed")
    const upload = yield* world.stores.uploads.findUpload(uploadId)
    assert.strictEqual(upload?.jobId, world.accepted[0]?.id)
  }),
})

export const queueCap = race({
  name: "create × create at the queue's cap: the cap is never exceeded",
  given: together,
  reaches: ["numbers 0 won", "numbers 1 won", "numbers 2 won"],
  run: Effect.fnUntraced(function* (world, together) {
    const settings = { queueCap: 2 }
    const processes = together
      ? yield* Effect.map(world.process("A", { settings }), (process) => [process, process, process])
      : yield* Effect.forEach(["A", "B", "C"], (name) => world.process(name, { settings }))
    yield* processes[0]!.does(submitSpeech("before"))
    world.accepted.length = 0
    const answers: Array<Effect.Success<ReturnType<typeof create>>> = []
    yield* world.race(
      processes.map((process, n) =>
        Effect.map(create(process, "speech_synthesis", { input: "x" }, `k${n}`), (answer) => (answers[n] = answer)),
      ),
    )
    yield* verifyRefusals(world, answers, 1, "QueueFull")
  }),
})

export const createAndExpire = race({
  name: "create × expiry of its upload: refused, or accepted with its file",
  given: fc.record({ creates: fc.nat(12), ends: fc.nat(12) }),
  reaches: ["accepted", "expired"],
  run: Effect.fnUntraced(function* (world, { creates, ends }) {
    const settings = { upload: { ...defaultEngineSettings.upload, usableForMs: 60_000 } }
    const [a, s] = [yield* world.process("A", { settings }), yield* world.process("S", { settings })]
    const uploadId = yield* uploaded(a)
    const answers: Array<Effect.Success<ReturnType<typeof create>>> = []
    yield* world.race([
      Effect.andThen(later(world, ends), passes(world, 60_000, a, s)),
      later(world, creates).pipe(
        Effect.andThen(create(a, "transcription", { uploadId }, "k")),
        Effect.map((answer) => (answers[0] = answer)),
      ),
      s.does(Effect.andThen(pruneOnce, collectOrphans)),
      s.does(pruneOnce),
    ])
    const [answer] = answers
    if (answer?._tag === "Success") {
      world.events.add("accepted")
      assert.deepStrictEqual(yield* blobsIn(world), [`uploads/${uploadId.slice(4)}/1`])
      yield* a.tick
      assert.strictEqual((yield* jobIn(world, answer.success.job.id)).status, "done")
    } else {
      world.events.add("expired")
      assert.strictEqual((answer?.failure as { readonly _tag: string } | undefined)?._tag, "UploadExpired")
      yield* s.does(pruneOnce)
      assert.deepStrictEqual(yield* blobsIn(world), [])
    }
  }),
})
