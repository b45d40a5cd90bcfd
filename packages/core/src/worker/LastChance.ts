import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { Job } from "../domain/index.ts"
import { monotonicMs } from "../domain/monotonicMs.ts"

/**
 * Whether the next lost worker ends the job. A worker that dies or stands still takes all its attempts along, and nothing says
 * which of them was the reason. Two losses may be the fault of neighbors, so the last attempt begins without any.
 */
export const isLastChance = ({ lostWorkers }: Pick<Job, "lostWorkers">, maxLostWorkers: number): boolean =>
  lostWorkers > 0 && lostWorkers + 1 >= maxLostWorkers

/** Leases that a job waits at most for the attempts beside it to end. It waits under its own lease. */
const leasesOfWaiting = 1
/** Leases from its start during which the worker starts nothing beside it: what blocks or kills again at once shows it by then. */
const leasesAlone = 2

/** Of a lease, how long after a job that began alone others are claimed before the next one is. */
const shareOfRest = 1 / 6
/** Of a lease, for how long at least a job that cannot begin alone now is given back. */
const shareOfDelay = 1 / 3

/** How the work of one attempt gets to run. */
export interface Turn {
  readonly take: <A, E, R>(work: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Whether no other attempt has run beside this one since it began. Known only of those that were to begin alone. */
  readonly isAlone: () => boolean
}

/** The turn of an attempt that begins alone. */
export interface LoneTurn extends Turn {
  /** When the job was claimed, in milliseconds of the monotonic clock. */
  readonly takenAtMs: number
  /** Until when the worker claims nothing beside it, milliseconds by the monotonic clock. Once the work begins it may come earlier. */
  readonly aloneUntilMs: () => number
}

/** The attempts that run in one process: side by side, or one of them alone for a while. */
export const makeCompany = (leaseDurationMs: number) => {
  let running = 0
  let begun = 0
  let quiet = Deferred.makeUnsafe<void>()
  const lone = new Set<LoneTurn>()
  let loneEndedAtMs = -Infinity

  const longest = (least: number, of: (turn: LoneTurn) => number) =>
    [...lone].reduce((most, turn) => Math.max(most, of(turn)), least)

  const beside: Turn["take"] = (work) =>
    Effect.suspend(() => {
      running += 1
      begun += 1
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
     * Waits up to a lease until no other attempt runs, and then has the worker to itself for two leases, or until it ends. So
     * other jobs wait for it for three leases at most, however long it runs.
     *
     * The price: a job that kills or blocks its worker later than that, or beside an attempt that ran on, takes its neighbors
     * along. Each of them loses one of its workers. An innocent job on its last chance may then fail with it, but only as the
     * neighbor of an attempt that had not lost as many: a worker never has two jobs on their last chance at work.
     */
    alone: (takenAtMs: number): LoneTurn => {
      let aloneUntilMs = takenAtMs + (leasesOfWaiting + leasesAlone) * leaseDurationMs
      let beganAs: number | undefined
      const turn: LoneTurn = {
        takenAtMs,
        aloneUntilMs: () => aloneUntilMs,
        isAlone: () => beganAs === begun,
        take: (work) =>
          Effect.gen(function* () {
            yield* Effect.timeoutOption(untilQuiet, leasesOfWaiting * leaseDurationMs)
            aloneUntilMs = Math.min(aloneUntilMs, (yield* monotonicMs) + leasesAlone * leaseDurationMs)
            beganAs = running === 0 ? begun + 1 : undefined
            return yield* beside(work)
          }),
      }
      lone.add(turn)
      return turn
    },
    /** Says that the attempt of a turn has ended. */
    leaves: (turn: LoneTurn, nowMs: number): void => {
      if (lone.delete(turn)) loneEndedAtMs = nowMs
    },
    /** Milliseconds for which nothing is to be claimed, because a job begins alone; 0 where none does. */
    reservedMs: Effect.map(monotonicMs, (nowMs) => longest(0, (turn) => turn.aloneUntilMs() - nowMs)),
    /** Whether a job on its last chance may be claimed: one at a time, with other claims in between. */
    hasLoneTurn: Effect.map(
      monotonicMs,
      (nowMs) => lone.size === 0 && nowMs >= loneEndedAtMs + shareOfRest * leaseDurationMs,
    ),
    /**
     * Milliseconds for which a job on its last chance is given back that has no turn now. While another one has it, that is as
     * long again as that one has had it: each return costs a claim, and a long attempt must not cost a great many.
     */
    loneDelayMs: Effect.map(monotonicMs, (nowMs) =>
      Math.ceil(longest(shareOfDelay * leaseDurationMs, ({ takenAtMs }) => nowMs - takenAtMs)),
    ),
  }
}
