import { createHash } from "node:crypto"
import type { BlobTooLarge } from "@kiln/core/domain"
import { type BlobInfo, type BlobStore, requireBlobKey, requireBlobLimit, pieceWriter } from "@kiln/core/ports"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import { copyObject, deleteObject, objectKey, partsKey, putObject } from "./Bucket.ts"
import { reporting, type S3Client } from "./Client.ts"
import {
  abortMultipart,
  beginMultipart,
  completeMultipart,
  type Multipart,
  sendPart,
  type SentPart,
} from "./Multipart.ts"
import type { S3Failure } from "./S3Failure.ts"

/** Stores a blob of at most one part with one request. Sends a longer one in parts as it arrives. */
export const put = (client: S3Client): BlobStore["Service"]["put"] =>
  Effect.fnUntraced(function* (key, content, { maxBytes }) {
    yield* requireBlobKey(key)
    yield* requireBlobLimit(maxBytes)
    return yield* reporting("put")(
      Effect.acquireUseRelease(
        Effect.sync(() => newDraft(key)),
        (draft) => write(client, draft, content, maxBytes),
        (draft, exit) => (Exit.isSuccess(exit) ? Effect.void : discard(client, draft)),
      ),
    )
  })

/** A blob that is being written. */
interface Draft {
  readonly key: string
  multipart: Multipart | undefined
  readonly parts: Array<SentPart>
  /** True once the blob may be readable under its key. */
  published: boolean
}

const newDraft = (key: string): Draft => ({ key, multipart: undefined, parts: [], published: false })

const write = Effect.fnUntraced(function* <E>(
  client: S3Client,
  draft: Draft,
  content: Stream.Stream<Uint8Array, E>,
  maxBytes: number,
): Effect.fn.Return<BlobInfo, E | BlobTooLarge | S3Failure> {
  const hash = createHash("sha256")
  const writer = pieceWriter({
    maxBytes,
    pieceBytes: client.place.partBytes,
    hash,
    write: (part) => send(client, draft, part),
  })
  yield* Stream.runForEach(content, writer.append)
  const { bytes, last } = writer.end()
  const info = { bytes, sha256: hash.digest("hex") }
  yield* draft.multipart === undefined
    ? publishWhole(client, draft, info, last)
    : publishParts(client, draft, draft.multipart, info, last)
  return info
})

const send = Effect.fnUntraced(function* (client: S3Client, draft: Draft, part: Uint8Array) {
  const multipart = draft.multipart ?? (yield* begin(client, draft))
  draft.parts.push(yield* sendPart(client, multipart, draft.parts.length + 1, part))
})

/** Not interruptible, because an upload whose id is not known yet could not be aborted. */
const begin = (client: S3Client, draft: Draft) =>
  beginMultipart(client, partsKey(client, draft.key, SecureRandom.uuidV4Unsafe())).pipe(
    Effect.tap((multipart) =>
      Effect.sync(() => {
        draft.multipart = multipart
      }),
    ),
    Effect.uninterruptible,
  )

// The last step is not interruptible, because a request that arrives later could not be undone: an interruption takes effect
// afterwards, and then removes the blob again.

const publishWhole = (client: S3Client, draft: Draft, info: BlobInfo, content: Uint8Array) =>
  Effect.uninterruptible(
    Effect.suspend(() => {
      draft.published = true
      return putObject(client, objectKey(client, draft.key), content, info)
    }),
  )

const publishParts = Effect.fnUntraced(function* (
  client: S3Client,
  draft: Draft,
  multipart: Multipart,
  info: BlobInfo,
  last: Uint8Array,
) {
  yield* send(client, draft, last)
  yield* completeMultipart(client, multipart, draft.parts, info.bytes)
  yield* Effect.uninterruptible(
    Effect.suspend(() => {
      draft.published = true
      return copyObject(client, multipart.key, objectKey(client, draft.key), info)
    }),
  )
  // Left for the sweep if it fails: the blob is stored.
  yield* Effect.ignore(deleteObject(client, multipart.key))
})

/** Deletes what a failed put has written, best effort: the sweep finds the rest. */
const discard = (client: S3Client, { key, multipart, published }: Draft): Effect.Effect<void> =>
  Effect.gen(function* () {
    if (published) yield* Effect.ignore(deleteObject(client, objectKey(client, key)))
    if (multipart === undefined) return
    yield* Effect.ignore(abortMultipart(client, multipart))
    yield* Effect.ignore(deleteObject(client, multipart.key))
  })
