import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { BlobNotFound, BlobUnavailable, type StoreUnavailable } from "@kiln/core/domain"
import type { BlobStore, NamedBlob, StoreInspection } from "@kiln/core/ports"
import { causeMessage } from "../CommandFailed.ts"
import { type Copied, copyEach } from "./copyBlobs.ts"

type Blobs = BlobStore["Service"]

/** A long copy shows this often how far it is, milliseconds. */
const progressEveryMs = 10_000
/** Maximum number of listed files that cannot be copied; others are only counted. */
const mostListed = 1_000

/** The result of a copy. */
export interface CopiedFiles {
  /** Files that are in the new store now. */
  readonly files: number
  readonly bytes: number
  readonly copied: number
  readonly copiedBytes: number
  /** Number of files that are missing or damaged in the old store, and not in the new one. */
  readonly failed: number
  /** The keys of the first 1,000 of them. */
  readonly missing: ReadonlyArray<string>
  readonly damaged: ReadonlyArray<string>
}

/** Names the blob store in its failures, because a copy uses two. */
export const naming = (place: string, blobs: Blobs): Blobs => {
  const named = (error: BlobUnavailable) =>
    new BlobUnavailable({
      operation: error.operation,
      cause: new Error(`${place}: ${causeMessage(error.cause)}`, { cause: error.cause }),
    })
  const rename = <E>(error: E): E | BlobUnavailable => (error instanceof BlobUnavailable ? named(error) : error)
  return {
    ...blobs,
    open: (key, range) =>
      Effect.mapError(
        Effect.map(blobs.open(key, range), (opened) => ({
          ...opened,
          content: Stream.mapError(opened.content, rename),
        })),
        rename,
      ),
    put: (key, content, options) => Effect.mapError(blobs.put(key, content, options), rename),
    remove: (prefix) => Effect.mapError(blobs.remove(prefix), named),
    list: (prefix) => Stream.mapError(blobs.list(prefix), named),
  }
}

/** A store that stays as it is: a dry run counts what it lacks. */
export const unchanged = (blobs: Blobs): Blobs => ({
  ...blobs,
  put: (_key, _content, { maxBytes: bytes }) => Effect.succeed({ bytes, sha256: "" }),
  remove: () => Effect.void,
})

/** The store in a directory that does not exist. */
export const emptyStore: Blobs = unchanged({
  put: () => Effect.die(new Error("the store is empty")),
  open: (key) => Effect.fail(new BlobNotFound({ key })),
  remove: () => Effect.void,
  list: () => Stream.empty,
})

/** Copies every file that the records name, unless it is there already. A file whose data is deleted meanwhile is not kept. */
export const copyFiles = Effect.fnUntraced(function* (
  records: Pick<StoreInspection, "namedBlobs" | "isNamed">,
  from: Blobs,
  to: Blobs,
) {
  const sum = { files: 0, bytes: 0, copied: 0, copiedBytes: 0, failed: 0 }
  const missing: Array<string> = []
  const damaged: Array<string> = []
  let shownAt = yield* Clock.currentTimeMillis
  const show = Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    if (now - shownAt < progressEveryMs) return
    shownAt = now
    yield* Effect.logInfo(`copied ${sum.copied} files; ${sum.files - sum.copied} were there already`)
  })
  const report = Effect.fnUntraced(function* (named: NamedBlob, outcome: Copied) {
    const { blobKey, bytes } = named
    if (outcome !== "kept" && !(yield* records.isNamed(named)))
      return yield* outcome === "copied" ? to.remove(blobKey) : Effect.void
    if (outcome === "missing" || outcome === "damaged") {
      sum.failed += 1
      const keys = outcome === "missing" ? missing : damaged
      if (keys.length < mostListed) keys.push(blobKey)
      return
    }
    sum.files += 1
    sum.bytes += bytes
    if (outcome === "copied") {
      sum.copied += 1
      sum.copiedBytes += bytes
    }
    yield* show
  })
  yield* copyEach(records, from, to, report)
  return { ...sum, missing, damaged } satisfies CopiedFiles
}) satisfies (...given: never) => Effect.Effect<CopiedFiles, StoreUnavailable | BlobUnavailable>
