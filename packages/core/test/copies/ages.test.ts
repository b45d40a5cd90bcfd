import { assert, describe, it } from "@effect/vitest"
import type { EngineSettings } from "@kiln/core/effect"
import { Effect, Random, References } from "effect"
import { TestClock } from "effect/testing"
import { type Copy, days, hours, minutes, namedBy, Place, pass, settings } from "./support/Place.ts"

/** The original looks seldom enough that the copy's first prune comes before it, and the copy is on its own for a while. */
const pace = { blobWatchIntervalMs: 10 * minutes, pruneIntervalMs: 30_000, idlePruneIntervalMs: 1 * minutes }

/** Files that the first copy's records name and that are not there. */
const lostToOriginal = (place: Place) =>
  Effect.map(place.stored, (stored) => namedBy(place.copies[0]!).filter((key) => !stored.has(key)))

/** As if the original had not published yet how long it keeps jobs: its rule would be in force in the copied records, too. */
const forgetRules = (copy: Copy): void => {
  copy.text = JSON.stringify({ ...(JSON.parse(copy.text ?? "{}") as object), retentionRules: [] })
}

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
        forgetRules(clone)
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

describe("an embedded engine on a copy, beside the original", () => {
  const joint = (place: Place) => {
    const [original] = place.copies
    assert.isDefined(original)
    return Effect.gen(function* () {
      yield* place.start(original)
      yield* pass(30 * hours)
      const clone = place.backUp(original)
      // It has no entry in the blob store until it finds out that it is behind.
      yield* pass(2 * hours)
      yield* place.start(clone, true)
      yield* pass(2 * hours)
      return { original, clone }
    })
  }
  /** The original has newer records than the file, and vouches for their time. */
  const outlives = Effect.fnUntraced(function* (place: Place, original: Copy, key: string) {
    yield* pass(30 * hours)
    yield* place.job(original, key)
    for (let n = 0; n < 60; n++) yield* pass(1 * hours)
  })

  it.live("keeps its files", () =>
    inPlace(
      Effect.fnUntraced(function* (place) {
        const { clone, original } = yield* joint(place)
        yield* place.job(clone, "by the copy")
        yield* outlives(place, original, "by the original")
        assert.strictEqual(namedBy(clone).length, 1)
        assert.deepStrictEqual(yield* place.lost, [])
      }),
    ),
  )

  it.live("keeps its files after an operator has adopted the original without stopping the copy", () =>
    inPlace(
      Effect.fnUntraced(function* (place) {
        const { clone, original } = yield* joint(place)
        yield* place.stop(original)
        yield* place.adopt(original)
        assert.isTrue(yield* place.start(original))
        yield* pass(30 * hours)
        yield* place.job(clone, "by the copy")
        yield* outlives(place, original, "by the original")
        assert.strictEqual(namedBy(clone).length, 1)
        assert.deepStrictEqual(yield* place.lost, [])
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
