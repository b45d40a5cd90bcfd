import * as Effect from "effect/Effect"
import type { Engine } from "@kiln/core/effect"
import type { JobId, Principal } from "@kiln/core/domain"
import type { Readiness } from "../Health.ts"

/** Maximum number of requests of one key, and of all keys, that wait for the end of a job in this process. */
const mostOfKey = 2_000
const mostOfProcess = 10_000

/** Requests that wait for the end of a job, woken as `engine.wait` is. Their number is bounded. */
export interface JobWaits {
  /**
   * Waits until the job, which must exist, has ended, the time is over or the process shuts down. Returns false at once, without a wait, if too many
   * requests wait already, or the process is shutting down. A client that disconnects ends the wait.
   */
  readonly waitForEnd: (principal: Principal, jobId: JobId, forMs: number) => Effect.Effect<boolean>
}

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
  return {
    waitForEnd: ({ keyId }, jobId, forMs) =>
      Effect.interruptible(
        Effect.callback<boolean>((resume) => {
          const own = byKey.get(keyId) ?? 0
          if (readiness.isStopping() || all >= mostOfProcess || own >= mostOfKey) return resume(Effect.succeed(false))
          all += 1
          byKey.set(keyId, own + 1)
          const release = (): void => {
            stopWaiting()
            stopListening()
            leave(keyId)
          }
          // The caller reads the job again, whatever ended the wait.
          const end = (): void => {
            release()
            resume(Effect.succeed(true))
          }
          const stopWaiting = engine.onJobEnd(jobId, forMs, end)
          const stopListening = readiness.onStopping(end)
          return Effect.sync(release)
        }),
      ),
  }
}
