import { assert, describe, it } from "@effect/vitest"
import { Engine } from "@kiln/core/effect"
import { BlobStore, JobStore, UploadStore } from "@kiln/core/ports"
import { Clock, Deferred, Effect, Fiber, type Layer, Stream } from "effect"
import { insteadOfFirst, storeDown, storesWith } from "./support/faults.ts"
import { principal, type Stores, within } from "./support/harness.ts"
import { ended, inTime, passTime } from "./support/virtualTime.ts"

const wav = (bytes: number, fill = 0): Uint8Array => {
  const data = new Uint8Array(bytes).fill(fill)
  data.set(new TextEncoder().encode("RIFF"), 0)
  data.set(new TextEncoder().encode("WAVEfmt "), 8)
  return data
}

const announce = Effect.flatMap(Engine, (engine) =>
  engine.createUpload(principal(), { format: "wav", declaredSeconds: 3 }),
)

const send = <E>(
  uploadId: `upl_${string}`,
  content: Stream.Stream<Uint8Array, E>,
  contentType = "audio/wav",
  contentLength?: number,
) => Effect.flatMap(Engine, (engine) => engine.receiveUpload({ uploadId, content, contentType, contentLength }))

/** The memory stores, whose clock differs from everybody else's. */
const withClock = (skewMs: number): Layer.Layer<Stores> => {
  const skewed = <A, E>(verb: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Clock.clockWith((clock) =>
      Effect.provideService(
        verb,
        Clock.Clock,
        Object.assign(Object.create(clock) as Clock.Clock, {
          currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() + skewMs,
          currentTimeMillis: Effect.map(clock.currentTimeMillis, (now) => now + skewMs),
        }),
      ),
    )
  return storesWith(UploadStore, (store) => ({
    createUploads: (items) => skewed(store.createUploads(items)),
    claimUpload: (request) => skewed(store.claimUpload(request)),
    extendUpload: (transfer) => skewed(store.extendUpload(transfer)),
  }))
}

const asked = (uploadId: `upl_${string}`, maxTransfers: number) => ({ uploadId, leaseDurationMs: 30_000, maxTransfers })
const stored = Effect.flatMap(BlobStore, (blobs) => Stream.runCollect(blobs.list("uploads")))
const fileOf = (uploadId: `upl_${string}`) =>
  Effect.flatMap(UploadStore, (store) => Effect.map(store.findUpload(uploadId), (upload) => upload?.file ?? null))

describe("receiveUpload", () => {
  it.effect("of 50 concurrent transfers one wins, and its bytes are stored", () =>
    Effect.gen(function* () {
      const upload = yield* announce
      const results = yield* Effect.all(
        Array.from({ length: 50 }, (_, index) =>
          Effect.result(send(upload.id, Stream.fromIterable([wav(100, index), new Uint8Array([index])]))),
        ),
        { concurrency: "unbounded" },
      )
      const winners = results.flatMap((result, index) => (result._tag === "Success" ? [index] : []))
      assert.strictEqual(winners.length, 1)
      for (const result of results)
        if (result._tag === "Failure")
          assert.include(["UploadInProgress", "UploadAlreadyCompleted"], result.failure._tag)
      const file = yield* fileOf(upload.id)
      const blobs = yield* BlobStore
      const { content } = yield* blobs.open(file?.blobKey ?? "")
      const bytes = [...(yield* Stream.runCollect(content))].flatMap((chunk) => [...chunk])
      assert.strictEqual(bytes.at(-1), winners[0])
      assert.strictEqual((yield* stored).length, 1)
    }).pipe(within()),
  )

  it.effect("the store knows of the blob store before the first byte is written", () =>
    Effect.gen(function* () {
      const upload = yield* announce
      const { readLineage } = yield* JobStore
      const known = Effect.map(readLineage, ({ document }) => document !== null)
      const before = yield* known
      const content = Stream.fromEffect(Effect.map(known, (isKnown) => wav(isKnown ? 100 : 50)))
      yield* send(upload.id, content)
      assert.deepStrictEqual([before, (yield* fileOf(upload.id))?.bytes], [false, 100])
    }).pipe(within()),
  )

  it.effect("an interrupted transfer leaves nothing and frees the URL immediately", () =>
    Effect.gen(function* () {
      const upload = yield* announce
      const started = yield* Deferred.make<void>()
      const endless = Stream.concat(
        Stream.succeed(wav(100)),
        Stream.fromEffect(Effect.andThen(Deferred.succeed(started, undefined), Effect.never)),
      )
      const transfer = yield* Effect.forkChild(send(upload.id, endless))
      yield* Deferred.await(started)
      assert.strictEqual((yield* Effect.flip(send(upload.id, Stream.succeed(wav(100)))))._tag, "UploadInProgress")
      yield* Fiber.interrupt(transfer)
      assert.deepStrictEqual(yield* stored, [])
      yield* send(upload.id, Stream.succeed(wav(100)))
      assert.strictEqual((yield* fileOf(upload.id))?.bytes, 100)
    }).pipe(within()),
  )

  it.effect("a stalled transfer times out after 30 s, a slow one after 10 min", () =>
    Effect.gen(function* () {
      const upload = yield* announce
      const stalled = yield* Effect.forkChild(
        Effect.flip(send(upload.id, Stream.concat(Stream.succeed(wav(100)), Stream.never))),
      )
      assert.strictEqual((yield* ended(stalled, "31 seconds"))._tag, "UploadTimeout")
      const drop = Stream.fromEffect(Effect.as(Effect.sleep("20 seconds"), wav(64)))
      const slow = yield* Effect.forkChild(Effect.flip(send(upload.id, Stream.forever(drop))))
      assert.strictEqual((yield* ended(slow, "601 seconds"))._tag, "UploadTimeout")
      assert.deepStrictEqual(yield* stored, [])
    }).pipe(within()),
  )

  it.effect("counts bytes regardless of what the sender declares, and allows exactly the limit", () =>
    Effect.gen(function* () {
      const upload = yield* announce
      const half = wav(13_107_200)
      const over = Stream.fromIterable([half, half, new Uint8Array(1)])
      assert.strictEqual((yield* Effect.flip(send(upload.id, over, "audio/wav", 10)))._tag, "FileTooLarge")
      yield* send(upload.id, Stream.fromIterable([half, half]))
      assert.strictEqual((yield* fileOf(upload.id))?.bytes, 26_214_400)
    }).pipe(within()),
  )

  it.effect("refuses an empty file and another container, even one byte at a time", () =>
    Effect.gen(function* () {
      const upload = yield* announce
      assert.strictEqual((yield* Effect.flip(send(upload.id, Stream.empty)))._tag, "EmptyFile")
      const png = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10)
      const bytewise = Stream.fromIterable([...png].map((byte) => Uint8Array.of(byte)))
      const mismatch = yield* Effect.flip(send(upload.id, bytewise))
      assert.deepInclude(mismatch, { _tag: "AudioFormatMismatch", declared: "wav", detected: null })
      yield* send(upload.id, Stream.fromIterable([...wav(100)].map((byte) => Uint8Array.of(byte))))
    }).pipe(within()),
  )

  it.effect("is refused after the fifth transfer, after completion and after expiry", () =>
    Effect.gen(function* () {
      const upload = yield* announce
      for (let transfer = 1; transfer <= 5; transfer++)
        assert.strictEqual((yield* Effect.flip(send(upload.id, Stream.empty)))._tag, "EmptyFile")
      assert.strictEqual((yield* Effect.flip(send(upload.id, Stream.succeed(wav(100)))))._tag, "UploadExpired")
      const second = yield* announce
      yield* send(second.id, Stream.succeed(wav(100)))
      assert.strictEqual((yield* Effect.flip(send(second.id, Stream.succeed(wav(100)))))._tag, "UploadAlreadyCompleted")
      const third = yield* announce
      yield* passTime("15 minutes")
      assert.strictEqual((yield* Effect.flip(send(third.id, Stream.succeed(wav(100)))))._tag, "UploadExpired")
    }).pipe(within()),
  )

  it.effect("a long transfer keeps its claim; one whose server is gone loses it after its lease", () =>
    Effect.gen(function* () {
      const upload = yield* announce
      const uploads = yield* UploadStore
      const drop = Stream.fromEffect(Effect.as(Effect.sleep("20 seconds"), wav(64)))
      const slow = yield* Effect.forkChild(send(upload.id, Stream.take(Stream.forever(drop), 6)))
      yield* passTime("100 seconds")
      assert.strictEqual((yield* Effect.flip(send(upload.id, Stream.succeed(wav(100)))))._tag, "UploadInProgress")
      yield* ended(slow, "30 seconds")
      const orphaned = yield* announce
      yield* uploads.claimUpload({ uploadId: orphaned.id, leaseDurationMs: 30_000, maxTransfers: 5 })
      yield* passTime("29999 millis")
      assert.strictEqual((yield* Effect.flip(send(orphaned.id, Stream.succeed(wav(100)))))._tag, "UploadInProgress")
      yield* passTime("1 millis")
      yield* send(orphaned.id, Stream.succeed(wav(100)))
    }).pipe(within()),
  )

  it.effect("a running transfer's claim is extended before its lease ends, not when it ends", () =>
    Effect.gen(function* () {
      const upload = yield* announce
      const uploads = yield* UploadStore
      // Another process looks at the very ends of leases, before anything else that happens at these instants.
      const looks = yield* Effect.forkChild(
        Effect.forEach(
          [30_000, 60_000],
          (ms) => Effect.andThen(Effect.sleep(ms), uploads.claimUpload(asked(upload.id, 0))),
          { concurrency: "unbounded" },
        ),
        { startImmediately: true },
      )
      const drop = Stream.fromEffect(Effect.as(Effect.sleep("20 seconds"), wav(64)))
      const slow = yield* Effect.forkChild(send(upload.id, Stream.take(Stream.forever(drop), 4)))
      const inProgress = { _tag: "Refused", reason: "in_progress" } as const
      assert.deepStrictEqual(yield* ended(looks, "61 seconds"), [inProgress, inProgress])
      yield* ended(slow, "30 seconds")
    }).pipe(within()),
  )

  it.effect("a failed extension costs neither the transfer nor its claim", () => {
    let extensions = 0
    const stores = storesWith(UploadStore, (store) => ({
      extendUpload: (transfer) => ((extensions += 1) === 1 ? Effect.fail(storeDown) : store.extendUpload(transfer)),
    }))
    return Effect.gen(function* () {
      const upload = yield* announce
      const uploads = yield* UploadStore
      const drop = Stream.fromEffect(Effect.as(Effect.sleep("20 seconds"), wav(64)))
      const slow = yield* Effect.forkChild(send(upload.id, Stream.take(Stream.forever(drop), 4)))
      for (let seconds = 1; seconds < 80; seconds++) {
        yield* passTime("1 seconds")
        const outcome = yield* uploads.claimUpload(asked(upload.id, 0))
        assert.deepStrictEqual(outcome, { _tag: "Refused", reason: "in_progress" }, `after ${seconds} s`)
      }
      yield* ended(slow, "10 seconds")
      assert.isAbove(extensions, 1)
      assert.strictEqual((yield* fileOf(upload.id))?.bytes, 256)
    }).pipe(within({ stores }))
  })

  it.effect("a transfer is refused for the first reason in order: completed, running, used up, type, length", () =>
    Effect.gen(function* () {
      const uploads = yield* UploadStore
      const [free, running, used, completed, late] = yield* Effect.all([
        announce,
        announce,
        announce,
        announce,
        announce,
      ])
      yield* uploads.claimUpload({ uploadId: running.id, leaseDurationMs: 30_000, maxTransfers: 5 })
      for (let transfer = 1; transfer <= 5; transfer++) yield* Effect.flip(send(used.id, Stream.empty))
      yield* send(completed.id, Stream.succeed(wav(100)))
      const reasons = (uploadId: `upl_${string}`) =>
        Effect.forEach(
          [
            ["image/png", 99_000_000],
            ["image/png", 100],
            ["audio/wav", 99_000_000],
          ] as const,
          ([type, length]) =>
            Effect.map(
              Effect.flip(send(uploadId, Stream.die("must not be read"), type, length)),
              (error) => error._tag,
            ),
        )
      const always = (tag: string) => [tag, tag, tag]
      const byHeaders = ["UnsupportedContentType", "UnsupportedContentType", "FileTooLarge"]
      assert.deepStrictEqual(yield* reasons(free.id), byHeaders)
      assert.deepStrictEqual(yield* reasons(running.id), always("UploadInProgress"))
      assert.deepStrictEqual(yield* reasons(used.id), always("UploadExpired"))
      assert.deepStrictEqual(yield* reasons(completed.id), always("UploadAlreadyCompleted"))
      assert.strictEqual((yield* uploads.findUpload(free.id))?.transfers, 0)
      yield* passTime("30 seconds")
      assert.deepStrictEqual(yield* reasons(running.id), byHeaders)
      yield* passTime("870 seconds")
      assert.deepStrictEqual(yield* reasons(late.id), always("UploadExpired"))
      assert.deepStrictEqual(yield* reasons(completed.id), always("UploadExpired"))
    }).pipe(within()),
  )

  for (const [where, skewMs] of [
    ["ahead of", 300_000],
    ["behind", -300_000],
  ] as const)
    it.effect(`a store whose clock is ${where} this process's decides whether a transfer is running`, () =>
      Effect.gen(function* () {
        const upload = yield* announce
        const uploads = yield* UploadStore
        yield* uploads.claimUpload({ uploadId: upload.id, leaseDurationMs: 30_000, maxTransfers: 5 })
        yield* passTime("29999 millis")
        for (const type of ["audio/wav", "image/png"])
          assert.strictEqual(
            (yield* Effect.flip(send(upload.id, Stream.succeed(wav(100)), type)))._tag,
            "UploadInProgress",
          )
        yield* passTime("1 millis")
        yield* send(upload.id, Stream.succeed(wav(100)))
        assert.strictEqual((yield* fileOf(upload.id))?.bytes, 100)
      }).pipe(within({ stores: withClock(skewMs) })),
    )

  it.effect("a store that is briefly unavailable at the end does not fail the transfer", () => {
    const fail = insteadOfFirst(Effect.fail(storeDown))
    const stores = storesWith(UploadStore, (store) => ({ completeUpload: (file) => fail(store.completeUpload(file)) }))
    return Effect.gen(function* () {
      const upload = yield* announce
      yield* inTime(send(upload.id, Stream.succeed(wav(100))), "10 seconds")
      assert.strictEqual((yield* fileOf(upload.id))?.bytes, 100)
    }).pipe(within({ stores }))
  })

  it.effect("a transfer that was committed succeeds even if the response was lost", () => {
    const lose = insteadOfFirst(Effect.fail(storeDown))
    const stores = storesWith(UploadStore, (store) => ({
      completeUpload: (file) => Effect.flatMap(store.completeUpload(file), (outcome) => lose(Effect.succeed(outcome))),
    }))
    return Effect.gen(function* () {
      const upload = yield* announce
      yield* inTime(send(upload.id, Stream.succeed(wav(100))), "10 seconds")
      assert.strictEqual((yield* fileOf(upload.id))?.bytes, 100)
      assert.strictEqual((yield* stored).length, 1)
    }).pipe(within({ stores }))
  })

  it.effect("a transfer that was committed keeps its blob even if no response ever arrives", () => {
    const stores = storesWith(UploadStore, (store) => ({
      completeUpload: (file) => Effect.andThen(store.completeUpload(file), Effect.fail(storeDown)),
    }))
    return Effect.gen(function* () {
      const upload = yield* announce
      const failed = yield* inTime(Effect.flip(send(upload.id, Stream.succeed(wav(100)))), "1 minutes")
      assert.strictEqual(failed._tag, "StoreUnavailable")
      assert.deepStrictEqual([...(yield* stored)], [(yield* fileOf(upload.id))?.blobKey])
    }).pipe(within({ stores }))
  })
})
