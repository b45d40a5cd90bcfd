import { BlobUnavailable, isError } from "@kiln/core/domain"
import { Effect } from "effect"
import { toBytes } from "./toBytes.ts"
import type { UnstorageLike } from "./UnstorageLike.ts"

/**
 * The items of a storage, not trusting its driver. Drivers lose writes in silence (unstorage drops an error that a
 * driver returns as a value), ignore removals, and list too much or too little; so every write is read back, every
 * removal looked at, and every listing filtered and checked for completeness.
 */
export interface Items {
  /** `undefined` = no such item. The bytes may be the driver's own: not to be changed or handed on. */
  readonly read: (key: string) => Effect.Effect<Uint8Array | undefined, BlobUnavailable>
  /** Not interruptible: what may still arrive later could not be cleaned up. The driver keeps `bytes`. */
  readonly write: (key: string, bytes: Uint8Array) => Effect.Effect<void, BlobUnavailable>
  /** Removing what is not there succeeds. */
  readonly remove: (key: string) => Effect.Effect<void, BlobUnavailable>
  /** Everything below `base:`. */
  readonly keys: (base: string) => Effect.Effect<ReadonlyArray<string>, BlobUnavailable>
}

export const incompleteListing =
  "the storage driver does not list all that it holds, as the s3 driver of unstorage does not beyond 1,000 items: " +
  "use KILN_BLOBS=file:/a/directory (FileBlobStore), or a driver that lists completely"

/** `operation` is what failures are reported as. */
export const itemsOf = (storage: UnstorageLike, operation: string): Items => {
  const attempt = <A>(run: () => Promise<A>): Effect.Effect<A, BlobUnavailable> =>
    Effect.tryPromise({ try: run, catch: (cause) => new BlobUnavailable({ operation, cause }) })
  const refuse = (reason: string) => Effect.fail(new BlobUnavailable({ operation, cause: new Error(reason) }))

  const read: Items["read"] = (key) => attempt(async () => toBytes(await storage.getItemRaw(key)))

  const write: Items["write"] = (key, bytes) =>
    attempt(() => storage.setItemRaw(key, bytes)).pipe(
      Effect.andThen(read(key)),
      Effect.flatMap((found) =>
        found !== undefined && Buffer.compare(found, bytes) === 0
          ? Effect.void
          : refuse("the storage driver did not keep what was written"),
      ),
      Effect.uninterruptible,
    )

  const remove: Items["remove"] = (key) =>
    attempt(() => storage.removeItem(key)).pipe(
      Effect.andThen(read(key)),
      Effect.flatMap((found) =>
        found === undefined ? Effect.void : refuse("the storage driver did not remove an item"),
      ),
    )

  const below = (base: string) =>
    attempt(async () => {
      const keys: unknown = await storage.getKeys(base)
      if (!Array.isArray(keys)) throw isError(keys) ? keys : new TypeError("the storage driver listed no keys")
      return keys.filter((key): key is string => typeof key === "string" && key.startsWith(`${base}:`))
    })

  const keys: Items["keys"] = Effect.fnUntraced(function* (base) {
    const [found, sentinel] = yield* Effect.all([below(base), below(SENTINEL_BASE)], { concurrency: 2 })
    if (!sentinel.includes(SENTINEL)) return yield* refuse(incompleteListing)
    return [...new Set(found)]
  })

  return { read, write, remove, keys }
}

// Some drivers fetch one page of the whole storage, ordered by key, and take that for everything; others cannot list at
// all. What is not listed would not be removed, and its removal would be confirmed. `~` sorts behind every blob's key:
// where a listing has the sentinel in it, it has come to the end.
const SENTINEL_BASE = "~kiln"
const SENTINEL = `${SENTINEL_BASE}:listing`

const WRITE_TRIES = 10

/**
 * Writes an item that every process writes alike, unless it is there. Some drivers write in place, so that of several
 * processes that start at the same time one may read what another has only begun to write: it tries again.
 */
export const writeShared = (items: Items, key: string, bytes: Uint8Array): Effect.Effect<void, BlobUnavailable> =>
  items.read(key).pipe(
    Effect.flatMap((found) =>
      found !== undefined && Buffer.compare(found, bytes) === 0 ? Effect.void : items.write(key, bytes),
    ),
    Effect.retry({ times: WRITE_TRIES }),
  )

/** Writes the sentinel and fails where the driver cannot read back, or list, what it was given. */
export const writeSentinel = (storage: UnstorageLike): Effect.Effect<void, BlobUnavailable> => {
  const items = itemsOf(storage, "start")
  return Effect.andThen(writeShared(items, SENTINEL, Buffer.from("complete")), Effect.asVoid(items.keys(SENTINEL_BASE)))
}
