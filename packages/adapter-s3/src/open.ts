import { createHash } from "node:crypto"
import type { IncomingMessage } from "node:http"
import { BlobCorrupt, BlobNotFound, type BlobUnavailable } from "@kiln/core/domain"
import {
  type BlobInfo,
  type BlobRange,
  type BlobSpan,
  blobSpanOf,
  type BlobStore,
  requireBlobKey,
  requireBlobRange,
} from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { headObject, infoOf, objectKey } from "./Bucket.ts"
import { headerOf, reporting, retrying, type S3Client } from "./Client.ts"
import { connectionFailure, S3Failure } from "./S3Failure.ts"

/** Opens a blob. Its bytes are requested when the content is read, so a blob that is never read holds no connection. */
export const open = (client: S3Client): BlobStore["Service"]["open"] =>
  Effect.fnUntraced(function* (key: string, range?: BlobRange) {
    yield* requireBlobKey(key)
    yield* requireBlobRange(range)
    const object = yield* reporting("open")(headObject(client, objectKey(client, key)))
    if (object === undefined) return yield* Effect.fail(new BlobNotFound({ key }))
    const info = infoOf(object)
    if (info === "damaged") return yield* Effect.fail(new BlobCorrupt({ key }))
    return { ...info, content: Stream.unwrap(readSpan(client, key, info, blobSpanOf(info.bytes, range))) }
  })

const emptySha256 = createHash("sha256").digest("hex")

const readSpan = Effect.fnUntraced(function* (client: S3Client, key: string, info: BlobInfo, span: BlobSpan) {
  const { from, to, whole } = span
  if (info.bytes === 0 && info.sha256 !== emptySha256) return yield* Effect.fail(new BlobCorrupt({ key }))
  if (from === to) return Stream.empty
  const reader = yield* Effect.acquireRelease(
    Effect.sync(() => newReader(client, key, info, to)),
    (opened) => Effect.sync(opened.close),
  )
  const hash = whole ? createHash("sha256") : undefined
  return Stream.paginate(from, (position) =>
    Effect.gen(function* () {
      const chunk = yield* reader.next(position)
      const next = position + chunk.length
      hash?.update(chunk)
      // Check before the last chunk is emitted: a reader that counts bytes stops there.
      if (next > to || (next === to && hash !== undefined && hash.digest("hex") !== info.sha256))
        return yield* Effect.fail(new BlobCorrupt({ key }))
      return [[chunk], next === to ? Option.none() : Option.some(next)] as const
    }),
  )
})

/** Reads an object up to `to`. A connection that breaks is replaced by one that continues where it stopped. */
const newReader = (client: S3Client, key: string, info: BlobInfo, to: number) => {
  let response: IncomingMessage | undefined
  let chunks: AsyncIterator<Buffer, undefined> | undefined
  const close = (): void => {
    response?.destroy()
    response = undefined
    chunks = undefined
  }
  const connect = Effect.fnUntraced(function* (position: number) {
    response = yield* requestFrom(client, key, info, position, to)
    const opened: AsyncIterator<Buffer, undefined> = response[Symbol.asyncIterator]()
    chunks = opened
    return opened
  })
  const attempt = (position: number) =>
    Effect.gen(function* () {
      const reading = chunks ?? (yield* connect(position))
      const { done, value } = yield* Effect.tryPromise({
        try: () => reading.next(),
        catch: (cause) => connectionFailure(client.place.url.host, cause),
      })
      if (done !== true) return value
      return yield* Effect.fail(new S3Failure("the response ended early", { retryable: true }))
    }).pipe(Effect.tapError(() => Effect.sync(close)))
  const next = (position: number): Effect.Effect<Uint8Array, BlobUnavailable | BlobCorrupt> =>
    reporting("open")(retrying(attempt(position)))
  return { next, close }
}

/** Requests an object from `position` on. The whole object must have the length it was opened with. */
const requestFrom = Effect.fnUntraced(function* (
  client: S3Client,
  key: string,
  info: BlobInfo,
  position: number,
  to: number,
) {
  const isWhole = position === 0 && to === info.bytes
  const response = yield* client.stream({
    method: "GET",
    key: objectKey(client, key),
    headers: isWhole ? {} : { range: `bytes=${position}-${to - 1}` },
  })
  const range = headerOf(response.headers, "content-range")
  const fits = isWhole
    ? headerOf(response.headers, "content-length") === String(info.bytes)
    : range === `bytes ${position}-${to - 1}/${info.bytes}`
  if (fits) return response
  response.destroy()
  if (!isWhole && range === undefined)
    return yield* Effect.fail(
      new S3Failure("the service ignores ranges: use one that supports them", { retryable: false }),
    )
  return yield* Effect.fail(new BlobCorrupt({ key }))
})
