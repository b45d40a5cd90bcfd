import { sql } from "kysely"
import type { JobId } from "@kiln/core/domain"
import { type DeliveryCount, DeliveryStore, type FencedOutcome, type Settlement } from "@kiln/core/ports"
import type { Database } from "./Database.ts"
import type { Session, Transaction } from "./Session.ts"
import { type Given, plenty, query, statement, storeTime, whole } from "./Statement.ts"

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

type Held = { jobId: JobId; token: number }

const deleteDelivery = statement((given: Given<Held>) =>
  query.deleteFrom("deliveries").where("job_id", "=", given.jobId).where("token", "=", given.token),
)

const postpone = statement((given: Given<Held & { dueAt: number; uncounted: number }>) =>
  query
    .updateTable("deliveries")
    .set({ due_at: given.dueAt, attempts: sql`attempts - ${whole(given.uncounted)}`, token: sql`token + 1` })
    .where("job_id", "=", given.jobId)
    .where("token", "=", given.token),
)

const allDeliveries = statement((given: Given<{ limit: number }>) =>
  query
    .selectFrom("deliveries")
    .select(["job_id as jobId", "kind", "due_at as dueAt", "attempts", "token"])
    .orderBy("job_id")
    .limit(given.limit),
)

const countsByKind = statement(() =>
  query
    .selectFrom("deliveries")
    .select((of) => [
      "kind",
      of.fn.countAll<number>().as("count"),
      sql<number>`count(*) filter (where attempts > 1)`.as("repeated"),
      sql<number>`greatest(${storeTime} - min(due_at), 0)`.as("oldestDueMs"),
    ])
    .groupBy("kind")
    .orderBy(sql`kind collate "C"`),
)

/** Counts the deliveries that are not confirmed yet: see `DeliveryStore.countDeliveries`. */
export const countDeliveries = (session: Session): Promise<ReadonlyArray<DeliveryCount>> =>
  session.all(countsByKind, {})

/** One statement each, which decides by the row as it is when it is locked. */
const settle = async (tx: Transaction, { counts, jobId, retryInMs, token }: Settlement): Promise<FencedOutcome> => {
  const changed =
    retryInMs === null
      ? await tx.run(deleteDelivery, { jobId, token })
      : await tx.run(postpone, { jobId, token, dueAt: tx.now + Math.ceil(retryInMs), uncounted: counts ? 0 : 1 })
  return changed === 1 ? "Written" : "LeaseLost"
}

export const makePostgresDeliveryStore = (db: Pick<Database, "read" | "write">): DeliveryStore["Service"] =>
  DeliveryStore.of({
    claimDeliveries: ({ kinds, leaseDurationMs, limit }) =>
      db.write("DeliveryStore.claimDeliveries", (tx) =>
        tx.all(claimDue, { kinds, now: tx.now, leaseEnd: tx.now + leaseDurationMs, limit }),
      ),
    settleDeliveries: (items) =>
      db.write("DeliveryStore.settleDeliveries", async (tx) => {
        const outcomes: Array<FencedOutcome> = []
        for (const item of items) outcomes.push(await settle(tx, item))
        return outcomes
      }),
    listDeliveries: (limit) =>
      db.read("DeliveryStore.listDeliveries", (session) => session.all(allDeliveries, { limit })),
    countDeliveries: db.read("DeliveryStore.countDeliveries", countDeliveries),
  })
