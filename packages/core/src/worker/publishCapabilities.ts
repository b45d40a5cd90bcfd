import { Effect } from "effect"
import { IdGenerator, Switchboard } from "../ports/index.ts"
import { liveKinds } from "./runnableKinds.ts"

const intervalMs = 10_000
/** Long enough to outlive two lost publications. */
const ttlMs = 3 * intervalMs

/** Says in the store, again and again, which kinds this worker can serve live; takes it back when it stops. */
export const publishCapabilities = Effect.gen(function* () {
  const switchboard = yield* Switchboard
  const kinds = yield* liveKinds
  const workerId = yield* (yield* IdGenerator).next("req")
  const publish = (ttl: number) =>
    Effect.ignore(switchboard.publishWorker({ workerId, liveKinds: kinds, ttlMs: ttl }))
  const forever = Effect.gen(function* () {
    while (true) {
      yield* publish(ttlMs)
      yield* Effect.sleep(intervalMs)
    }
  })
  yield* Effect.ensuring(forever, publish(0))
})
