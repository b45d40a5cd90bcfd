import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Engine } from "@kiln/core/effect"
import type { Principal } from "@kiln/core/domain"

/** Maximum number of requests of one key, and of all keys, that wait for the end of a job in this process. */
const mostOfKey = 2_000
const mostOfProcess = 10_000

/** Requests that wait for the end of a job, woken as `engine.wait` is. Their number is bounded. */
export interface JobWaits {
  /**
   * Waits until the job has ended, the time is over or the process shuts down. Returns false at once, without a wait, if too many
   * requests wait already, or the process is shutting down. A client that disconnects ends the wait.
   */
  readonly waitForEnd: (principal: Principal, jobId: string, forMs: number) => Effect.Effect<boolean>
  /** Whether one more request of this key may wait. */
  readonly hasRoom: (principal: Principal) => boolean
  /** Counts a stream as a request that waits while it runs, and ends it when the process shuts down. */
  readonly streaming: <A>(principal: Principal, stream: Stream.Stream<A, unknown>) => Stream.Stream<A, unknown>
}

export const makeJobWaits = (
  engine: Pick<Engine["Service"], "waitForJob">,
  readiness: { readonly stopping: Effect.Effect<void>; readonly isStopping: () => boolean },
): JobWaits => {
  const byKey = new Map<string, number>()
  let all = 0
  const leave = (keyId: string): void => {
    all -= 1
    const left = (byKey.get(keyId) ?? 1) - 1
    if (left === 0) byKey.delete(keyId)
    else byKey.set(keyId, left)
  }
  const enter = (keyId: string): void => {
    all += 1
    byKey.set(keyId, (byKey.get(keyId) ?? 0) + 1)
  }
  const hasRoom = ({ keyId }: Principal): boolean =>
    !readiness.isStopping() && all < mostOfProcess && (byKey.get(keyId) ?? 0) < mostOfKey
  return {
    hasRoom,
    streaming: ({ keyId }, stream) => {
      const place = Effect.acquireRelease(
        Effect.sync(() => enter(keyId)),
        () => Effect.sync(() => leave(keyId)),
      )
      return Stream.unwrap(Effect.as(place, Stream.interruptWhen(stream, readiness.stopping)))
    },
    waitForEnd: (principal, jobId, forMs) =>
      Effect.suspend(() => {
        const { keyId } = principal
        if (!hasRoom(principal)) return Effect.succeed(false)
        enter(keyId)
        // The caller reads the job again, whatever ended the wait.
        const ended = Effect.ignore(engine.waitForJob(principal, jobId, forMs))
        return Effect.interruptible(Effect.raceFirst(ended, readiness.stopping)).pipe(
          Effect.ensuring(Effect.sync(() => leave(keyId))),
          Effect.as(true),
        )
      }),
  }
}
