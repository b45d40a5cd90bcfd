import { sql } from "kysely"
import type { JobId } from "@kiln/core/domain"
import { fullAt, takePortion } from "@kiln/core/rules"
import { type BucketRequest, type DeliveryStore, RateLimitStore } from "@kiln/core/ports"
import { decodeBucket, makeDeliveryStore } from "@kiln/sql-store"
import {
  assign,
  batchStatement,
  fieldsOf,
  type Given,
  hidden,
  integer,
  plenty,
  query,
  statement,
  text,
} from "./Statement.ts"
import type { Database } from "./connection/Database.ts"
import type { Session } from "./connection/Session.ts"
import { transactionsOf } from "./transactionsOf.ts"

/** Deliveries that another process is claiming are skipped. */
const claimDue = statement(
  (given: Given<{ kinds: ReadonlyArray<string>; now: number; leaseEnd: number; limit: number }>) =>
    query
      .with("due", () =>
        query
          .selectFrom("deliveries")
          .innerJoin(plenty, (join) => join.onTrue())
          .select("job_id")
          .where(sql<boolean>`kind = any(${given.kinds}::text[])`)
          .where("due_at", "<=", given.now)
          .orderBy("due_at")
          .orderBy("job_id")
          .limit(given.limit)
          .forUpdate("deliveries")
          .skipLocked(),
      )
      .updateTable("deliveries")
      .from(sql<{ job_id: JobId }>`due`.as("chosen"))
      .set({ due_at: given.leaseEnd, attempts: sql`attempts + 1`, token: sql`token + 1` })
      .whereRef("deliveries.job_id", "=", "chosen.job_id")
      .returning(["deliveries.job_id as jobId", "kind", "token", "attempts as attempt"]),
)

export const makePostgresDeliveryStore = (db: Pick<Database, "read" | "write">): DeliveryStore["Service"] =>
  makeDeliveryStore(transactionsOf(db), ({ kinds, leaseDurationMs, limit }) =>
    db.write("DeliveryStore.claimDeliveries", (tx) =>
      tx.all(claimDue, { kinds, now: tx.now, leaseEnd: tx.now + leaseDurationMs, limit }),
    ),
  )

/** In the order of their names, to avoid deadlocks. */
const lockBuckets = batchStatement({ bucket: text() }, (item) =>
  query
    .selectFrom("rate_buckets")
    .innerJoin(item, (join) => join.onRef("item.bucket", "=", "rate_buckets.bucket"))
    .select(["rate_buckets.bucket", "rate_buckets.state"])
    .orderBy("rate_buckets.bucket")
    .forUpdate("rate_buckets"),
)

/** A bucket without a state is a new one, which another transaction may make first. */
const insertBuckets = batchStatement({ bucket: text() }, (item) =>
  query
    .insertInto("rate_buckets")
    .columns(["bucket", "state", "full_at"])
    .expression((from) =>
      from
        .selectFrom(item)
        .select((of) => ["item.bucket", of.val("").as("state"), of.lit(0).as("full_at")])
        .orderBy("item.bucket"),
    )
    .onConflict((conflict) => conflict.column("bucket").doNothing()),
)

const updateBuckets = batchStatement({ bucket: text(), state: text(), fullAt: integer() }, (item) =>
  query
    .updateTable("rate_buckets")
    .from(item)
    .set(assign(fieldsOf(item), "state", "full_at"))
    .whereRef("rate_buckets.bucket", "=", "item.bucket"),
)

/**
 * A bucket that is full again is as good as none. Those that another transaction uses are left alone. Deleted by a list, or the planner might
 * read all buckets to find these.
 */
const deleteFull = statement((given: Given<{ now: number; limit: number }>) => {
  const full = query
    .selectFrom("rate_buckets")
    .innerJoin(plenty, (join) => join.onTrue())
    .select("bucket")
    .where("full_at", ">", 0)
    .where("full_at", "<", hidden(given.now))
    .orderBy("full_at")
    .limit(hidden(given.limit))
    .forUpdate("rate_buckets")
    .skipLocked()
  return query.deleteFrom("rate_buckets").where(sql<boolean>`bucket = any (array(${full}))`)
})

const lock = async (session: Session, requests: ReadonlyArray<BucketRequest>): Promise<Map<string, string>> => {
  const named = requests.map(({ bucket }) => ({ bucket }))
  return new Map((await session.batch(lockBuckets, named)).map(({ bucket, state }) => [bucket, state]))
}

export const makePostgresRateLimitStore = (db: Database): RateLimitStore["Service"] =>
  RateLimitStore.of({
    takePortions: (requests) =>
      db.writeAfter(
        "RateLimitStore.takePortions",
        (session) => lock(session, requests),
        async (tx, locked) => {
          let states = locked
          const missing = requests.filter(({ bucket }) => !states.has(bucket))
          if (missing.length > 0) {
            await tx.runBatch(insertBuckets, missing)
            states = await lock(tx, requests)
          }
          const changes: Array<{ bucket: string; state: string; fullAt: number }> = []
          const all = requests.map(({ bucket, ...request }) => {
            const state = states.get(bucket) ?? ""
            const known = state === "" ? undefined : decodeBucket(state, bucket)
            const { bucket: next, taken } = takePortion(known, request, tx.now)
            changes.push({ bucket, state: JSON.stringify(next), fullAt: fullAt(next, request.policy) })
            return taken
          })
          tx.commitWith(
            tx.runBatch(updateBuckets, changes),
            tx.run(deleteFull, { now: tx.now, limit: 2 * requests.length }),
          )
          return all
        },
      ),
  })
