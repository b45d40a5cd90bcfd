import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type { JobMode } from "../../domain/Access.ts"
import { monotonicMs } from "../../domain/monotonicMs.ts"
import type { EngineSettings } from "../../engine/EngineConfig.ts"
import { WakeUp } from "../../ports/index.ts"
import type { Attempt } from "../attempt/Attempt.ts"
import { checkClaims, heartbeat } from "../attempt/Heartbeat.ts"
import { allEnded, stopAll } from "../attempt/startAttempts.ts"
import type { Bag } from "../Bag.ts"
import { expireWhileHolding } from "../maintenance/Sweeper.ts"
import { makeOutageLog } from "../outageLog.ts"
import type { makeClaiming } from "./claiming.ts"
import type { makeIdling } from "./Idling.ts"
import { makeJointClaims } from "./JointClaims.ts"
import { watchWithheld } from "./recovery.ts"
import { isTight, roomAfter } from "./Room.ts"
import type { Slots } from "./Slots.ts"

/** The parts of a worker. */
interface Parts {
  readonly config: EngineSettings
  readonly slots: Slots
  readonly idling: Effect.Success<typeof makeIdling>
  readonly claiming: Effect.Success<ReturnType<typeof makeClaiming>>
  /** The modes in which it serves a kind. */
  readonly served: ReadonlyArray<JobMode>
}

/** Returns what a worker can do: one round, all that can run now, or all that comes. */
export const makeLoops = (parts: Parts) => ({
  tick: tick(parts),
  run: run(parts),
  runClaimable: (maxJobs: number, untilMs: number) => runClaimable(parts, maxJobs, untilMs),
})

const tick = ({ claiming, config, slots }: Parts) =>
  Effect.scoped(
    Effect.gen(function* () {
      // Started immediately, because an attempt may block the event loop first.
      yield* Effect.forkScoped(slots.watch.run, { startImmediately: true })
      yield* Effect.forkScoped(heartbeat(slots.watch.leases), { startImmediately: true })
      const { attempts } = yield* Effect.uninterruptible(
        Effect.tap(claiming.claim(config.concurrency), () => claiming.begin),
      )
      slots.batches.startAll()
      yield* Effect.onInterrupt(allEnded(attempts), () => stopAll(attempts))
      return attempts.length
    }),
  )

/** Watches over the attempts until the scope closes. Then, lets those that run finish for a while, and releases the rest. */
const attend = Effect.fnUntraced(function* ({ claiming, slots }: Parts, graceMs: Effect.Effect<number>) {
  const { leases } = slots.watch
  yield* Effect.forkScoped(slots.watch.run, { startImmediately: true })
  const beating = yield* Effect.forkScoped(heartbeat(leases), { startImmediately: true })
  yield* Effect.forkScoped(checkClaims(leases))
  yield* Effect.forkScoped(watchWithheld(slots))
  yield* Effect.forkScoped(expireWhileHolding(() => leases.size > 0))
  slots.batches.expectsMore = true
  yield* Effect.addFinalizer(() =>
    Effect.flatMap(
      Effect.andThen(claiming.begin, () => {
        slots.batches.expectsMore = false
        return graceMs
      }),
      (ms) => drain(slots.attempts, beating, ms),
    ),
  )
})

/** Looks at the slots before a claim. */
const look = ({ served, slots }: Parts) =>
  Effect.map(monotonicMs, (nowMs) => {
    const occupied = slots.occupied()
    const room = occupied.now()
    return {
      occupied,
      room,
      // Jobs that were committed together leave their slots together, so wait a turn: one claim then fills all of them.
      freed: Effect.andThen(slots.nextFreed(), Effect.yieldNow),
      isFull: served.every((mode) => room.free[mode] <= 0),
      reservedMs: slots.isolation.reservedMs(nowMs),
    }
  })

const run = (parts: Parts) =>
  Effect.scoped(
    Effect.gen(function* () {
      const { claiming, config, idling, slots } = parts
      yield* attend(
        parts,
        Effect.sync(() => config.drainMs),
      )
      const outage = makeOutageLog("claiming jobs")
      const joint = yield* makeJointClaims(slots, claiming.start, idling.nextClaimBy)
      const claimAndStart = Effect.gen(function* () {
        // Jobs of a joint claim that is still being answered also take slots.
        while (joint.isPending) yield* Effect.andThen(idling.awaitsJoint, joint.settled)
        const answer = joint.takeAnswer()
        const { freed, isFull, occupied, reservedMs, room } = yield* look(parts)
        if (isFull || reservedMs > 0) yield* claiming.begin
        if (isFull) return yield* joint.whileFull(freed)
        if (reservedMs > 0) return yield* Effect.raceFirst(freed, idling.holdBack(reservedMs))
        const { attempts, nextInMs } = answer ?? (yield* claiming.claim(room))
        yield* outage.worked
        if (attempts.length > 0) idling.reset()
        // If the store has more claimable jobs, claim again immediately.
        if (attempts.length > 0 && nextInMs === 0) return
        yield* claiming.begin
        const rest = idling.rest(nextInMs)
        // `nextInMs` does not cover jobs that only wait for this worker's own slots, as the store knew them: some may have become
        // free while it answered.
        const mayFree = isTight(roomAfter(occupied, attempts)) || isTight(slots.room())
        yield* joint.whileResting(rest, mayFree ? freed : undefined)
      })
      return yield* Effect.forever(
        // The loop must survive every failure; otherwise, the worker would look healthy and do nothing.
        Effect.catchCause(claimAndStart, (cause) => Effect.andThen(outage.failed(cause), idling.restAfterFailure)),
      )
    }),
  )

const runClaimable = (parts: Parts, maxJobs: number, untilMs: number) =>
  Effect.scoped(
    Effect.gen(function* () {
      const { claiming, config, idling, slots } = parts
      const leftMs = Effect.map(monotonicMs, (nowMs) => Math.max(0, Math.min(config.drainMs, untilMs - nowMs)))
      yield* attend(parts, leftMs)
      const outage = makeOutageLog("claiming jobs")
      let claimed = 0
      while (claimed < maxJobs) {
        const { freed, isFull, reservedMs, room } = yield* look(parts)
        // No job is submitted for a batch that waits: what can be claimed is.
        if (isFull) slots.batches.startAll()
        if (isFull) yield* freed
        else if (reservedMs > 0) yield* Effect.raceFirst(freed, idling.holdBack(reservedMs))
        else {
          const answer = yield* Effect.exit(claiming.claim(room, maxJobs - claimed))
          if (Exit.isSuccess(answer)) {
            const { attempts, nextInMs } = answer.value
            yield* Effect.andThen(outage.worked, claiming.begin)
            claimed += attempts.length
            if (attempts.length > 0) idling.reset()
            else if (slots.attempts.size === 0) return claimed
            // Other processes may submit jobs meanwhile.
            else {
              slots.batches.startAll()
              yield* Effect.raceFirst(freed, idling.rest(nextInMs))
            }
          } else if (slots.attempts.size === 0) return yield* Effect.failCause(answer.cause)
          // What runs goes on without the store, as long as its leases hold.
          else yield* Effect.andThen(outage.failed(answer.cause), Effect.raceFirst(freed, idling.restAfterFailure))
        }
      }
      slots.batches.expectsMore = false
      yield* allEnded(slots.attempts)
      return claimed
    }),
  )

/**
 * Lets running attempts finish for a while, and interrupts the rest. If a release fails, the job becomes claimable when its lease
 * ends, which nothing extends any more. Other workers are notified of released jobs; otherwise, they would find them only at
 * their next poll.
 */
const drain = Effect.fnUntraced(function* (attempts: Bag<Attempt>, beating: Fiber.Fiber<never>, drainMs: number) {
  yield* Effect.timeoutOption(Effect.interruptible(allEnded(attempts)), drainMs)
  yield* Fiber.interrupt(beating)
  const releases = attempts.size > 0
  yield* stopAll(attempts)
  if (releases) yield* Effect.flatMap(WakeUp, ({ notify }) => notify)
})
