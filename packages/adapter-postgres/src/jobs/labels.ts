import { sql } from "kysely"
import { type Job, type JobId, labelsOf } from "@kiln/core/domain"
import type { NewJob } from "@kiln/core/ports"
import type { Session } from "../Session.ts"
import { batchStatement, query } from "../Statement.ts"
import { jobOf, jobsBySeq } from "./jobRow.ts"

type Scope = { scope: string }

/**
 * Locks scopes until the transaction ends, in their order, so that what is read next is what the one before has written. Only
 * those who want the same scope wait.
 */
const lockScopes = batchStatement<Scope, {}, { locked: string }>({ scope: "text" }, (item) =>
  query
    .selectFrom((from) => from.selectFrom(item).select("item.scope").orderBy("item.scope").offset(0).as("ordered"))
    .select(
      sql<string>`pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(ordered.scope, 0))::text`.as("locked"),
    ),
)

const holders = batchStatement<Scope, {}, Scope & { seq: number }>({ scope: "text" }, (item) =>
  query
    .selectFrom("job_scopes")
    .innerJoin(item, (join) => join.onRef("item.scope", "=", "job_scopes.scope"))
    .select(["job_scopes.scope", "job_scopes.job_seq as seq"]),
)

const scopesOf = (items: ReadonlyArray<NewJob>): ReadonlyArray<Scope> =>
  [...new Set(items.flatMap(({ unique }) => unique?.scope ?? []))].toSorted().map((scope) => ({ scope }))

/** Locks the scopes of these jobs, and returns the jobs that took them last. */
export const lockedScopes = async (
  session: Session,
  items: ReadonlyArray<NewJob>,
): Promise<ReadonlyMap<string, Job>> => {
  const scopes = scopesOf(items)
  if (scopes.length === 0) return new Map()
  const [, found] = await Promise.all([session.batch(lockScopes, scopes, {}), session.batch(holders, scopes, {})])
  const rows = await session.batch(
    jobsBySeq,
    found.map(({ seq }) => ({ seq })),
    {},
  )
  const jobs = new Map(rows.map((row) => [row.seq, jobOf(row)]))
  return new Map(
    found.flatMap(({ scope, seq }) => {
      const job = jobs.get(seq)
      return job === undefined ? [] : [[scope, job] as const]
    }),
  )
}

/** The scopes are locked. A snapshot that is older than an entry makes the statement fail, and the caller's transaction with it. */
const takeScopes = batchStatement<Scope & { id: JobId }, {}, unknown>({ scope: "text", id: "text" }, (item) =>
  query
    .insertInto("job_scopes")
    .columns(["scope", "job_seq"])
    .expression(
      query
        .selectFrom(item)
        .innerJoin("jobs", (join) => join.onRef("jobs.id", "=", "item.id"))
        .select(["item.scope", "jobs.seq"]),
    )
    .onConflict((conflict) => conflict.column("scope").doUpdateSet((of) => ({ job_seq: of.ref("excluded.job_seq") }))),
)

/** Retries take over the scopes of the failed jobs, where those still have them. */
const inheritScopes = batchStatement<{ failed: number; id: JobId }, {}, unknown>(
  { failed: "bigint", id: "text" },
  (item) =>
    query
      .updateTable("job_scopes")
      .from(item)
      .innerJoin("jobs", (join) => join.onRef("jobs.id", "=", sql.ref("item.id")))
      .set((of) => ({ job_seq: of.ref("jobs.seq") }))
      .whereRef("job_scopes.job_seq", "=", sql.ref("item.failed")),
)

const insertLabels = batchStatement<{ label: string; id: JobId }, {}, unknown>({ label: "text", id: "text" }, (item) =>
  query
    .insertInto("job_labels")
    .columns(["label", "created_at", "job_id", "job_seq"])
    .expression(
      query
        .selectFrom(item)
        .innerJoin("jobs", (join) => join.onRef("jobs.id", "=", "item.id"))
        .select(["item.label", "jobs.created_at", "jobs.id", "jobs.seq"]),
    ),
)

/** A job that was inserted. */
interface Inserted {
  readonly item: NewJob
  readonly retried: { readonly seq: number } | undefined
  readonly row: { readonly id: JobId }
}

/** Writes what jobs are found by, besides their ids and keys. They were inserted before, in the same transaction. */
export const writeLabels = async (session: Session, rows: ReadonlyArray<Inserted>): Promise<void> => {
  const labels = rows.flatMap(({ item: { metadata }, row: { id } }) =>
    labelsOf(metadata).map((label) => ({ label, id })),
  )
  // The last one of a batch has the scope.
  const scopes = new Map(
    rows.flatMap(({ item: { unique }, row: { id } }) => (unique === undefined ? [] : [[unique.scope, id] as const])),
  )
  const inherited = rows.flatMap(({ retried, row: { id } }) =>
    retried === undefined ? [] : [{ failed: retried.seq, id }],
  )
  await Promise.all([
    session.runBatch(insertLabels, labels, {}),
    session.runBatch(
      takeScopes,
      [...scopes].map(([scope, id]) => ({ scope, id })),
      {},
    ),
    session.runBatch(inheritScopes, inherited, {}),
  ])
}
