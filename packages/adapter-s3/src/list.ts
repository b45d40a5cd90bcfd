import { isBlobKey } from "@kiln/core/domain"
import { type BlobStore, requireBlobKey } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { listPage, objectKey } from "./Bucket.ts"
import { reporting, type S3Client } from "./Client.ts"

/** Lists keys, 1,000 with each request. Runs `sweep` first: the orphan sweep lists regularly, even in a store without writes. */
export const list =
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
