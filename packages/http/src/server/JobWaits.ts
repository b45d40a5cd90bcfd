import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Engine } from "@kiln/core/effect"
import type { JobId, Principal } from "@kiln/core/domain"
import type { Readiness } from "../Health.ts"

/** Maximum number of requests of one key, and of all keys, that wait for the end of a job in this process. */
const mostOfKey = 2_000
const mostOfProcess = 10_000

/** Requests that wait for the end of a job, woken as `engine.wait` is. Their number is bounded. */
export interface JobWaits {
  /**
   * Waits until the job, which must exist, has ended, the time is over or the process shuts down. Returns false at once, without a wait,
   * if too many requests wait already, or the process is shutting down. A client that disconnects ends the wait.
   */
  readonly waitForEnd: (principal: Principal, jobId: JobId, forMs: number) => Effect.Effect<boolean>
  /** The same in two steps: listens from now on, so that the caller can read the job, before it waits. Must be released. */
  readonly hold: (principal: Principal, jobId: JobId, forMs: number) => Hold
  /** Whether one more request of this key may wait. */
  readonly hasRoom: (principal: Principal) => boolean
  /** Counts a stream as a request that waits while it runs, and ends it when the process shuts down. */
  readonly streaming: <A>(principal: Principal, stream: Stream.Stream<A, unknown>) => Stream.Stream<A, unknown>
}

/** A request that listens for the end of a job. */
export interface Hold {
  /** Waits. False if it does not listen. */
  readonly ended: Effect.Effect<boolean>
  /** Listens no longer. Calling it again has no effect. */
  readonly release: () => void
}

const refused: Hold = { ended: Effect.succeed(false), release: () => {} }

export const makeJobWaits = (
  engine: Pick<Engine["Service"], "onJobEnd">,
  readiness: Pick<Readiness["Service"], "isStopping" | "onStopping">,
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
  const stopping = Effect.callback<void>((resume) => {
    if (readiness.isStopping()) return resume(Effect.void)
    return Effect.sync(readiness.onStopping(() => resume(Effect.void)))
  })
  const hold = (principal: Principal, jobId: JobId, forMs: number, isReadNext: boolean): Hold => {
    if (!hasRoom(principal)) return refused
    const { keyId } = principal
    enter(keyId)
    let isHeld = true
    const stops: Array<() => void> = []
    let wake = (): void => {}
    const release = (): void => {
      if (!isHeld) return
      isHeld = false
      for (const stop of stops) stop()
      leave(keyId)
    }
    // The caller reads the job again, whatever ended the wait.
    const end = (): void => {
      release()
      wake()
    }
    stops.push(readiness.onStopping(end))
    stops.push(engine.onJobEnd(jobId, forMs, end, isReadNext))
    const ended = Effect.callback<boolean>((resume) => {
      wake = () => resume(Effect.succeed(true))
      if (!isHeld) wake()
      return Effect.sync(release)
    })
    return { ended: Effect.interruptible(ended), release }
  }
  return {
    hasRoom,
    streaming: ({ keyId }, stream) => {
      const place = Effect.acquireRelease(
        Effect.sync(() => enter(keyId)),
        () => Effect.sync(() => leave(keyId)),
      )
      return Stream.unwrap(Effect.as(place, Stream.interruptWhen(stream, stopping)))
    },
    hold: (principal, jobId, forMs) => hold(principal, jobId, forMs, true),
    waitForEnd: (principal, jobId, forMs) =>
      Effect.suspend(() => {
        const held = hold(principal, jobId, forMs, false)
        return Effect.ensuring(held.ended, Effect.sync(held.release))
      }),
  }
}
