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
  /** Waits. False if it does not listen. An interruption releases it. */
  readonly ended: Effect.Effect<boolean>
  /** Listens no longer. Calling it again has no effect. */
  readonly release: () => void
}

const hasEnded = Effect.succeed(true)
const refused: Hold = { ended: Effect.succeed(false), release: () => {} }

/** A hold in its place. Few objects, because there are thousands. */
class Place implements Hold {
  readonly keyId: string
  readonly #leave: (place: Place) => void
  #isHeld = true
  #stopListening: (() => void) | undefined = undefined
  #resume: ((ended: Effect.Effect<boolean>) => void) | undefined = undefined

  constructor(keyId: string, leave: (place: Place) => void) {
    this.keyId = keyId
    this.#leave = leave
  }

  /** @param listen calls its argument once, later, and not after the returned function was called */
  listen(listen: (end: () => void) => () => void): this {
    this.#stopListening = listen(() => this.end())
    return this
  }

  get ended(): Effect.Effect<boolean> {
    const waiting = Effect.callback<boolean>((resume) => {
      if (!this.#isHeld) return resume(hasEnded)
      this.#resume = resume
      return Effect.sync(() => this.release())
    })
    return Effect.interruptible(waiting)
  }

  release(): void {
    if (!this.#isHeld) return
    this.#isHeld = false
    this.#stopListening?.()
    this.#leave(this)
  }

  /** The caller reads the job again, whatever ended the wait. */
  end(): void {
    this.release()
    this.#resume?.(hasEnded)
  }
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
  const places = new Set<Place>()
  const vacate = (place: Place): void => {
    places.delete(place)
    leave(place.keyId)
  }
  readiness.onStopping(() => {
    for (const place of places) place.end()
  })
  const hold = (principal: Principal, jobId: JobId, forMs: number, isReadNext: boolean): Hold => {
    if (!hasRoom(principal)) return refused
    enter(principal.keyId)
    const place = new Place(principal.keyId, vacate)
    places.add(place)
    return place.listen((end) => engine.onJobEnd(jobId, forMs, end, isReadNext))
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
        return Effect.ensuring(
          held.ended,
          Effect.sync(() => held.release()),
        )
      }),
  }
}
