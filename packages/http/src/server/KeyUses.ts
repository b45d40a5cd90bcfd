import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { KeyId } from "@kiln/core/domain"
import { KeyDirectory } from "@kiln/core/ports"

/** Minimum interval between updates of a key's last use, in milliseconds. */
const precisionMs = 60_000
const flushIntervalMs = 10_000

/** Records the last use of keys in batches, approximately: it does not delay requests, and may be lost in a crash. */
export const trackKeyUses: Effect.Effect<(keyId: KeyId, now: number) => void, never, KeyDirectory | Scope.Scope> =
  Effect.gen(function* () {
    const directory = yield* KeyDirectory
    /** The last recorded or pending use, by key. */
    const noted = new Map<KeyId, number>()
    const due = new Map<KeyId, number>()

    const flush = Effect.suspend(() => {
      const uses = [...due].map(([keyId, usedAt]) => ({ keyId, usedAt }))
      due.clear()
      return uses.length === 0
        ? Effect.void
        : Effect.catchCause(directory.touchKeys(uses), (cause) =>
            Effect.logDebug("could not record the last use of keys", cause),
          )
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
