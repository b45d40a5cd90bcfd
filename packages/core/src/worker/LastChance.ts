import { Deferred, Effect, Option } from "effect"
import type { Job } from "../domain/index.ts"

/**
 * Whether the next lost worker ends the job. A worker that dies or stands still takes all its attempts along, and nothing says
 * which of them was the reason. Two losses may be the fault of neighbors; the last attempt is made without any.
 */
export const isLastChance = ({ lostWorkers }: Pick<Job, "lostWorkers">, maxLostWorkers: number): boolean =>
  lostWorkers > 0 && lostWorkers + 1 >= maxLostWorkers

/** Of its run limit, how long a job waits at most for the attempts beside it to end. It waits under its lease. */
const shareOfRunLimit = 1 / 10

/** How the work of one attempt gets to run. */
export interface Turn {
  readonly take: <A, E, R>(work: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Whether no other attempt ran when this one began. Known only of those that were to run alone. */
  readonly isAlone: () => boolean
}

/** The attempts that run in one process: side by side, or one of them alone. */
export const makeCompany = () => {
  let running = 0
  let quiet = Deferred.makeUnsafe<void>()

  const beside: Turn["take"] = (work) =>
    Effect.suspend(() => {
      running += 1
      return Effect.ensuring(
        work,
        Effect.sync(() => {
          running -= 1
          if (running > 0) return
          Deferred.doneUnsafe(quiet, Effect.void)
          quiet = Deferred.makeUnsafe<void>()
        }),
      )
    })

  const untilQuiet: Effect.Effect<void> = Effect.suspend(() => (running === 0 ? Effect.void : Deferred.await(quiet)))

  return {
    beside: { take: beside, isAlone: () => false } satisfies Turn,
    /**
     * Waits until no other attempt runs; the worker starts none meanwhile. Others that take too long are not waited for to
     * their end.
     */
    alone: ({ runLimitMs }: Pick<Job, "runLimitMs">): Turn => {
      let isAlone = false
      return {
        isAlone: () => isAlone,
        take: (work) =>
          Effect.flatMap(Effect.timeoutOption(untilQuiet, runLimitMs * shareOfRunLimit), (waited) => {
            isAlone = Option.isSome(waited)
            return beside(work)
          }),
      }
    },
  }
}
