import { mkdir, readdir } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import { BlobUnavailable } from "@kiln/core/domain"
import * as Effect from "effect/Effect"
import { BlobRoot } from "./BlobRoot.ts"
import { DirectorySyncs, syncDirectory } from "./DirectorySyncs.ts"
import { SharedRuns } from "./SharedRuns.ts"
import { DIRECTORY_MODE, hasCode } from "./system.ts"

/** The directories of one store, and its state in this process. */
export interface BlobDirectory {
  /** Holds the files of blobs; see `layout.ts`. */
  readonly blobs: string
  /** Holds files that are being written. On the same file system, because the rename must be atomic. */
  readonly temporary: string
  readonly root: BlobRoot
  /** Checks that `root` is present. Concurrent puts share a check. */
  readonly presence: SharedRuns<void>
  readonly syncs: DirectorySyncs
  /** Reads the names in a directory. Concurrent removals share a scan. */
  readonly scans: SharedRuns<ReadonlyArray<string>>
  /** Names of files in `temporary` that this process is writing. */
  readonly writing: Set<string>
  /** Time of the last scan of `temporary`, in Unix milliseconds. */
  lookedThroughAt: number
}

export const openBlobDirectory = Effect.fnUntraced(function* (
  path: string,
): Effect.fn.Return<BlobDirectory, BlobUnavailable> {
  const base = resolve(path)
  const blobs = join(base, "blobs")
  const temporary = join(base, "tmp")
  return yield* Effect.tryPromise({
    try: async () => {
      const created = await mkdir(blobs, { recursive: true, mode: DIRECTORY_MODE })
      await mkdir(temporary, { recursive: true, mode: DIRECTORY_MODE })
      await syncUpwards(blobs, dirname(created ?? base))
      const root = await BlobRoot.open(blobs, base)
      return {
        blobs,
        temporary,
        root,
        presence: new SharedRuns(() => root.expectPresent()),
        syncs: new DirectorySyncs(blobs),
        scans: new SharedRuns(namesIn),
        writing: new Set<string>(),
        lookedThroughAt: -Infinity,
      }
    },
    catch: (cause) => new BlobUnavailable({ operation: "start", cause }),
  })
})

/** Returns the names in a directory; none if it does not exist. */
const namesIn = (path: string): Promise<ReadonlyArray<string>> =>
  readdir(path).catch((error: unknown) => {
    if (hasCode(error, "ENOENT")) return []
    throw error
  })

/** Syncs the directories above one that was just created: its entry and those of the directories below must survive a power failure. */
const syncUpwards = async (from: string, top: string): Promise<void> => {
  for (let path = from; ; path = dirname(path)) {
    try {
      await syncDirectory(path)
    } catch (error) {
      // Only a foreign directory above ours can be unreadable, and in that case nothing was created in it.
      if (path !== top || !hasCode(error, "EACCES", "EPERM")) throw error
    }
    if (path === top) return
  }
}

/** Runs file system calls. Their errors become `BlobUnavailable`, explained. Interruption stops only the wait, not the system call. */
export const attempt = <A>(
  { root }: Pick<BlobDirectory, "root">,
  operation: string,
  run: () => Promise<A>,
): Effect.Effect<A, BlobUnavailable> =>
  Effect.tryPromise({
    try: () =>
      run().catch(async (error: unknown) => {
        throw await root.explain(error)
      }),
    catch: (cause) => new BlobUnavailable({ operation, cause }),
  })
