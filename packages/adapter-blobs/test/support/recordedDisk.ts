import type { FileHandle } from "node:fs/promises"
import type * as Promises from "node:fs/promises"
import { basename, dirname, join } from "node:path"

// What would be on the disk if the power failed now: a file's bytes once it was synced, a name once its directory was. A sync covers what
// was done before it began. Everything else may or may not be there, each change by itself.

interface Inode {
  /** Bytes written, and how many of them are durable. */
  written: number
  durable: number
  readonly isDirectory: boolean
}

type Entries = ReadonlyMap<string, Inode>

/** Wraps the file system calls of a store, and keeps what of them is durable. */
export class RecordedDisk {
  readonly #names = new Map<string, Map<string, Inode>>()
  readonly #durable = new Map<string, Entries>()
  #syncs = 0
  /** For each directory, the number of the last sync whose state is durable. */
  readonly #lastSync = new Map<string, number>()
  /** Called after each change and each sync. */
  onEvent: () => void = () => undefined
  /** The directory that is watched; nothing outside of it is recorded. */
  top = "/nowhere"

  #has(path: string): boolean {
    return path.startsWith(`${this.top}/`)
  }

  #entriesOf(directory: string): Map<string, Inode> {
    const entries = this.#names.get(directory) ?? new Map<string, Inode>()
    this.#names.set(directory, entries)
    return entries
  }

  /** Adds a directory and those above it. A call in it may have succeeded before the one that made it has returned. */
  #addDirectory(path: string): void {
    if (!this.#has(path) || this.#entriesOf(dirname(path)).has(basename(path))) return
    this.#add(path, { written: 0, durable: 0, isDirectory: true })
  }

  #add(path: string, inode: Inode): void {
    if (!this.#has(path)) return
    this.#addDirectory(dirname(path))
    this.#entriesOf(dirname(path)).set(basename(path), inode)
    this.onEvent()
  }

  #drop(path: string): Inode | undefined {
    const entries = this.#entriesOf(dirname(path))
    const inode = entries.get(basename(path))
    if (inode !== undefined && entries.delete(basename(path))) this.onEvent()
    return inode
  }

  /** Returns the state of a file after a power failure that loses all that may be lost; `undefined` if it would be gone. */
  durableFile(path: string): { readonly bytes: number } | undefined {
    let inode: Inode | undefined
    for (let name = path; name.length > this.top.length; name = dirname(name)) {
      const entry = this.#durable.get(dirname(name))?.get(basename(name))
      if (entry === undefined) return undefined
      inode ??= entry
    }
    return inode === undefined ? undefined : { bytes: inode.durable }
  }

  /** Returns the files after a power failure, in which each change that was not synced is kept or lost as `keeps` says. */
  cut(keeps: () => boolean): ReadonlyMap<string, number> {
    const files = new Map<string, number>()
    const visit = (directory: string): void => {
      const durable: Entries = this.#durable.get(directory) ?? new Map()
      const now: Entries = this.#names.get(directory) ?? new Map()
      for (const name of new Set([...durable.keys(), ...now.keys()])) {
        const [before, after] = [durable.get(name), now.get(name)]
        const inode = before === after || keeps() ? after : before
        const path = join(directory, name)
        if (inode?.isDirectory === true) visit(path)
        else if (inode !== undefined) files.set(path, keeps() ? inode.written : inode.durable)
      }
    }
    visit(this.top)
    return files
  }

  #watched(path: string, handle: FileHandle, inode: Inode | undefined): FileHandle {
    const sync = handle.sync.bind(handle)
    const writev = handle.writev.bind(handle)
    handle.sync = async () => {
      const upTo = inode?.written ?? 0
      const begun = ++this.#syncs
      const entries = new Map(this.#entriesOf(path))
      await sync()
      if (inode !== undefined) inode.durable = Math.max(inode.durable, upTo)
      // One that began later, of another store, may have ended before.
      else if (begun > (this.#lastSync.get(path) ?? 0)) {
        this.#lastSync.set(path, begun)
        this.#durable.set(path, entries)
      }
      this.onEvent()
    }
    handle.writev = (async (pieces: ReadonlyArray<Uint8Array>) => {
      const result = await writev(pieces)
      if (inode !== undefined) inode.written += result.bytesWritten
      this.onEvent()
      return result
    }) as FileHandle["writev"]
    return handle
  }

  /** Returns the module `node:fs/promises` with calls that are recorded. */
  wrap(real: typeof Promises): typeof Promises {
    const open = (async (path: string, flags: string, mode?: number) => {
      const handle = await real.open(path, flags, mode)
      if (!this.#has(path) && path !== this.top) return handle
      if (flags !== "wx")
        return flags === "r" && !path.endsWith(".blob") ? this.#watched(path, handle, undefined) : handle
      const inode = { written: 0, durable: 0, isDirectory: false }
      this.#add(path, inode)
      return this.#watched(path, handle, inode)
    }) as typeof real.open
    const mkdir = (async (path: string, options: object) => {
      const made = await real.mkdir(path, options)
      this.#addDirectory(path)
      return made
    }) as typeof real.mkdir
    const rename = async (from: string, to: string) => {
      await real.rename(from, to)
      const inode = this.#drop(from)
      if (inode !== undefined) this.#add(to, inode)
    }
    const removing =
      (call: (path: string, options?: never) => Promise<void>) =>
      async (path: string, options?: never): Promise<void> => {
        await call(path, options)
        this.#drop(path)
      }
    return {
      ...real,
      open,
      mkdir,
      rename: rename as typeof real.rename,
      unlink: removing(real.unlink) as typeof real.unlink,
      rm: removing(real.rm) as typeof real.rm,
      rmdir: removing(real.rmdir) as typeof real.rmdir,
    }
  }
}
