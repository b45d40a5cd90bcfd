import { randomFillSync } from "node:crypto"
import { closeSync, openSync, rmSync, statfsSync, statSync, writeSync } from "node:fs"
import { dirname } from "node:path"
import * as Latch from "effect/Latch"
import { isFullCode, systemCode } from "./fullDisk.ts"

/** Size of the reserve, unless the options say otherwise. */
export const defaultReserveBytes = 16_777_216
/** On a small disk, the reserve takes no more than this share of it. */
const largestShare = 1 / 16
/** Room that must remain when the reserve is made: otherwise, work would be accepted, and would fill the disk at once. */
const spareBytes = 65_536
const blockBytes = 1_048_576
/** Milliseconds for which work that grows the database relies on the last look at the file, which another process may have given up. */
const goodForMs = 20

/**
 * A file beside the database that only takes up room. On a full disk, deleting it gives SQLite the room that it needs to delete jobs:
 * a transaction that deletes must be written to the log before it frees anything. All processes on the database share the file.
 */
export class Reserve {
  readonly path: string
  /** Open at first, and once the file is found missing: it is to be made. */
  readonly missing = Latch.makeUnsafe(true)
  readonly #wantedBytes: number
  #bytes: number | undefined
  /** Whether this process has seen the file. Only then does its absence mean that it was given up. */
  #seen = false
  #thereUntil = 0
  #lacking = false
  #gaveUp = false

  constructor(databasePath: string, wantedBytes: number) {
    this.path = `${databasePath}-reserve`
    this.#wantedBytes = wantedBytes
  }

  /** The size of the file: as wanted, or less on a small disk. */
  get bytes(): number {
    return (this.#bytes ??= this.#sizeFor())
  }

  get isWanted(): boolean {
    return this.#wantedBytes > 0
  }

  get isThere(): boolean {
    if (!this.isWanted) return true
    const there = (statSync(this.path, { throwIfNoEntry: false })?.size ?? -1) >= this.bytes
    if (there) this.#seen = true
    return there
  }

  /** Whether the reserve was given up, or could not be made, and the disk has no room to make it now. */
  get isSpent(): boolean {
    const now = performance.now()
    if (now < this.#thereUntil) return false
    if (this.isThere) {
      this.#thereUntil = now + goodForMs
      this.#lacking = false
      return false
    }
    // Not made yet, by a process that has just opened the database.
    if (!this.#seen && !this.#lacking) return false
    if (this.make()) return false
    this.missing.openUnsafe()
    return true
  }

  /** Deletes the file. Returns whether that gave room. */
  giveUp(): boolean {
    try {
      const { size } = statSync(this.path)
      rmSync(this.path)
      this.#seen = true
      this.#thereUntil = 0
      this.#gaveUp = true
      this.missing.openUnsafe()
      return size > 0
    } catch {
      return false
    }
  }

  /** Makes the file if there is room for it and for what must remain. Returns false if there is not. */
  make(): boolean {
    try {
      if (this.isThere) return true
      if (this.#freeBytes() < this.bytes + spareBytes) {
        this.#lacking = true
        return false
      }
      this.#write(this.bytes)
      this.#lacking = false
      return true
    } catch (error) {
      rmSync(this.path, { force: true })
      // Best effort: where no file can be created, there is no reserve.
      this.#lacking = isFullCode(systemCode(error))
      return !this.#lacking
    }
  }

  /** Makes the file again if this process gave it up, as large as there is room now, before something else takes that. */
  restore(): void {
    if (!this.#gaveUp || this.make()) return
    try {
      this.#write(Math.min(this.bytes, this.#freeBytes()))
    } catch {
      // Best effort: the room is taken.
    }
  }

  /** Writes random bytes, because some file systems store no zeros. The same ones again, further apart than those compress. */
  #write(bytes: number): void {
    const file = openSync(this.path, "w", 0o600)
    this.#seen = true
    try {
      const block = randomFillSync(Buffer.allocUnsafe(Math.min(blockBytes, bytes)))
      for (let left = bytes; left > 0;) left -= writeSync(file, block, 0, Math.min(block.length, left))
    } finally {
      closeSync(file)
    }
  }

  #sizeFor(): number {
    try {
      const { blocks, bsize } = statfsSync(dirname(this.path))
      return blocks > 0 ? Math.floor(Math.min(this.#wantedBytes, largestShare * blocks * bsize)) : this.#wantedBytes
    } catch {
      return this.#wantedBytes
    }
  }

  /** Free bytes, with those of a file that is too small. */
  #freeBytes(): number {
    const { bavail, bsize } = statfsSync(dirname(this.path))
    return bavail * bsize + (statSync(this.path, { throwIfNoEntry: false })?.size ?? 0)
  }
}
