import * as Effect from "effect/Effect"
import type { BlobStore } from "../ports/index.ts"

/** Maximum time that a completion waits for others, in milliseconds. A file of a few kilobytes takes about as long to write. */
const longestWaitMs = 1

/**
 * The files that attempts of this process are writing to a blob store. A file takes several turns of the event loop, so jobs that began
 * together end a little apart, and each would have a commit to itself. Completions therefore wait for the writes in progress, briefly.
 */
class FilesInProgress {
  #count = 0
  readonly #waiting = new Set<() => void>()

  /** Runs an effect that writes a file. */
  readonly writing = <A, E, R>(write: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.suspend(() => {
      this.#count += 1
      return Effect.onExit(write, () => Effect.sync(() => this.#ended()))
    })

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
    return Effect.andThen(Effect.raceFirst(noneLeft, Effect.sleep(longestWaitMs)), Effect.yieldNow)
  })
}

const known = new WeakMap<object, FilesInProgress>()

/** The files in progress of a blob store, for all its users in this process. */
export const filesInProgress = (blobs: BlobStore["Service"]): FilesInProgress => {
  const files = known.get(blobs) ?? new FilesInProgress()
  known.set(blobs, files)
  return files
}
