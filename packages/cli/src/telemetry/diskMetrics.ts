import { statfs } from "node:fs/promises"
import * as Effect from "effect/Effect"
import { gauge } from "./series.ts"

const size = gauge("kiln_disk_size_bytes", "Size of the file system of a directory that kiln writes to", "directory")
const free = gauge(
  "kiln_disk_free_bytes",
  "Bytes that kiln may still write to the file system of a directory",
  "directory",
)

/** Milliseconds to wait for a file system, which may be on a network. */
const limitMs = 1_000

/** Returns the effect that reads the room on the disks of these directories. A disk that cannot be read keeps its last value. */
export const measureDisks = (directories: ReadonlyArray<string>): Effect.Effect<void> =>
  Effect.forEach(
    directories,
    (directory) =>
      Effect.tryPromise(() => statfs(directory)).pipe(
        Effect.map(({ bavail, blocks, bsize }) => {
          size.record([directory], blocks * bsize)
          free.record([directory], bavail * bsize)
        }),
        Effect.timeoutOption(limitMs),
        Effect.ignore,
      ),
    { concurrency: "unbounded", discard: true },
  )
