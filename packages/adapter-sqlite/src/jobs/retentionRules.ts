import type { RetentionPublication } from "@kiln/core/ports"
import { assign, type Values } from "../columns.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

const forgetOwn = statement((given: Given<Values<"retention_rules", "publisher">>) =>
  query.deleteFrom("retention_rules").where("publisher", "=", given.publisher),
)

type Replaced = Values<"retention_rules", "kind" | "program"> & { readonly now: number; readonly longAgo: number }

const forgetStopped = statement((given: Given<Replaced>) =>
  query
    .deleteFrom("retention_rules")
    .where("kind", "=", given.kind)
    .where((where) =>
      where.or([
        where.and([where("program", "=", given.program), where("live_until", "<=", given.now)]),
        where("live_until", "<=", given.longAgo),
      ]),
    ),
)

type Rule = Values<"retention_rules", "kind" | "publisher" | "program" | "data_ms" | "jobs_ms" | "live_until">

const insertRule = statement((given: Given<Rule>) =>
  query
    .insertInto("retention_rules")
    .values(assign(given, "kind", "publisher", "program", "data_ms", "jobs_ms", "live_until")),
)

export const publishRetention = (
  tx: Transaction,
  { graceMs, program, publisher, rules, ttlMs }: RetentionPublication,
): void => {
  const { now } = tx
  tx.run(forgetOwn, { publisher })
  for (const { dataMs, jobsMs, kind } of rules) {
    tx.run(forgetStopped, { kind, program, now, longAgo: now - Math.ceil(graceMs) })
    tx.run(insertRule, { kind, publisher, program, dataMs, jobsMs, liveUntil: now + Math.ceil(ttlMs) })
  }
}
