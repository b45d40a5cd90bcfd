import { randomUUID } from "node:crypto"
import { existsSync, readlinkSync, symlinkSync, unlinkSync } from "node:fs"
import { open, readFile, rename } from "node:fs/promises"
import { dirname } from "node:path"
import { Effect, Layer } from "effect"
import { StoreUnavailable } from "@kiln/core/domain"
import { type StoreAdapter, storeAdapter } from "@kiln/core/ports"
import { MemoryStores } from "@kiln/testing"

/**
 * All stores in one JSON file: durable, for one process. The memory stores implement the verbs; this adapter saves their state.
 * Every verb writes the whole file: this is an example, not a database.
 */
export const JsonStores = {
  /** Fails with `StoreUnavailable` if the file cannot be read or another process uses it. Its directory must exist. */
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

/** The same for `createEngine`. Does not accept callers' transactions. */
export const jsonStore = (options: { readonly path: string }): StoreAdapter => storeAdapter(JsonStores.layer(options))

const attempt = <A>(run: () => Promise<A>): Effect.Effect<A, unknown> =>
  Effect.tryPromise({ try: run, catch: (cause) => cause })

/** Replaces a file atomically, so readers never see half of it, even after a crash. Resolves once the new text is durable. */
const replaceFile = async (path: string, text: string): Promise<void> => {
  const temporary = `${path}.tmp`
  // The file contains keys and requests, so only its owner may read it.
  await using file = await open(temporary, "w", 0o600)
  await file.writeFile(text)
  // Without this sync before the rename, a power cut could leave an empty file under the new name.
  await file.sync()
  await rename(temporary, path)
  // The rename is durable only after the directory is synced.
  await using directory = await open(dirname(path), "r")
  await directory.sync()
}

interface Lock {
  /** Throws if another process has taken the lock. */
  readonly check: () => void
  readonly release: () => void
}

/** Takes the lock: a symbolic link that names its holder, because creating one is atomic and never replaces another. */
const acquire = (path: string): Effect.Effect<Lock, StoreUnavailable> =>
  Effect.try({
    try: () => {
      const holder = `${process.pid} ${randomUUID()}`
      const other = holderOf(path)
      if (other !== undefined && isAlive(Number.parseInt(other, 10)))
        throw new Error(`${path}: locked by process ${other}`)
      // A killed process left it behind.
      if (other !== undefined) unlinkSync(path)
      symlinkSync(holder, path)
      const isOurs = (): boolean => holderOf(path) === holder
      return {
        check: () => {
          if (!isOurs()) throw new Error(`${path}: process ${holderOf(path)} has taken the lock`)
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

/** Returns whether a process has this id. After a reboot, it may be an unrelated process; remove the link by hand then. */
const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    // EPERM: the process exists and belongs to another user.
    return error instanceof Error && "code" in error && error.code === "EPERM"
  }
}
