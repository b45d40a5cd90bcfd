import * as Effect from "effect/Effect"
import { fullAt, type TakenPortion, takePortion } from "@kiln/core/rules"
import { type BucketRequest, type DeliveryStore, RateLimitStore } from "@kiln/core/ports"
import { decodeBucket, makeDeliveryStore } from "@kiln/sql-store"
import type { Database } from "./Database.ts"
import { type Given, query, type RowOf, statement } from "./Statement.ts"
import type { Transaction } from "./Transaction.ts"
import { assign, select, type Values } from "./columns.ts"
import { isFullDisk } from "./disk/fullDisk.ts"
import { transactionsOf } from "./transactionsOf.ts"

const dueOfKind = statement(
  (given: Given<Values<"deliveries", "kind"> & { readonly now: number; readonly limit: number }>) =>
    query
      .selectFrom("deliveries")
      .select(select("deliveries", "job_id", "kind", "due_at", "attempts", "token"))
      .where("kind", "=", given.kind)
      .where("due_at", "<=", given.now)
      .orderBy("due_at")
      .limit(given.limit),
)

const updateDelivery = statement((given: Given<Values<"deliveries", "job_id" | "due_at" | "attempts" | "token">>) =>
  query
    .updateTable("deliveries")
    .set(assign(given, "due_at", "attempts", "token"))
    .where("job_id", "=", given.jobId),
)

/** Longest due first, from one range of the index for each kind. */
const dueDeliveries = (
  tx: Transaction,
  kinds: ReadonlyArray<string>,
  limit: number,
): ReadonlyArray<RowOf<typeof dueOfKind>> =>
  kinds
    .flatMap((kind) => tx.all(dueOfKind, { kind, now: tx.now, limit }))
    .sort((a, b) => a.dueAt - b.dueAt)
    .slice(0, limit)

/** The write lock keeps other processes from claiming the same. */
export const makeSqliteDeliveryStore = (db: Pick<Database, "read" | "write">): DeliveryStore["Service"] =>
  makeDeliveryStore(transactionsOf(db), ({ kinds, leaseDurationMs, limit }) =>
    db.write("DeliveryStore.claimDeliveries", (tx) =>
      dueDeliveries(tx, kinds, limit).map(({ attempts, jobId, kind, token }) => {
        const claimed = { attempts: attempts + 1, token: token + 1 }
        tx.run(updateDelivery, { jobId, dueAt: tx.now + leaseDurationMs, ...claimed })
        return { jobId, kind, token: claimed.token, attempt: claimed.attempts }
      }),
    ),
  )

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
