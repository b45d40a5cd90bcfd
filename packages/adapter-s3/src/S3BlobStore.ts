import { type BlobUnavailable, isBlobKey, type OptionNames, requireOptions } from "@kiln/core/domain"
import { type BlobAdapter, blobAdapter, BlobStore, requireBlobKey } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { listPage, objectKey, reach } from "./Bucket.ts"
import { openClient, reporting, type S3Client } from "./Client.ts"
import { open } from "./open.ts"
import { put } from "./put.ts"
import { remove } from "./remove.ts"
import { placeOf, type S3BlobOptions } from "./S3BlobOptions.ts"
import { sweeper } from "./sweep.ts"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"

/**
 * Stores blobs as objects of an S3 bucket, which any number of processes may share.
 *
 * Each blob is one object with its length and SHA-256 in its metadata. Up to 5 MiB are written with one request. A longer blob is
 * sent in parts of 5 MiB as it arrives, assembled by S3 and copied to its key, so that it is readable either completely or not at
 * all. S3 verifies the SHA-256 of each request. Each put holds at most one part in memory.
 *
 * Requests that fail with 503 SlowDown, another passing error or a broken connection are repeated up to four times within a
 * minute. A read whose connection breaks continues where it stopped. Other failures are `BlobUnavailable`; the cause says what to
 * do where the service says what is wrong.
 *
 * Parts left by a killed process are aborted after a day, at startup and when blobs are listed. MinIO does not list multipart
 * uploads by prefix, and removes abandoned ones itself.
 */
export const S3BlobStore = {
  /** Fails with `BlobUnavailable` if the bucket cannot be listed. Throws `TypeError` for invalid options. */
  layer: (options: S3BlobOptions): Layer.Layer<BlobStore, BlobUnavailable> => {
    const place = placeOf(options)
    return Layer.effect(
      BlobStore,
      Effect.gen(function* () {
        const client = yield* openClient(place)
        yield* reporting("start")(reach(client))
        const sweep = sweeper(client)
        yield* sweep
        return BlobStore.of({
          put: put(client),
          open: open(client),
          remove: remove(client),
          list: list(client, sweep),
          link: link(client),
        })
      }),
    )
  },
}

/** Returns a presigned URL. With temporary credentials, it ends with them if that is earlier. */
const link =
  (client: S3Client): NonNullable<BlobStore["Service"]["link"]> =>
  (key, { contentDisposition, contentType, expiresInSeconds }) => {
    const query = {
      "response-cache-control": "private, no-store",
      "response-content-disposition": contentDisposition,
      "response-content-type": contentType,
    }
    const request = { method: "GET", key: objectKey(client, key), query } as const
    return Effect.andThen(requireBlobKey(key), reporting("link")(client.presign(request, expiresInSeconds)))
  }

/** Lists keys, 1,000 with each request. Runs `sweep` first: the orphan sweep lists regularly, even in a store without writes. */
const list =
  (client: S3Client, sweep: Effect.Effect<void>): BlobStore["Service"]["list"] =>
  (prefix) =>
    Stream.concat(
      Stream.fromEffectDrain(Effect.andThen(requireBlobKey(prefix), sweep)),
      Stream.paginate(undefined as string | undefined, (token) =>
        Effect.map(reporting("list")(listPage(client, `${objectKey(client, prefix)}/`, token)), ({ next, objects }) => {
          const keys = objects.map(({ key }) => key.slice(client.place.base.length)).filter((key) => isBlobKey(key))
          return [keys, next === undefined ? Option.none() : Option.some(next)] as const
        }),
      ),
    )

const optionNames: OptionNames<S3BlobOptions> = {
  bucket: true,
  prefix: true,
  region: true,
  endpoint: true,
  pathStyle: true,
  credentials: true,
  partBytes: true,
  timeoutMs: true,
  abandonedAfterMs: true,
}

/** Stores blobs in an S3 bucket. For programs without Effect; see `S3BlobStore`. */
export const s3Blobs = (options: S3BlobOptions): BlobAdapter => {
  requireOptions("s3Blobs()", options, optionNames)
  return blobAdapter(S3BlobStore.layer(options))
}
