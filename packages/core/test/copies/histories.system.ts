import { assert, describe, it } from "@effect/vitest"
import { Effect, Random, References, Stream } from "effect"
import { TestClock } from "effect/testing"
import { type Copy, hours, minutes, Place, pass } from "./support/Place.ts"

const histories = 100
const steps = 25

const pick = <A>(items: ReadonlyArray<A>) => Effect.map(Random.nextIntBetween(0, items.length), (at) => items[at])

interface Seen {
  refused: number
  adopted: number
  /** Copies that were started while another one ran. */
  together: number
  embedded: number
}

/** One thing that a user, a crash or an operator does. */
const step = Effect.fnUntraced(function* (place: Place, n: number, seen: Seen) {
  const running = place.copies.filter(({ process }) => process !== undefined)
  const resting = place.copies.filter(({ process }) => process === undefined)
  const one = yield* pick(running)
  const another = yield* pick(resting)
  const chance = yield* Random.next
  if (chance < 0.25 && one !== undefined) return yield* place.job(one, `key ${n}`)
  if (chance < 0.35 && one !== undefined) return void (yield* place.upload(one))
  if (chance < 0.45) return place.backUp((yield* pick(place.copies)) ?? place.copies[0]!)
  if (chance < 0.55 && one !== undefined) return yield* place.stop(one)
  if (chance < 0.6) return yield* place.sweep(one ?? another ?? place.copies[0]!)
  if (chance < 0.65 && another !== undefined) {
    seen.embedded += 1
    yield* place.start(another, true)
    return
  }
  if (chance < 0.75 && another !== undefined) {
    if (yield* place.start(another)) seen.together += running.length
    else {
      seen.refused += 1
      // Some operators read the message and go on, with the other processes stopped or, wrongly, not.
      if ((yield* Random.next) < 0.3) {
        if ((yield* Random.next) < 0.7) for (const copy of running) yield* place.stop(copy)
        yield* place.adopt(another)
        seen.adopted += 1
        yield* place.start(another)
      }
    }
    return
  }
  return yield* pass((yield* pick([1_000, 5 * minutes, 2 * hours, 30 * hours])) ?? 0)
})

const history = (seed: number, seen: Seen) =>
  Effect.gen(function* () {
    yield* TestClock.setTime(Date.parse("2026-01-01T00:00:00Z"))
    const place = yield* Place.make
    assert.isTrue(yield* place.start(place.copies[0]!))
    for (let n = 0; n < steps; n++) {
      yield* step(place, n, seen)
      assert.deepStrictEqual(yield* place.lost, [], `history ${seed}, step ${n}`)
    }
    for (const copy of place.copies) yield* place.stop(copy)
    yield* endWell(place, place.copies.at(-1)!)
    assert.deepStrictEqual(yield* place.lost, [], `history ${seed}, in the end`)
  }).pipe(
    Random.withSeed(seed),
    Effect.scoped,
    Effect.provide(TestClock.layer()),
    Effect.provideService(References.MinimumLogLevel, "None"),
  )

/** In every case, the copy that an operator chooses continues, and the leftovers of its crashes are collected. */
const endWell = Effect.fnUntraced(function* (place: Place, copy: Copy) {
  yield* place.adopt(copy)
  assert.isTrue(yield* place.start(copy))
  // Leftovers of older jobs are kept: another copy may have used the same tokens.
  yield* pass(30 * hours)
  const id = yield* place.job(copy, "the last one")
  const leftover = `jobs/${id.slice(4)}/1/leftover`
  yield* place.blobs.put(leftover, Stream.succeed(new Uint8Array(1)), { maxBytes: 1 })
  yield* pass(3 * hours)
  assert.isFalse((yield* place.stored).has(leftover), "an orphan stays")
})

describe("copies of a database on the same blobs", { timeout: 300_000 }, () => {
  it.live(`no file that any copy's records name is lost, over ${histories} random histories`, () =>
    Effect.gen(function* () {
      const seen: Seen = { refused: 0, adopted: 0, together: 0, embedded: 0 }
      for (let seed = 1; seed <= histories; seed++) yield* history(seed, seen)
      // Else it would have shown nothing.
      for (const [what, count] of Object.entries(seen)) assert.isAbove(count, 10, what)
    }),
  )
})
