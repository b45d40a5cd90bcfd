import { createHash } from "node:crypto"
import { assert } from "@effect/vitest"
import { Engine } from "@kiln/core/effect"
import type { UploadId } from "@kiln/core/domain"
import { collectOrphans, pruneOnce } from "@kiln/core/worker"
import { Deferred, Effect, Fiber, Stream } from "effect"
import * as fc from "fast-check"
import { principal } from "../../support/harness.ts"
import { blobsIn, bytesIn, later, leaseDurationMs, passes, wakesUp } from "../support/look.ts"
import type { Process } from "../support/Process.ts"
import { race } from "../support/Race.ts"
import type { World } from "../support/World.ts"

/** A WAV file that no other sender uses. */
const bodyOf = (sender: string): Uint8Array => new TextEncoder().encode(`RIFF0000WAVEfmt ${sender.repeat(60)}`)

const announce = (process: Process) =>
  process.does(
    Effect.flatMap(Engine, (engine) => engine.createUpload(principal(), { format: "wav", declaredSeconds: 3 })),
  )

/** Sends a file in two pieces, each in its turn. */
const put = (world: World, process: Process, sender: string, uploadId: UploadId, before = Effect.void) => {
  const body = bodyOf(sender)
  const pieces = Stream.fromIterable([body.subarray(0, 40), body.subarray(40)]).pipe(
    Stream.mapEffect((piece) => Effect.as(world.turn(`${sender}: bytes arrive`), piece)),
  )
  const content = Stream.concat(Stream.drain(Stream.fromEffect(before)), pieces)
  return process.does(
    Effect.flatMap(Engine, (engine) =>
      engine.receiveUpload({ uploadId, contentType: "audio/wav", contentLength: body.length, content }),
    ),
  )
}

/** `received`, or the tag of the error. */
type Answer = string
const answerOf = (sending: Effect.Effect<void, { readonly _tag: string }>): Effect.Effect<Answer> =>
  Effect.match(sending, { onSuccess: () => "received", onFailure: ({ _tag }) => _tag })

/** Checks that the upload's file is exactly this sender's, or missing, and that there is no other blob. */
const verifyFile = (world: World, uploadId: UploadId, sender: string | undefined) =>
  Effect.gen(function* () {
    const file = (yield* world.stores.uploads.findUpload(uploadId))?.file ?? null
    assert.deepStrictEqual(yield* blobsIn(world), file === null ? [] : [file.blobKey])
    assert.strictEqual(file === null, sender === undefined)
    if (file === null || sender === undefined) return
    assert.deepStrictEqual(yield* bytesIn(world, file.blobKey), bodyOf(sender))
    assert.strictEqual(file.bytes, bodyOf(sender).length)
    assert.strictEqual(file.sha256, createHash("sha256").update(bodyOf(sender)).digest("hex"))
    world.events.add(`${sender} received`)
  })

const refusals = ["UploadInProgress", "UploadAlreadyCompleted"]

export const putAndPut = race({
  name: "PUT × PUT: one is received, its bytes are the file, and no other blob remains",
  given: fc.record({ starts: fc.tuple(fc.nat(8), fc.nat(8), fc.nat(8)), together: fc.boolean() }),
  reaches: ["A received", "B received", "C received", ...refusals],
  run: Effect.fnUntraced(function* (world, { starts, together }) {
    const senders = ["A", "B", "C"]
    const alone = yield* world.process("A")
    const processes = yield* Effect.forEach(senders, (name) => (together ? Effect.succeed(alone) : world.process(name)))
    const { id } = yield* announce(alone)
    const answers = new Map<string, Answer>()
    yield* world.race(
      senders.map((sender, n) =>
        later(world, starts[n] ?? 0).pipe(
          Effect.andThen(answerOf(put(world, processes[n]!, sender, id))),
          Effect.map((answer) => answers.set(sender, answer)),
        ),
      ),
    )
    const received = senders.filter((sender) => answers.get(sender) === "received")
    assert.strictEqual(received.length, 1)
    for (const answer of answers.values()) {
      if (answer !== "received") assert.include(refusals, answer)
      world.events.add(answer)
    }
    yield* verifyFile(world, id, received[0])
  }),
})

export const putAndTakeover = race({
  name: "PUT × PUT after the first one's lease: at most one is received, in every order",
  given: fc.record({
    wakesAfterMs: fc.constantFrom(9_000, 29_000, 30_000),
    sweeps: fc.boolean(),
    ends: fc.nat(6),
    wakes: fc.nat(12),
  }),
  reaches: ["A received", "B received", "B took over from A", "A completeUpload LeaseLost"],
  run: Effect.fnUntraced(function* (world, { ends, sweeps, wakes, wakesAfterMs }) {
    const [a, b, s] = [yield* world.process("A"), yield* world.process("B"), yield* world.process("S")]
    const { id } = yield* announce(a)
    const answers = new Map<string, Answer>()
    const send = (process: Process, before?: Effect.Effect<void>) =>
      Effect.map(answerOf(put(world, process, process.name, id, before)), (answer) => {
        answers.set(process.name, answer)
        world.events.add(`${process.name} ${answer}`)
      })
    const claimed = Deferred.makeUnsafe<void>()
    const sending = yield* Effect.forkChild(
      send(a, Effect.andThen(Deferred.succeed(claimed, undefined), world.hasBegun)),
    )
    yield* Deferred.await(claimed)
    yield* world.race([
      Fiber.join(sending),
      later(world, ends).pipe(
        Effect.andThen(passes(world, leaseDurationMs, b)),
        Effect.andThen(send(b)),
        Effect.andThen(Effect.suspend(() => (answers.get("B") === "received" ? Effect.void : send(b)))),
      ),
      Effect.andThen(later(world, wakes), wakesUp(world, a, wakesAfterMs)),
      sweeps ? s.does(collectOrphans) : Effect.void,
    ])
    const received = [...answers].flatMap(([sender, answer]) => (answer === "received" ? [sender] : []))
    assert.isAtMost(received.length, 1)
    for (const answer of answers.values()) assert.include(["received", "UploadTimeout", ...refusals], answer)
    yield* s.does(Effect.andThen(pruneOnce, collectOrphans))
    yield* verifyFile(world, id, received[0])
  }),
})

export const putAndLeave = race({
  name: "PUT × PUT whose sender disconnects: it is received, or leaves nothing",
  given: fc.nat(16),
  reaches: ["A received", "B received", "A left", "B UploadInProgress"],
  run: Effect.fnUntraced(function* (world, turns) {
    const [a, b, s] = [yield* world.process("A"), yield* world.process("B"), yield* world.process("S")]
    const { id } = yield* announce(a)
    const sending = yield* Effect.forkChild(Effect.andThen(world.hasBegun, put(world, a, "A", id)))
    let answer: Answer = ""
    let left = false
    const leave = Effect.gen(function* () {
      yield* later(world, turns)
      yield* Fiber.interrupt(sending)
      left = (yield* Fiber.await(sending))._tag === "Failure"
    })
    yield* world.race([
      leave,
      Effect.map(answerOf(put(world, b, "B", id)), (got) => {
        answer = got
        world.events.add(`B ${got}`)
      }),
    ])
    yield* s.does(collectOrphans)
    const file = (yield* world.stores.uploads.findUpload(id))?.file
    // A file may have been received even though its sender left before the response.
    const bytes = file === undefined || file === null ? undefined : yield* bytesIn(world, file.blobKey)
    const owner = bytes === undefined ? undefined : new TextDecoder().decode(bytes).at(-1)
    if (answer === "received") assert.strictEqual(owner, "B")
    else assert.include(refusals, answer)
    if (!left && answer !== "received") assert.strictEqual(owner, "A")
    if (left) world.events.add("A left")
    yield* verifyFile(world, id, owner)
  }),
})
