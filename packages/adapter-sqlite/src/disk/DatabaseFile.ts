import { type BigIntStats, statSync } from "node:fs"
import type { Reserve } from "./Reserve.ts"

/** Nanoseconds for which a reader relies on the last look at the file. */
const goodForNanos = 250_000_000n

export interface DatabaseFileOptions {
  readonly path: string
  readonly reserve: Reserve
  /** Whether another file may be found at the path, as on file systems whose files change their identity. */
  readonly mayChange: boolean
}

/**
 * The file of an open connection. A connection works on after its file was unlinked or its disk was unmounted, and what it then
 * writes is lost. So every transaction first looks whether the file is still in its place.
 */
export class DatabaseFile {
  readonly path: string
  readonly reserve: Reserve
  readonly #opened: BigIntStats | undefined
  readonly #mayChange: boolean
  #presentUntil = 0n

  constructor({ mayChange, path, reserve }: DatabaseFileOptions) {
    this.path = path
    this.reserve = reserve
    this.#mayChange = mayChange
    this.#opened = statSync(path, { bigint: true, throwIfNoEntry: false })
  }

  /** Returns why the file cannot be used; `undefined` if it is in its place. A writer always looks. */
  absence(nanos: bigint, writes: boolean): Error | undefined {
    if (!writes && nanos < this.#presentUntil) return undefined
    const problem = this.#look()
    this.#presentUntil = problem === undefined ? nanos + goodForNanos : 0n
    return problem
  }

  get isPresent(): boolean {
    return this.#look() === undefined
  }

  #look(): Error | undefined {
    let found: BigIntStats | undefined
    try {
      found = statSync(this.path, { bigint: true, throwIfNoEntry: false })
    } catch (error) {
      return new Error(`the database ${this.path} cannot be reached: see whether its disk is mounted`, { cause: error })
    }
    if (found === undefined)
      return new Error(
        `the database ${this.path} is gone: mount its disk or move it back, and this process continues; it creates no new database`,
      )
    const isSame = this.#opened === undefined || (found.ino === this.#opened.ino && found.dev === this.#opened.dev)
    return isSame || this.#mayChange
      ? undefined
      : new Error(
          `the file ${this.path} is not the database that this process opened: put that one back, or restart the process to use this one`,
        )
  }
}
