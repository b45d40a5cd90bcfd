import * as Effect from "effect/Effect"
import { fullAt, type TakenPortion, takePortion } from "@kiln/core/domain"
import { type BucketRequest, RateLimitStore } from "@kiln/core/ports"
import { decodeBucket } from "@kiln/sql-store"
import { assign, select, type Values } from "./columns.ts"
import type { Database } from "./Database.ts"
import { isFullDisk } from "./disk/fullDisk.ts"
import { type Given, query, statement } from "./Statement.ts"
import type { Transaction } from "./Transaction.ts"

type Bucket = Values<"rate_buckets", "bucket">

const bucketByName = statement((given: Given<Bucket>) =>
  query.selectFrom("rate_buckets").select(select("rate_buckets", "state")).where("bucket", "=", given.bucket),
)

const upsertBucket = statement((given: Given<Values<"rate_buckets", "bucket" | "state" | "full_at">>) =>
  query
    .insertInto("rate_buckets")
    .values(assign(given, "bucket", "state", "full_at"))
    .onConflict((conflict) => conflict.column("bucket").doUpdateSet(assign(given, "state", "full_at"))),
)

/** A bucket that is full again is as good as none. */
const deleteFull = statement((given: Given<{ readonly now: number; readonly limit: number }>) =>
  query
    .deleteFrom("rate_buckets")
    .where("bucket", "in", (from) =>
      from.selectFrom("rate_buckets").select("bucket").where("full_at", "<", given.now).limit(given.limit),
    ),
)

const portionOf = (tx: Transaction, { bucket, ...request }: BucketRequest) => {
  const row = tx.get(bucketByName, { bucket })
  return takePortion(row && decodeBucket(row.state, bucket), request, tx.now)
}

const takeOne = (tx: Transaction, request: BucketRequest): TakenPortion => {
  const { bucket } = request
  const { bucket: next, taken } = portionOf(tx, request)
  tx.run(upsertBucket, { bucket, state: JSON.stringify(next), fullAt: fullAt(next, request.policy) })
  return taken
}

export const makeSqliteRateLimitStore = (db: Pick<Database, "read" | "write">): RateLimitStore["Service"] =>
  RateLimitStore.of({
    takePortions: (requests) =>
      db
        .write("RateLimitStore.takePortions", (tx) => {
          const taken = requests.map((request) => takeOne(tx, request))
          tx.run(deleteFull, { now: tx.now, limit: 2 * requests.length })
          return taken
        })
        .pipe(
          // A request to delete data must not fail because its portion cannot be recorded.
          Effect.catchIf(
            ({ cause }) => isFullDisk(cause),
            () =>
              db.read("RateLimitStore.takePortions", (tx) => requests.map((request) => portionOf(tx, request).taken)),
          ),
        ),
  })
