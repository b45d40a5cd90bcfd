import { Effect, type Scope } from "effect"
import type { KeyId } from "@kiln/core/domain"
import { KeyDirectory } from "@kiln/core/ports"

/** A key's last use is noted at most this often, in milliseconds. */
const precisionMs = 60_000
const flushIntervalMs = 10_000

/** Notes when keys are used, in batches and not to the second: it must cost requests nothing, and may be lost in a crash. */
export const trackKeyUses: Effect.Effect<(keyId: KeyId, now: number) => void, never, KeyDirectory | Scope.Scope> =
  Effect.gen(function* () {
    const directory = yield* KeyDirectory
    /** By key: the last use noted, or about to be. */
    const noted = new Map<KeyId, number>()
    const due = new Map<KeyId, number>()

    const flush = Effect.suspend(() => {
      const uses = [...due].map(([keyId, usedAt]) => ({ keyId, usedAt }))
      due.clear()
      return uses.length === 0
        ? Effect.void
        : Effect.catchCause(directory.touchKeys(uses), (cause) => Effect.logDebug("key uses not noted", cause))
    })
    const forget = (now: number) => {
      for (const [keyId, at] of noted) if (Math.abs(now - at) >= precisionMs) noted.delete(keyId)
    }
    yield* Effect.addFinalizer(() => flush)
    yield* Effect.forkScoped(
      Effect.gen(function* () {
        while (true) {
          yield* Effect.sleep(flushIntervalMs)
          yield* flush
          yield* Effect.clockWith((clock) => Effect.sync(() => forget(clock.currentTimeMillisUnsafe())))
        }
      }),
    )

    return (keyId, now) => {
      const last = noted.get(keyId)
      if (last !== undefined && Math.abs(now - last) < precisionMs) return
      noted.set(keyId, now)
      due.set(keyId, now)
    }
  })
