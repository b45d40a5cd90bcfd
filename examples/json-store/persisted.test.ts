import { expect, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer } from "effect"
import { JobStore } from "@kiln/core/ports"
import { MemoryStores } from "@kiln/testing"
import { fixtures } from "@kiln/conformance"

const principal = fixtures.ownerOf(fixtures.newJob(1))
const capabilities = { durable: true, multiProcess: false }

/** Stores that save only when the test decides the outcome. */
const heldUp = Effect.gen(function* () {
  const texts: Array<string> = []
  const saving = yield* Deferred.make<void>()
  const end = yield* Deferred.make<void, string>()
  const layer = MemoryStores.layerPersisted({
    capabilities,
    load: Effect.succeed(undefined),
    save: (text) =>
      Effect.gen(function* () {
        yield* Deferred.succeed(saving, undefined)
        yield* Deferred.await(end)
        texts.push(text)
      }),
  })
  const store = yield* Effect.map(Layer.build(layer), (context) => Effect.provideContext(JobStore, context))
  const { createJobs, findJobs } = yield* store
  return {
    texts,
    saving: Deferred.await(saving),
    end,
    create: (n: number) => Effect.map(createJobs([fixtures.newJob(n)]), ([outcome]) => outcome?._tag),
    isThere: (n: number) =>
      Effect.map(findJobs([{ jobId: fixtures.jobId(n), principal }]), ([job]) => job !== undefined),
  }
})

it.live("neither the caller nor a reader sees a change before it is saved", () =>
  Effect.gen(function* () {
    const { create, end, isThere, saving, texts } = yield* heldUp
    const creator = yield* Effect.forkChild(create(1))
    yield* saving
    const reader = yield* Effect.forkChild(isThere(1))
    yield* Effect.yieldNow
    expect([creator.pollUnsafe(), reader.pollUnsafe()]).toEqual([undefined, undefined])
    yield* Deferred.succeed(end, undefined)
    expect([yield* Fiber.join(creator), yield* Fiber.join(reader)]).toEqual(["Created", true])
    expect(texts.map((text) => text.includes(fixtures.jobId(1)))).toEqual([true])
  }),
)

it.live("a reader never sees what could not be saved", () =>
  Effect.gen(function* () {
    const { create, end, isThere, saving } = yield* heldUp
    const creator = yield* Effect.forkChild(create(1))
    yield* saving
    const reader = yield* Effect.forkChild(isThere(1))
    yield* Deferred.fail(end, "the disk is full")
    const refusal = yield* Effect.flip(Fiber.join(creator))
    expect(refusal).toMatchObject({ operation: "JobStore.createJobs", cause: "the disk is full" })
    expect(yield* Fiber.join(reader)).toBe(false)
  }),
)

it.live("a caller interrupted during a save leaves it complete; one that still waits for its turn has no effect", () =>
  Effect.gen(function* () {
    const { create, end, isThere, saving, texts } = yield* heldUp
    const first = yield* Effect.forkChild(create(1))
    yield* saving
    const second = yield* Effect.forkChild(create(2))
    yield* Effect.yieldNow
    yield* Fiber.interrupt(second)
    const leaving = yield* Effect.forkChild(Fiber.interrupt(first))
    yield* Effect.yieldNow
    yield* Deferred.succeed(end, undefined)
    yield* Fiber.join(leaving)
    expect(Exit.isFailure(yield* Fiber.await(second))).toBe(true)
    expect([yield* isThere(1), yield* isThere(2), texts.length]).toEqual([true, false, 1])
  }),
)

it.live("a file that cannot be read, or contains something else, is StoreUnavailable", () =>
  Effect.gen(function* () {
    for (const load of [Effect.fail("no such disk"), Effect.succeed("{}"), Effect.succeed("")]) {
      const layer = MemoryStores.layerPersisted({ capabilities, load, save: () => Effect.void })
      expect(yield* Effect.flip(Effect.scoped(Layer.build(layer)))).toMatchObject({
        _tag: "StoreUnavailable",
        operation: "MemoryStores.load",
      })
    }
  }),
)
