import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { deleteObjects, isPartsKey, listAll, partsPrefix } from "./Bucket.ts"
import type { S3Client } from "./Client.ts"
import { abortMultipart, listMultiparts } from "./Multipart.ts"

const SWEEP_EVERY_MS = 3_600_000

/**
 * Returns an effect that deletes parts left by killed processes, at most once an hour. Best effort: a failure leaves them to the
 * next sweep.
 */
export const sweeper = (client: S3Client): Effect.Effect<void> => {
  const { abandonedAfterMs } = client.place
  let sweptAt: number | undefined
  return Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    if (sweptAt !== undefined && now - sweptAt < Math.min(SWEEP_EVERY_MS, abandonedAfterMs)) return
    sweptAt = now
    const isAbandoned = (at: number) => now - at >= abandonedAfterMs
    const uploads = yield* listMultiparts(client, partsPrefix(client))
    yield* Effect.forEach(
      uploads.filter(({ beganMs, key }) => isPartsKey(client, key) && isAbandoned(beganMs)),
      (upload) => abortMultipart(client, upload),
      { concurrency: 4, discard: true },
    )
    const objects = yield* listAll(client, partsPrefix(client))
    yield* deleteObjects(
      client,
      objects
        .filter(({ key, lastModifiedMs }) => isPartsKey(client, key) && isAbandoned(lastModifiedMs))
        .map(({ key }) => key),
    )
  }).pipe(Effect.ignore)
}
