import { sql } from "kysely"
import type { RetentionPublication } from "@kiln/core/ports"
import type { Session } from "../connection/Session.ts"
import { batchStatement, excluded, type Given, integer, nullable, query, storeTime, text, whole } from "../Statement.ts"

type Publisher = { publisher: string; program: string; ttlMs: number; graceMs: number }

/** One statement, as for workers: what another process is writing is left to it, and a repetition changes nothing. */
const publish = batchStatement(
  { kind: text(), dataMs: nullable(integer()), jobsMs: nullable(integer()) },
  (item, given: Given<Publisher>) =>
    query
      .with("forgotten", (forget) =>
        forget.deleteFrom("retention_rules").where(sql<boolean>`(kind, publisher) in (
            select old.kind, old.publisher from "kiln".retention_rules as old
            left join ${item} on item.kind = old.kind
            where case
              when old.publisher = ${given.publisher} then item.kind is null
              else item.kind is not null and old.live_until <=
                ${storeTime} - case when old.program = ${given.program} then 0 else ${whole(given.graceMs)} end
            end
            for update of old skip locked)`),
      )
      .insertInto("retention_rules")
      .columns(["kind", "publisher", "program", "data_ms", "jobs_ms", "live_until"])
      .expression(
        query
          .selectFrom(item)
          .select([
            "item.kind",
            sql<string>`${given.publisher}::text`.as("publisher"),
            sql<string>`${given.program}::text`.as("program"),
            "item.dataMs",
            "item.jobsMs",
            sql<number>`${storeTime} + ${whole(given.ttlMs)}`.as("live_until"),
          ])
          .orderBy("item.kind"),
      )
      .onConflict((conflict) =>
        conflict.columns(["kind", "publisher"]).doUpdateSet(excluded("program", "data_ms", "jobs_ms", "live_until")),
      ),
)

export const publishRetention = async (
  session: Session,
  { graceMs, program, publisher, rules, ttlMs }: RetentionPublication,
): Promise<void> => {
  const items = rules.map(({ dataMs, jobsMs, kind }) => ({ kind, dataMs, jobsMs }))
  await session.runBatch(publish, items, {
    publisher,
    program,
    ttlMs: Math.ceil(ttlMs),
    graceMs: Math.ceil(graceMs),
  })
}
