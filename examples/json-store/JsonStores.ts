import { randomUUID } from "node:crypto"
import { existsSync, readlinkSync, symlinkSync, unlinkSync } from "node:fs"
import { open, readFile, rename } from "node:fs/promises"
import { dirname } from "node:path"
import { Effect, Layer } from "effect"
import { StoreUnavailable } from "@kiln/core/domain"
import { type StoreAdapter, storeAdapter } from "@kiln/core/ports"
import { MemoryStores } from "@kiln/testing"

/**
 * All record stores over one JSON file: durable, for one process. The memory stores decide what a verb does; this file keeps
 * what they know. A verb costs as much as the file is long: an example, not a database.
 */
export const JsonStores = {
  /** Fails with `StoreUnavailable` where the file cannot be read, or another process has it. Its directory must be there. */
  layer: ({ path }: { readonly path: string }) =>
    Layer.unwrap(
      Effect.gen(function* () {
        const lock = yield* Effect.acquireRelease(acquire(`${path}.lock`), (held) => Effect.sync(() => held.release()))
        return MemoryStores.layerPersisted({
          capabilities: { durable: true, multiProcess: false },
          load: attempt(() => (existsSync(path) ? readFile(path, "utf8") : Promise.resolve(undefined))),
          save: (text) =>
            attempt(async () => {
              lock.check()
              await replaceFile(path, text)
            }),
        })
      }),
    ),
}

/** The same for `createEngine`. It takes no transactions of the caller's: nobody else has one on this file. */
export const jsonStore = (options: { readonly path: string }): StoreAdapter => storeAdapter(JsonStores.layer(options))

const attempt = <A>(run: () => Promise<A>): Effect.Effect<A, unknown> =>
  Effect.tryPromise({ try: run, catch: (cause) => cause })

/**
 * Replaces a file atomically: a reader, even after a crash, finds the complete old text or the complete new one. Returns when the
 * new text is durable.
 */
const replaceFile = async (path: string, text: string): Promise<void> => {
  const temporary = `${path}.tmp`
  // Keys and requests are in it: nobody else on the machine reads it.
  await using file = await open(temporary, "w", 0o600)
  await file.writeFile(text)
  // Before the rename, or a power cut could leave the new name with nothing behind it.
  await file.sync()
  await rename(temporary, path)
  // The new name is an entry of the directory, and durable when that is.
  await using directory = await open(dirname(path), "r")
  await directory.sync()
}

interface Lock {
  /** Throws where another has taken it. */
  readonly check: () => void
  readonly release: () => void
}

/** A symbolic link that names its holder: it appears together with what it says, and never replaces another. */
const acquire = (path: string): Effect.Effect<Lock, StoreUnavailable> =>
  Effect.try({
    try: () => {
      const holder = `${process.pid} ${randomUUID()}`
      const other = holderOf(path)
      if (other !== undefined && isAlive(Number.parseInt(other, 10)))
        throw new Error(`${path}: process ${other} has it`)
      // What a killed process left behind.
      if (other !== undefined) unlinkSync(path)
      symlinkSync(holder, path)
      const isOurs = (): boolean => holderOf(path) === holder
      return {
        check: () => {
          if (!isOurs()) throw new Error(`${path}: process ${holderOf(path)} has taken it`)
        },
        release: () => {
          if (isOurs()) unlinkSync(path)
        },
      }
    },
    catch: (cause) => new StoreUnavailable({ operation: "JsonStores.layer", cause }),
  })

const holderOf = (path: string): string | undefined => {
  try {
    return readlinkSync(path)
  } catch {
    return undefined
  }
}

/** Whether there is a process of that number. After a restart of the machine it may be another: then remove the link by hand. */
const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    // Another user's process may not be signalled, but is there.
    return error instanceof Error && "code" in error && error.code === "EPERM"
  }
}
