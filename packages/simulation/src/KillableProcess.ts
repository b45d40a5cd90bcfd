import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { Dice } from "./Dice.ts"

type Through = <A, E, R>(verb: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** A process whose calls of the store may kill it. */
export class KillableProcess {
  readonly #killed = Deferred.makeUnsafe<void>()
  #isDead = false
  #frozenUntil = 0

  get isDead(): boolean {
    return this.#isDead
  }

  /** Waits until the process was killed. */
  get killed(): Effect.Effect<void> {
    return Deferred.await(this.#killed)
  }

  /**
   * The stores as this process reaches them: killed at random, before and after each call. `frozenMs`: the longest time for which
   * the process may stand still before a call reaches the store; never by default.
   */
  stores(
    stores: Context.Context<never>,
    dice: Dice,
    { chance, frozenMs = 0 }: { readonly chance: number; readonly frozenMs?: number },
    atStore: Through,
  ): Context.Context<never> {
    const through: Through = (verb) =>
      Effect.gen({ self: this }, function* () {
        if (frozenMs > 0 && dice.chance(chance))
          this.#frozenUntil = (yield* Clock.currentTimeMillis) + dice.between(Math.ceil(frozenMs / 3), frozenMs)
        yield* this.#thawed
        for (let turns = dice.between(0, 3); turns > 0; turns--) yield* Effect.yieldNow
        if (this.#isDead || dice.chance(chance)) return yield* this.die
        const answer = yield* atStore(verb)
        return this.#isDead || dice.chance(chance) ? yield* this.die : answer
      })
    return withVerbs(stores, through)
  }

  /** Waits while the process stands still. */
  get #thawed(): Effect.Effect<void> {
    return Effect.clockWith((clock) => {
      const leftMs = this.#frozenUntil - clock.currentTimeMillisUnsafe()
      return leftMs > 0 ? Effect.sleep(leftMs) : Effect.void
    })
  }

  /** Ends the process: nothing of it goes on. */
  get die(): Effect.Effect<never> {
    return Effect.suspend(() => {
      this.#isDead = true
      Deferred.doneUnsafe(this.#killed, Effect.void)
      return Effect.never
    })
  }
}

/** The stores, with every verb through a function. */
const withVerbs = (stores: Context.Context<never>, through: Through): Context.Context<never> => {
  const services = [...stores.mapUnsafe].map(([key, service]) => {
    if (!key.startsWith("@kiln/core/ports/")) return [key, service] as const
    const members = Object.entries(service as object).map(([name, member]: [string, unknown]) => {
      if (Effect.isEffect(member)) return [name, through(member)] as const
      if (typeof member !== "function") return [name, member] as const
      const verb = member as (...input: ReadonlyArray<unknown>) => Effect.Effect<unknown, unknown>
      return [name, (...input: ReadonlyArray<unknown>) => through(verb(...input))] as const
    })
    return [key, Object.fromEntries(members)] as const
  })
  return Context.makeUnsafe(new Map<string, unknown>(services))
}
