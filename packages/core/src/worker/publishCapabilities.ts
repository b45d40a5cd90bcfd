import { Effect } from "effect"
import { IdGenerator, Switchboard } from "../ports/index.ts"
import { firstPause } from "./growingPauses.ts"
import { liveKinds } from "./runnableKinds.ts"

const intervalMs = 20_000
/** Long enough to outlive two lost publications. */
const ttlMs = 3 * intervalMs

/** Says in the store, at once and again and again, which kinds this worker can serve live; takes it back when it stops. */
export const publishCapabilities = Effect.gen(function* () {
  const switchboard = yield* Switchboard
  const kinds = yield* liveKinds
  // Who serves nothing live has nothing to say, and need not say it again and again.
  if (kinds.length === 0) return
  const workerId = yield* (yield* IdGenerator).next("req")
  const publish = (ttl: number) =>
    Effect.catchCause(switchboard.publishWorker({ workerId, liveKinds: kinds, ttlMs: ttl }), (cause) =>
      Effect.logWarning("publishing failed", cause),
    )
  const again = Effect.andThen(
    Effect.flatMap(firstPause(intervalMs), Effect.sleep),
    Effect.forever(Effect.andThen(publish(ttlMs), Effect.sleep(intervalMs))),
  )
  // The first time before anything else, so that a live job can be accepted as soon as the worker is there.
  yield* Effect.acquireRelease(publish(ttlMs), () => publish(0))
  yield* Effect.forkScoped(again)
})
