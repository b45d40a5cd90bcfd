import { Effect } from "effect"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { JobStore } from "../ports/index.ts"
import type { HeldLease } from "./HeldLease.ts"

/**
 * Asks, while there are jobs in hand, whether their claims still hold. A heartbeat asks too, but only every third of a lease:
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
