import { assert, describe, it } from "@effect/vitest"
import type { EngineSettings } from "@kiln/core/effect"
import { Effect, Random, References } from "effect"
import { TestClock } from "effect/testing"
import { days, hours, minutes, namedBy, Place, pass, settings } from "./support/Place.ts"

/** The original looks seldom enough that the copy's first prune comes before it, and the copy is on its own for a while. */
const pace = { blobWatchIntervalMs: 10 * minutes, pruneIntervalMs: 30_000, idlePruneIntervalMs: 1 * minutes }

/** Files that the first copy's records name and that are not there. */
const lostToOriginal = (place: Place) =>
  Effect.map(place.stored, (stored) => namedBy(place.copies[0]!).filter((key) => !stored.has(key)))

const inPlace = <A>(story: (place: Place) => Effect.Effect<A>) =>
  Effect.gen(function* () {
    yield* TestClock.setTime(Date.parse("2026-01-01T00:00:00Z"))
    yield* story(yield* Place.make)
  }).pipe(
    Random.withSeed(1),
    Effect.scoped,
    Effect.provide(TestClock.layer()),
    Effect.provideService(References.MinimumLogLevel, "None"),
  )

describe("a fresh copy of a running installation", () => {
  const retained = (embedded: boolean) =>
    inPlace(
      Effect.fnUntraced(function* (place) {
        const [original] = place.copies
        assert.isDefined(original)
        yield* place.start(original, false, pace)
        for (let n = 0; n < 5; n++) yield* place.job(original, `key ${n}`)
        yield* pass(3 * days)
        const clone = place.backUp(original)
        yield* pass(1 * minutes)
        assert.isTrue(yield* place.start(clone, embedded, { ...pace, dataRetentionMs: 1 * days }))
        yield* pass(1 * minutes)
        assert.deepStrictEqual(namedBy(clone), [])
        for (let n = 0; n < 12; n++) yield* pass(5 * minutes)
        assert.strictEqual(namedBy(original).length, 5)
        assert.deepStrictEqual(yield* lostToOriginal(place), [])
      }),
    )

  it.live("removes no file of the original that is past the copy's retention", () => retained(false))

  it.live("removes no such file in an embedded engine either", () => retained(true))

  it.live("removes no upload that a job of the original has used since", () =>
    inPlace(
      Effect.fnUntraced(function* (place) {
        const same: Partial<EngineSettings> = { ...pace, upload: { ...settings.upload, usableForMs: 24 * hours } }
        const [original] = place.copies
        assert.isDefined(original)
        yield* place.start(original, false, same)
        const uploadId = yield* place.upload(original)
        yield* pass(24 * hours - 2 * minutes)
        const clone = place.backUp(original)
        yield* place.take(original, uploadId)
        yield* pass(2 * minutes + 1_000)
        assert.isTrue(yield* place.start(clone, false, same))
        yield* pass(1 * minutes)
        assert.deepStrictEqual(namedBy(clone), [])
        for (let n = 0; n < 12; n++) yield* pass(5 * minutes)
        assert.strictEqual(namedBy(original).length, 1)
        assert.deepStrictEqual(yield* lostToOriginal(place), [])
      }),
    ),
  )
})

describe("an installation that starts with its own blobs", () => {
  it.live("makes expired data unreachable immediately and removes it after the grace period", () =>
    inPlace(
      Effect.fnUntraced(function* (place) {
        const [original] = place.copies
        assert.isDefined(original)
        yield* place.start(original, false, pace)
        yield* place.job(original, "key")
        yield* place.stop(original)
        yield* pass(3 * days)
        yield* place.start(original, false, { ...pace, dataRetentionMs: 1 * days })
        yield* pass(1 * minutes)
        assert.deepStrictEqual(namedBy(original), [])
        assert.strictEqual((yield* place.stored).size, 1)
        for (let n = 0; n < 8; n++) yield* pass(5 * minutes)
        assert.strictEqual((yield* place.stored).size, 0)
      }),
    ),
  )
})
