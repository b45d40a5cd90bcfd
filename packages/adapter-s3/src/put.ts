import { createHash } from "node:crypto"
import { BlobTooLarge } from "@kiln/core/domain"
import { type BlobInfo, type BlobStore, requireBlobKey, requireBlobLimit } from "@kiln/core/ports"
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
  /** The part being filled. Grows up to the length of a part. */
  buffer: Buffer
  filled: number
  multipart: Multipart | undefined
  readonly parts: Array<SentPart>
  /** True once the blob may be readable under its key. */
  published: boolean
}

const FIRST_BUFFER_BYTES = 64 * 1024

const newDraft = (key: string): Draft => ({
  key,
  buffer: Buffer.alloc(0),
  filled: 0,
  multipart: undefined,
  parts: [],
  published: false,
})

const write = Effect.fnUntraced(function* <E>(
  client: S3Client,
  draft: Draft,
  content: Stream.Stream<Uint8Array, E>,
  maxBytes: number,
): Effect.fn.Return<BlobInfo, E | BlobTooLarge | S3Failure> {
  const hash = createHash("sha256")
  let bytes = 0
  yield* Stream.runForEach(content, (chunk) =>
    Effect.gen(function* () {
      bytes += chunk.length
      if (bytes > maxBytes) return yield* Effect.fail(new BlobTooLarge({ maxBytes }))
      hash.update(chunk)
      return yield* append(client, draft, chunk)
    }),
  )
  const info = { bytes, sha256: hash.digest("hex") }
  yield* draft.multipart === undefined ? publishWhole(client, draft, info) : publishParts(client, draft, info)
  return info
})

/** Fills the buffer. Sends it only when more bytes follow, so that a blob of exactly one part is not sent in parts. */
const append = Effect.fnUntraced(function* (client: S3Client, draft: Draft, chunk: Uint8Array) {
  const { partBytes } = client.place
  for (let taken = 0; taken < chunk.length;) {
    if (draft.filled === partBytes) yield* sendBuffer(client, draft)
    const next = chunk.subarray(taken, taken + partBytes - draft.filled)
    grow(draft, draft.filled + next.length, partBytes)
    draft.buffer.set(next, draft.filled)
    draft.filled += next.length
    taken += next.length
  }
})

const grow = (draft: Draft, bytes: number, partBytes: number): void => {
  if (bytes <= draft.buffer.length) return
  const buffer = Buffer.allocUnsafeSlow(
    Math.min(partBytes, Math.max(FIRST_BUFFER_BYTES, bytes, 2 * draft.buffer.length)),
  )
  draft.buffer.copy(buffer, 0, 0, draft.filled)
  draft.buffer = buffer
}

const sendBuffer = Effect.fnUntraced(function* (client: S3Client, draft: Draft) {
  const multipart = draft.multipart ?? (yield* begin(client, draft))
  const part = draft.buffer.subarray(0, draft.filled)
  draft.parts.push(yield* sendPart(client, multipart, draft.parts.length + 1, part))
  draft.filled = 0
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

const publishWhole = (client: S3Client, draft: Draft, info: BlobInfo) =>
  Effect.uninterruptible(
    Effect.suspend(() => {
      draft.published = true
      return putObject(client, objectKey(client, draft.key), draft.buffer.subarray(0, draft.filled), info)
    }),
  )

const publishParts = Effect.fnUntraced(function* (client: S3Client, draft: Draft, info: BlobInfo) {
  yield* sendBuffer(client, draft)
  const { multipart } = draft
  if (multipart === undefined) return
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
