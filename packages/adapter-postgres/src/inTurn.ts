import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"

interface Turn {
  readonly semaphore: Semaphore.Semaphore
  users: number
}

/** Of this process, as long as somebody stands in line. */
const turns = new Map<unknown, Turn>()

/** One after the other of all that bear the same name. */
export const inTurn = <A, E>(name: unknown, work: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.suspend(() => {
    const turn = turns.get(name) ?? { semaphore: Semaphore.makeUnsafe(1), users: 0 }
    turns.set(name, turn)
    turn.users += 1
    return Effect.ensuring(
      turn.semaphore.withPermit(work),
      Effect.sync(() => {
        turn.users -= 1
        if (turn.users === 0) turns.delete(name)
      }),
    )
  })
