import * as Effect from "effect/Effect"
import { monotonicMs } from "../../domain/monotonicMs.ts"
import { EngineConfig } from "../../engine/EngineConfig.ts"
import { JobStore } from "../../ports/index.ts"
import type { Bag } from "../Bag.ts"
import type { HeldLease } from "./HeldLease.ts"

/**
 * Extends all leases of a worker in one call, every third of a lease. If the store refuses to extend a lease, the lease is lost
 * and its attempt ends. While the store is unavailable, nothing is extended, and each attempt ends by the worker's own clock
 * before its lease does.
 *
 * A heartbeat does not wait for the previous one, because a slow answer would delay the leases of jobs claimed since.
 */
export const heartbeat: (leases: Bag<HeldLease>) => Effect.Effect<never, never, JobStore> = Effect.fnUntraced(
  function* (leases) {
    const { leaseDurationMs } = yield* EngineConfig
    while (true) {
      yield* Effect.sleep(leaseDurationMs / 3)
      // After any failure, the next heartbeat must still follow; otherwise all jobs would be lost.
      const beating = Effect.catchCause(beat([...leases], leaseDurationMs), (cause) =>
        Effect.logWarning("heartbeat failed", cause),
      )
      // An answer that takes longer than a lease can only extend leases that have already ended.
      yield* Effect.forkChild(Effect.timeoutOption(beating, leaseDurationMs))
    }
  },
)

const beat = Effect.fnUntraced(function* (held: ReadonlyArray<HeldLease>, leaseDurationMs: number) {
  const store = yield* JobStore
  const askedAtMs = yield* monotonicMs
  // A lease that ended stays lost, even if this process was frozen and no other worker has taken the job over yet.
  const leases = held.filter((lease) => lease.holdsAt(askedAtMs))
  if (leases.length === 0) return
  const outcomes = yield* store.extendLeases(leases.map(({ jobId, token }) => ({ jobId, token, leaseDurationMs })))
  for (const [index, lease] of leases.entries()) {
    const outcome = outcomes[index]
    if (outcome?._tag === "Extended") lease.renew(askedAtMs, outcome.leaseRemainingMs)
    else lease.lose()
  }
})

/**
 * Checks regularly whether the claims of this worker still hold, so that a canceled job stops soon in any process. Heartbeats
 * check too, but only every third of a lease. If the store does not answer, all claims are assumed to hold.
 */
export const checkClaims: (leases: Bag<HeldLease>) => Effect.Effect<never, never, JobStore> = Effect.fnUntraced(
  function* (leases) {
    const { claimCheckIntervalMs } = yield* EngineConfig
    const store = yield* JobStore
    while (true) {
      yield* Effect.sleep(claimCheckIntervalMs)
      const asked = [...leases]
      if (asked.length === 0) continue
      const holds = yield* store.checkClaims(asked.map(({ jobId, token }) => ({ jobId, token }))).pipe(
        Effect.timeoutOption(claimCheckIntervalMs),
        Effect.map((answer) => (answer._tag === "Some" ? answer.value : [])),
        Effect.catchCause(() => Effect.succeed([])),
      )
      for (const [index, lease] of asked.entries()) if (holds[index] === false) lease.lose()
    }
  },
)
