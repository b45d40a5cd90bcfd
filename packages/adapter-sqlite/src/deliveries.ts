import type { DeliveryStore } from "@kiln/core/ports"
import { makeDeliveryStore } from "@kiln/sql-store"
import { assign, select, type Values } from "./columns.ts"
import type { Database } from "./Database.ts"
import { type Given, query, type RowOf, statement } from "./Statement.ts"
import type { Transaction } from "./Transaction.ts"
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
