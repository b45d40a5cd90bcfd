import * as Effect from "effect/Effect"
import { monotonicMs } from "../domain/monotonicMs.ts"
import type { BlobStore } from "../ports/index.ts"

/** Bounds of the time that a completion waits for others, in milliseconds. In between, it is a quarter of what a file takes: more on a slow disk. */
const waitMs = { least: 1, most: 10 }

/**
 * The files that attempts of this process are writing to a blob store. A file takes several turns of the event loop, so jobs that began
 * together end a little apart, and each would have a commit to itself. Completions therefore wait for the writes in progress, briefly.
 */
class FilesInProgress {
  #count = 0
  /** Milliseconds that a file took lately. */
  #tookMs = 0
  readonly #waiting = new Set<() => void>()

  /** Runs an effect that writes a file. */
  readonly writing = <A, E, R>(write: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.acquireUseRelease(
      Effect.map(monotonicMs, (now) => {
        this.#count += 1
        return now
      }),
      () => write,
      (from) =>
        Effect.map(monotonicMs, (now) => {
          this.#tookMs += (now - from - this.#tookMs) / 16
          this.#ended()
        }),
    )

  #ended(): void {
    this.#count -= 1
    if (this.#count > 0) return
    for (const resume of this.#waiting) resume()
  }

  /** Waits until no file is being written, but not long. */
  readonly settle: Effect.Effect<void> = Effect.suspend(() => {
    if (this.#count === 0) return Effect.void
    const noneLeft = Effect.callback<void>((resume) => {
      const end = (): void => resume(Effect.void)
      this.#waiting.add(end)
      return Effect.sync(() => this.#waiting.delete(end))
    })
    return Effect.andThen(
      Effect.raceFirst(noneLeft, Effect.sleep(Math.min(Math.max(this.#tookMs / 4, waitMs.least), waitMs.most))),
      Effect.yieldNow,
    )
  })
}

const known = new WeakMap<object, FilesInProgress>()

/** The files in progress of a blob store, for all its users in this process. */
export const filesInProgress = (blobs: BlobStore["Service"]): FilesInProgress => {
  const files = known.get(blobs) ?? new FilesInProgress()
  known.set(blobs, files)
  return files
}
