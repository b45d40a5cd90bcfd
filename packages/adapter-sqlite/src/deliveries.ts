import { sql } from "kysely"
import { type DeliveryCount, DeliveryStore, type Settlement } from "@kiln/core/ports"
import { assign, select, type Values } from "./columns.ts"
import type { Database } from "./Database.ts"
import { type Given, query, type RowOf, statement } from "./Statement.ts"
import type { Transaction } from "./Transaction.ts"

const selectDeliveries = query
  .selectFrom("deliveries")
  .select(select("deliveries", "job_id", "kind", "due_at", "attempts", "token"))

const dueOfKind = statement(
  (given: Given<Values<"deliveries", "kind"> & { readonly now: number; readonly limit: number }>) =>
    selectDeliveries
      .where("kind", "=", given.kind)
      .where("due_at", "<=", given.now)
      .orderBy("due_at")
      .limit(given.limit),
)

const allDeliveries = statement((given: Given<{ readonly limit: number }>) =>
  selectDeliveries.orderBy("job_id").limit(given.limit),
)

const countsByKind = statement(() =>
  query
    .selectFrom("deliveries")
    .select((of) => [
      "kind",
      of.fn.countAll<number>().as("count"),
      sql<number>`sum(attempts > 1)`.as("repeated"),
      of.fn.min<number>("due_at").as("firstAt"),
    ])
    .groupBy("kind")
    .orderBy("kind"),
)

/** Counts the deliveries that are not confirmed yet: see `DeliveryStore.countDeliveries`. */
export const countDeliveries = (tx: Transaction): ReadonlyArray<DeliveryCount> =>
  tx
    .all(countsByKind, {})
    .map(({ firstAt, ...counted }) => ({ ...counted, oldestDueMs: Math.max(0, tx.now - firstAt) }))

const deliveryOf = statement((given: Given<Values<"deliveries", "job_id">>) =>
  selectDeliveries.where("job_id", "=", given.jobId),
)

const updateDelivery = statement((given: Given<Values<"deliveries", "job_id" | "due_at" | "attempts" | "token">>) =>
  query
    .updateTable("deliveries")
    .set(assign(given, "due_at", "attempts", "token"))
    .where("job_id", "=", given.jobId),
)

const deleteDelivery = statement((given: Given<Values<"deliveries", "job_id">>) =>
  query.deleteFrom("deliveries").where("job_id", "=", given.jobId),
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
const settle = (tx: Transaction, { counts, jobId, retryInMs, token }: Settlement) => {
  const held = tx.get(deliveryOf, { jobId })
  if (held === undefined || held.token !== token) return "LeaseLost"
  if (retryInMs === null) tx.run(deleteDelivery, { jobId })
  else
    tx.run(updateDelivery, {
      jobId,
      dueAt: tx.now + Math.ceil(retryInMs),
      attempts: held.attempts - (counts ? 0 : 1),
      token: token + 1,
    })
  return "Written"
}

export const makeSqliteDeliveryStore = (db: Pick<Database, "read" | "write">): DeliveryStore["Service"] =>
  DeliveryStore.of({
    claimDeliveries: ({ kinds, leaseDurationMs, limit }) =>
      db.write("DeliveryStore.claimDeliveries", (tx) =>
        dueDeliveries(tx, kinds, limit).map(({ attempts, jobId, kind, token }) => {
          const claimed = { attempts: attempts + 1, token: token + 1 }
          tx.run(updateDelivery, { jobId, dueAt: tx.now + leaseDurationMs, ...claimed })
          return { jobId, kind, token: claimed.token, attempt: claimed.attempts }
        }),
      ),
    settleDeliveries: (items) =>
      db.write("DeliveryStore.settleDeliveries", (tx) => items.map((item) => settle(tx, item))),
    listDeliveries: (limit) => db.read("DeliveryStore.listDeliveries", (tx) => tx.all(allDeliveries, { limit })),
    countDeliveries: db.read("DeliveryStore.countDeliveries", countDeliveries),
  })
