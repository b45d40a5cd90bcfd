import * as Effect from "effect/Effect"
import * as Random from "effect/Random"

/** Seeded chance. One stream of numbers for a whole run, so that a seed replays it exactly. */
export class Dice {
  /** The same stream as an Effect service, for code that draws for itself. */
  readonly random: { nextIntUnsafe(): number; nextDoubleUnsafe(): number }

  constructor(seed: number) {
    this.random = Effect.runSync(
      Random.withSeed(
        Effect.withFiber((fiber) => Effect.succeed(fiber.getRef(Random.Random))),
        seed,
      ),
    )
  }

  chance(probability: number): boolean {
    return probability > 0 && this.random.nextDoubleUnsafe() < probability
  }

  /** A whole number from `least` to `most`, both inclusive. */
  between(least: number, most: number): number {
    return least + Math.floor(this.random.nextDoubleUnsafe() * (most - least + 1))
  }

  pick<A>(list: readonly [A, ...ReadonlyArray<A>]): A {
    return list[this.between(0, list.length - 1)] ?? list[0]
  }

  /** One of a list that may be empty. */
  pickAny<A>(list: ReadonlyArray<A>): A | undefined {
    return list.length === 0 ? undefined : list[this.between(0, list.length - 1)]
  }

  shuffle<A>(list: Array<A>): Array<A> {
    for (let last = list.length - 1; last > 0; last--) {
      const other = this.between(0, last)
      const kept = list[last] as A
      list[last] = list[other] as A
      list[other] = kept
    }
    return list
  }
}
