import { sql } from "kysely"
import type { JobId } from "@kiln/core/domain"
import { deliveryLeaseMs } from "@kiln/core/rules"
import { type DeliveryCount, DeliveryStore, type FencedOutcome, type Settlement } from "@kiln/core/ports"
import { select, type Values } from "./columns.ts"
import { each, type Given, type Program, query, type Sql, statement, type Transactions, whole } from "./Sql.ts"
type Held = Values<"deliveries", "job_id" | "token">

const deleteDelivery = statement((given: Given<Held>) =>
  query.deleteFrom("deliveries").where("job_id", "=", given.jobId).where("token", "=", given.token),
)

const postpone = statement((given: Given<Held & { readonly dueAt: number; readonly uncounted: number }>) =>
  query
    .updateTable("deliveries")
    .set({
      due_at: given.dueAt,
      attempts: sql<number>`attempts - ${whole(given.uncounted)}`,
      token: sql<number>`token + 1`,
    })
    .where("job_id", "=", given.jobId)
    .where("token", "=", given.token),
)

/** One statement each, which decides by the row as it is when it is locked. */
function* settle(tx: Sql, items: ReadonlyArray<Settlement>): Program<ReadonlyArray<FencedOutcome>> {
  const now = yield* tx.now()
  const changed = yield* each(
    items.map(({ counts, jobId, retryInMs, token }) =>
      retryInMs === null
        ? tx.run(deleteDelivery, { jobId, token })
        : tx.run(postpone, { jobId, token, dueAt: now + Math.ceil(retryInMs), uncounted: counts ? 0 : 1 }),
    ),
  )
  return changed.map((count) => (count === 1 ? "Written" : "LeaseLost"))
}

const putDue = statement(
  (given: Given<Values<"deliveries", "job_id" | "kind"> & { readonly now: number; readonly heldUntil: number }>) =>
    query
      .insertInto("deliveries")
      .values({
        job_id: given.jobId,
        kind: given.kind,
        due_at: given.now,
        attempts: 0,
        // An earlier delivery of the job counted from 0: the time is beyond its tokens.
        token: given.now,
      })
      .onConflict((conflict) =>
        conflict
          .column("job_id")
          .doUpdateSet((set) => ({
            due_at: given.now,
            attempts: 0,
            token: sql<number>`${set.ref("deliveries.token")} + 1`,
          }))
          .where("deliveries.due_at", ">", given.heldUntil),
      ),
)

function* redeliver(
  tx: Sql,
  items: ReadonlyArray<{ readonly jobId: JobId; readonly kind: string }>,
): Program<ReadonlyArray<"Redelivered" | "Pending">> {
  const now = yield* tx.now()
  const changed = yield* each(
    items.map(({ jobId, kind }) => tx.run(putDue, { jobId, kind, now, heldUntil: now + deliveryLeaseMs })),
  )
  return changed.map((count) => (count === 1 ? "Redelivered" : "Pending"))
}

const allDeliveries = statement((given: Given<{ readonly limit: number }>) =>
  query
    .selectFrom("deliveries")
    .select(select("deliveries", "job_id", "kind", "due_at", "attempts", "token"))
    .orderBy("job_id")
    .limit(given.limit),
)

const countsByKind = statement(() =>
  query
    .selectFrom("deliveries")
    .select((of) => [
      "kind",
      of.fn.countAll<number>().as("count"),
      sql<number>`sum(case when attempts > 1 then 1 else 0 end)`.as("repeated"),
      of.fn.min<number>("due_at").as("firstAt"),
    ])
    .groupBy("kind"),
)

/** Counts the deliveries that are not confirmed yet: see `DeliveryStore.countDeliveries`. */
export function* countDeliveries(tx: Sql): Program<ReadonlyArray<DeliveryCount>> {
  const counts = tx.all(countsByKind, {})
  const now = yield* tx.now()
  return (yield* counts)
    .map(({ firstAt, ...counted }) => ({ ...counted, oldestDueMs: Math.max(0, now - firstAt) }))
    .sort((one, other) => (one.kind < other.kind ? -1 : 1))
}

/** Claiming is the adapter's: several processes claim at once on Postgres, and none waits for another. */
export const makeDeliveryStore = (
  db: Transactions,
  claimDeliveries: DeliveryStore["Service"]["claimDeliveries"],
): DeliveryStore["Service"] =>
  DeliveryStore.of({
    claimDeliveries,
    settleDeliveries: (items) => db.write("DeliveryStore.settleDeliveries", (tx) => settle(tx, items)),
    redeliver: (items) => db.write("DeliveryStore.redeliver", (tx) => redeliver(tx, items)),
    listDeliveries: (limit) =>
      db.read("DeliveryStore.listDeliveries", function* (tx) {
        return yield* tx.all(allDeliveries, { limit })
      }),
    countDeliveries: db.read("DeliveryStore.countDeliveries", countDeliveries),
  })
