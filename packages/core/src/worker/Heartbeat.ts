import * as Effect from "effect/Effect"
import { monotonicMs } from "../domain/monotonicMs.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { JobStore } from "../ports/index.ts"
import type { HeldLease } from "./HeldLease.ts"

/**
 * Extends all leases of a worker in one call, every third of a lease. A lease the store does not
 * extend is lost and its attempt ends; a store that is out of reach extends nothing, and each
 * attempt ends by its own clock before its lease does.
 *
 * A beat does not wait for the one before it: an answer that is long in coming would hold up the
 * leases of jobs that were claimed since.
 */
export const heartbeat: (leases: ReadonlySet<HeldLease>) => Effect.Effect<never, never, JobStore> = Effect.fnUntraced(
  function* (leases) {
    const { leaseDurationMs } = yield* EngineConfig
    while (true) {
      yield* Effect.sleep(leaseDurationMs / 3)
      // Whatever went wrong with one beat, the next must come: without it every job would be lost.
      const beating = Effect.catchCause(beat([...leases], leaseDurationMs), (cause) =>
        Effect.logWarning("heartbeat failed", cause),
      )
      // An answer that takes longer than a lease extends only leases that are over.
      yield* Effect.forkChild(Effect.timeoutOption(beating, leaseDurationMs))
    }
  },
)

const beat = Effect.fnUntraced(function* (held: ReadonlyArray<HeldLease>, leaseDurationMs: number) {
  const store = yield* JobStore
  const askedAtMs = yield* monotonicMs
  // A lease whose time is up stays lost, also if this process stood still and nobody has taken the job over yet.
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
 * While jobs are claimed, asks whether their claims still hold. A heartbeat asks too, but only every third of a lease:
 * an operator who cancels a job means now, wherever it runs. A store that does not answer says nothing.
 */
export const checkClaims: (leases: ReadonlySet<HeldLease>) => Effect.Effect<never, never, JobStore> = Effect.fnUntraced(
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
