import { type BlobStore, requireBlobKey } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import { objectKey } from "./Bucket.ts"
import { reporting, type S3Client } from "./Client.ts"

/** Returns a presigned URL. With temporary credentials, it ends with them if that is earlier. */
export const link =
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
