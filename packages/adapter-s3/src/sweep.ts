import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { deleteObjects, isPartsKey, listAll, partsPrefix } from "./Bucket.ts"
import type { S3Client } from "./Client.ts"
import { forAll } from "./forAll.ts"
import { abortMultipart, listMultiparts } from "./Multipart.ts"

const SWEEP_EVERY_MS = 3_600_000

const AT_ONCE = 4

/**
 * Returns an effect that deletes parts left by killed processes, at most once an hour. Best effort: what cannot be removed is
 * reported, and is left to the next sweep.
 */
export const sweeper = (client: S3Client): Effect.Effect<void> => {
  const { abandonedAfterMs } = client.place
  let sweptAt: number | undefined
  return Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    if (sweptAt !== undefined && now - sweptAt < Math.min(SWEEP_EVERY_MS, abandonedAfterMs)) return
    sweptAt = now
    const isAbandoned = (at: number) => now - at >= abandonedAfterMs
    const abortUploads = Effect.flatMap(listMultiparts(client, partsPrefix(client)), (uploads) =>
      forAll(
        uploads.filter(({ beganMs, key }) => isPartsKey(client, key) && isAbandoned(beganMs)),
        (upload) => abortMultipart(client, upload),
        AT_ONCE,
      ),
    )
    const deleteParts = Effect.flatMap(listAll(client, partsPrefix(client)), (objects) =>
      deleteObjects(
        client,
        objects
          .filter(({ key, lastModifiedMs }) => isPartsKey(client, key) && isAbandoned(lastModifiedMs))
          .map(({ key }) => key),
      ),
    )
    yield* forAll([abortUploads, deleteParts], (step) => step, 1)
  }).pipe(
    Effect.catch((failure) =>
      Effect.logWarning(`some parts of unfinished files were not removed, and are tried again: ${failure.message}`),
    ),
  )
}
