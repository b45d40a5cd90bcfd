import { type BlobStore, requireBlobKey } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import { deleteObjects, headObject, listAll, objectKey, partsPrefix } from "./Bucket.ts"
import { reporting, type S3Client } from "./Client.ts"
import { forAll } from "./forAll.ts"
import { abortMultipart, listMultiparts } from "./Multipart.ts"
import { S3Failure } from "./S3Failure.ts"

/** Removes blobs, and the parts of unfinished ones: a put that is still writing one then fails. */
export const remove = (client: S3Client): BlobStore["Service"]["remove"] =>
  Effect.fnUntraced(function* (prefix) {
    yield* requireBlobKey(prefix)
    yield* reporting("remove")(removeVerified(client, prefix))
  })

const AT_ONCE = 8
// More than one pass is needed only while another call writes below the prefix, or a listing is stale.
const PASSES = 5

/** A part that cannot be dropped keeps no blob from being removed. */
const removeVerified = (client: S3Client, prefix: string) =>
  forAll([dropParts(client, prefix), removeObjects(client, prefix)], (step) => step, 1)

const removeObjects = Effect.fnUntraced(function* (client: S3Client, prefix: string) {
  const own = objectKey(client, prefix)
  const listed = Effect.map(listAll(client, own), (objects) =>
    objects.map(({ key }) => key).filter((key) => key === own || key.startsWith(`${own}/`)),
  )
  let found: ReadonlyArray<string> = yield* listed
  // A stale listing may not have it yet.
  if (found.length === 0 && (yield* headObject(client, own)) !== undefined) found = [own]
  for (let pass = 1; found.length > 0; pass++) {
    if (pass > PASSES)
      return yield* Effect.fail(
        new S3Failure(`${found.length} objects under the prefix could not be removed`, { retryable: false }),
      )
    yield* deleteObjects(client, found)
    // A stale listing may still have what is gone.
    found = yield* Effect.filter(
      yield* listed,
      (key) => Effect.map(headObject(client, key), (object) => object !== undefined),
      {
        concurrency: AT_ONCE,
      },
    )
  }
})

const dropParts = Effect.fnUntraced(function* (client: S3Client, prefix: string) {
  const parts = `${partsPrefix(client)}${prefix}/`
  const [uploads, objects] = yield* Effect.all([listMultiparts(client, parts), listAll(client, parts)], {
    concurrency: 2,
  })
  yield* forAll(
    [
      forAll(uploads, (upload) => abortMultipart(client, upload), AT_ONCE),
      deleteObjects(
        client,
        objects.map(({ key }) => key),
      ),
    ],
    (step) => step,
    1,
  )
})
