import { sql } from "kysely"
import type { JobId } from "@kiln/core/domain"
import type { DeliveryStore } from "@kiln/core/ports"
import { makeDeliveryStore } from "@kiln/sql-store"
import type { Database } from "./connection/Database.ts"
import { type Given, plenty, query, statement } from "./Statement.ts"
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
