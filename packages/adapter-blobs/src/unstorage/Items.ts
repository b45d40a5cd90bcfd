import * as Effect from "effect/Effect"
import { BlobUnavailable, isArrayBuffer, isBlob, isBytes, isError } from "@kiln/core/domain"
import type { UnstorageLike } from "./UnstorageLike.ts"

/**
 * Accesses the items of a storage without trusting its driver. Drivers lose writes silently (unstorage drops an error
 * that a driver returns as a value), ignore removals, and list too much or too little. So every write is read back,
 * every removal verified, and every listing filtered and checked for completeness.
 */
export interface Items {
  /** Reads an item; `undefined` if it does not exist. The driver may own the bytes: do not change them or pass them on. */
  readonly read: (key: string) => Effect.Effect<Uint8Array | undefined, BlobUnavailable>
  /** Writes an item. Not interruptible, because a write that arrives later could not be cleaned up. The driver keeps `bytes`. */
  readonly write: (key: string, bytes: Uint8Array) => Effect.Effect<void, BlobUnavailable>
  /** Removes an item; succeeds if it does not exist. */
  readonly remove: (key: string) => Effect.Effect<void, BlobUnavailable>
  /** Lists all keys below `base:`. */
  readonly keys: (base: string) => Effect.Effect<ReadonlyArray<string>, BlobUnavailable>
}

export const incompleteListing =
  "the storage driver does not list all of its items: use KILN_BLOBS=s3://bucket/prefix (S3BlobStore), " +
  "KILN_BLOBS=file:/a/directory (FileBlobStore), or a driver that lists all keys"

/** Wraps a storage; failures are reported under the name `operation`. */
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
          : refuse("the storage driver lost a write"),
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
      if (!Array.isArray(keys))
        throw isError(keys) ? keys : new TypeError("getKeys() of the storage driver must return an array of keys")
      return keys.filter((key): key is string => typeof key === "string" && key.startsWith(`${base}:`))
    })

  const keys: Items["keys"] = Effect.fnUntraced(function* (base) {
    const [found, sentinel] = yield* Effect.all([below(base), below(SENTINEL_BASE)], { concurrency: 2 })
    if (!sentinel.includes(SENTINEL)) return yield* refuse(incompleteListing)
    return [...new Set(found)]
  })

  return { read, write, remove, keys }
}

// Some drivers fetch only the first page of the storage, ordered by key; others cannot list at all. An item that is not
// listed would stay, although its removal is confirmed. `~` sorts after every blob's key, so a listing that contains the
// sentinel has reached the end.
const SENTINEL_BASE = "~kiln"
const SENTINEL = `${SENTINEL_BASE}:listing`

const WRITE_TRIES = 10

/**
 * Writes an item with the same content in every process, unless it exists. Some drivers write in place, so a process may
 * read an item that another one is still writing; it then retries.
 */
export const writeShared = (items: Items, key: string, bytes: Uint8Array): Effect.Effect<void, BlobUnavailable> =>
  items.read(key).pipe(
    Effect.flatMap((found) =>
      found !== undefined && Buffer.compare(found, bytes) === 0 ? Effect.void : items.write(key, bytes),
    ),
    Effect.retry({ times: WRITE_TRIES }),
  )

/** Writes the sentinel; fails if the driver cannot read it back or list it. */
export const writeSentinel = (storage: UnstorageLike): Effect.Effect<void, BlobUnavailable> => {
  const items = itemsOf(storage, "start")
  return Effect.andThen(writeShared(items, SENTINEL, Buffer.from("complete")), Effect.asVoid(items.keys(SENTINEL_BASE)))
}

const BASE64_PREFIX = "base64:"

/**
 * Converts a driver's value to bytes. Drivers return a Buffer, an ArrayBuffer, the text that unstorage makes for drivers
 * without a raw form, or an error as a value. Throws for values that are not bytes; `undefined` if the item does not exist.
 */
const toBytes = async (value: unknown): Promise<Uint8Array | undefined> => {
  if (value === null || value === undefined) return undefined
  if (isError(value)) throw value
  if (isBytes(value)) return value
  if (isArrayBuffer(value)) return new Uint8Array(value)
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
  if (isBlob(value)) return new Uint8Array(await value.arrayBuffer())
  if (typeof value === "string" && value.startsWith(BASE64_PREFIX))
    return Buffer.from(value.slice(BASE64_PREFIX.length), "base64")
  throw new TypeError(`the storage driver returned a ${typeof value} instead of bytes`)
}
