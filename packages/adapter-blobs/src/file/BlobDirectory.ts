import { mkdir } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import { BlobUnavailable } from "@kiln/core/domain"
import * as Effect from "effect/Effect"
import { BlobRoot } from "./BlobRoot.ts"
import { DIRECTORY_MODE, hasCode, syncDirectory } from "./system.ts"

/** The directories of one store, and its state in this process. */
export interface BlobDirectory {
  /** Holds `<key>.blob` files. Keys contain no dot, so a blob's file never collides with another blob's directory. */
  readonly blobs: string
  /** Holds files that are being written. On the same file system, because the rename must be atomic. */
  readonly temporary: string
  readonly root: BlobRoot
  /** Names of files in `temporary` that this process is writing. */
  readonly writing: Set<string>
  /** Time of the last scan of `temporary`, in Unix milliseconds. */
  lookedThroughAt: number
}

export const BLOB_SUFFIX = ".blob"

/** Returns the path of a blob's file. */
export const fileOf = (directory: BlobDirectory, key: string): string => join(directory.blobs, key + BLOB_SUFFIX)

/** Returns the path of the directory that holds the blobs under `prefix/`. */
export const directoryOf = (directory: BlobDirectory, prefix: string): string => join(directory.blobs, prefix)

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
      return {
        blobs,
        temporary,
        root: await BlobRoot.open(blobs, base),
        writing: new Set<string>(),
        lookedThroughAt: -Infinity,
      }
    },
    catch: (cause) => new BlobUnavailable({ operation: "start", cause }),
  })
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
