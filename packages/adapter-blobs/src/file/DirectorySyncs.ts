import { fstatSync } from "node:fs"
import { open } from "node:fs/promises"
import { dirname } from "node:path"
import { hasCode } from "./system.ts"
import { SharedRuns } from "./SharedRuns.ts"

/** Tells a directory from another one that takes its place. */
type Identity = string

/** Syncs directories of one store. Callers share syncs. */
export class DirectorySyncs {
  /** The directory that is always there; its own entry is durable. */
  readonly #top: string
  readonly #syncs = new SharedRuns(syncDirectory)
  /** Directories whose own entries, up to `#top`, are durable. */
  readonly #durable = new Map<string, Identity>()

  constructor(top: string) {
    this.#top = top
  }

  /** Makes the entries of a directory durable. */
  async sync(path: string): Promise<void> {
    await this.#syncs.of(path)
  }

  /**
   * Makes the entries of a directory durable, and the directory itself: also if another process created it, which may not have synced
   * it yet. Later calls sync the directory only. `verify` runs before a directory counts as durable.
   */
  async syncWithPath(path: string, verify: () => Promise<void>): Promise<void> {
    const identity = await this.#syncs.of(path)
    if (path === this.#top || this.#durable.get(path) === identity) return
    for (let above = dirname(path); ; above = dirname(above)) {
      await this.#syncs.of(above)
      if (above === this.#top) break
    }
    await verify()
    this.#durable.set(path, identity)
  }
}

/** Makes the entries of a directory durable. Returns its identity. */
export const syncDirectory = async (path: string): Promise<Identity> => {
  const handle = await open(path, "r")
  try {
    // Of an open directory: the system has it at hand.
    const { birthtimeNs, dev, ino } = fstatSync(handle.fd, { bigint: true })
    await handle.sync()
    return `${dev} ${ino} ${birthtimeNs}`
  } catch (error) {
    // Some file systems cannot sync directories; they order or journal entries on their own.
    if (!hasCode(error, "EINVAL", "ENOTSUP", "ENOSYS")) throw error
    return ""
  } finally {
    await handle.close()
  }
}
