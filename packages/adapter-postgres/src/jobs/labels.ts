import { sql } from "kysely"
import type { Job, JobId } from "@kiln/core/domain"
import type { NewJob } from "@kiln/core/ports"
import type { Session } from "../connection/Session.ts"
import { batchStatement, integer, query, text } from "../Statement.ts"
import { jobOf, jobsBySeq } from "./jobRow.ts"
import { lockWaiting, replaces } from "./replaceJobs.ts"

type Scope = { scope: string }

/** Stands for the job of a scope that is locked and was free. */
const noJob = 0

/**
 * Enters scopes that no job has, so that there is a row to lock. Waits for another transaction that enters one. Advisory locks would
 * need no row, but each takes a place in a table of the whole server until the transaction ends, and a caller's transaction may have
 * any number of unique jobs. In the order of the scopes, as everybody locks them, so that no two wait for each other.
 */
const enterScopes = batchStatement({ scope: text() }, (item) =>
  query
    .insertInto("job_scopes")
    .columns(["scope", "job_seq"])
    .expression(
      query
        .selectFrom((from) => from.selectFrom(item).select("item.scope").orderBy("item.scope").offset(0).as("ordered"))
        .select(["ordered.scope", sql.lit(noJob).as("job_seq")]),
    )
    .onConflict((conflict) => conflict.column("scope").doNothing()),
)

/**
 * Waits for transactions of processes of the previous version, which lock scopes in this way alone, and lets them wait. In the order of
 * the scopes. Each lock takes a place in the table of the server, so only for kiln's own transactions, whose batches are bounded.
 */
const lockAsBefore = batchStatement({ scope: text() }, (item) =>
  query
    .selectFrom((from) => from.selectFrom(item).select("item.scope").orderBy("item.scope").offset(0).as("ordered"))
    .select(
      sql<string>`pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(ordered.scope, 0))::text`.as("locked"),
    ),
)

/** Locks scopes until the transaction ends, and returns the jobs that took them last, as the one before has written them. */
const lockScopes = batchStatement({ scope: text() }, (item) =>
  query
    .selectFrom("job_scopes")
    .innerJoin(item, (join) => join.onRef("item.scope", "=", "job_scopes.scope"))
    .select(["job_scopes.scope", "job_scopes.job_seq as seq"])
    .orderBy("job_scopes.scope")
    .forNoKeyUpdate("job_scopes"),
)

const leaveScopes = batchStatement({ scope: text() }, (item) =>
  query
    .deleteFrom("job_scopes")
    .using(item)
    .whereRef("job_scopes.scope", "=", "item.scope")
    .where("job_scopes.job_seq", "=", noJob),
)

/** Maximum number of tries when the records of the jobs that have scopes are deleted meanwhile. */
const mostTries = 20

const heldScopes = async (session: Session, scopes: ReadonlyArray<Scope>) => {
  for (let tries = 0; tries < mostTries; tries++) {
    const [, locked] = await Promise.all([session.runBatch(enterScopes, scopes), session.batch(lockScopes, scopes)])
    if (locked.length === scopes.length) return locked.filter(({ seq }) => seq !== noJob)
  }
  throw new TypeError("scopes of unique jobs could not be locked")
}

const scopesOf = (items: ReadonlyArray<NewJob>): ReadonlyArray<Scope> =>
  [...new Set(items.flatMap(({ unique }) => unique?.scope ?? []))].toSorted().map((scope) => ({ scope }))

/**
 * Locks the scopes of these jobs, and returns the jobs that took them last; those whose request may be replaced are locked, too. `alone`: the transaction is kiln's own, and also excludes
 * processes of the previous version. In a caller's transaction, which may have any number of unique jobs, it does not.
 */
export const lockedScopes = async (
  session: Session,
  items: ReadonlyArray<NewJob>,
  alone: boolean,
): Promise<ReadonlyMap<string, Job>> => {
  const scopes = scopesOf(items)
  if (scopes.length === 0) return new Map()
  const [, found] = await Promise.all([alone && session.batch(lockAsBefore, scopes), heldScopes(session, scopes)])
  const given = new Set(items.flatMap((item) => (replaces(item) ? (item.unique?.scope ?? []) : [])))
  const waiting = found.filter(({ scope }) => given.has(scope))
  // The jobs are read once they are locked.
  const [, rows] = await Promise.all([session.batch(lockWaiting, waiting), session.batch(jobsBySeq, found)])
  const jobs = new Map(rows.map((row) => [row.seq, jobOf(row)]))
  return new Map(
    found.flatMap(({ scope, seq }) => {
      const job = jobs.get(seq)
      return job === undefined ? [] : [[scope, job] as const]
    }),
  )
}

/** Removes the entries of scopes that were locked for jobs which were not accepted. */
export const leaveScopesOf = (session: Session, refused: ReadonlyArray<NewJob>): Promise<number> =>
  session.runBatch(leaveScopes, scopesOf(refused))

/**
 * Retries take over the scopes of the failed jobs, where those still have them. Scopes are found one job at a time, or the planner, which
 * without statistics takes every job for one of hundreds of scopes, would read all of them.
 */
const moveScopes = batchStatement({ failed: integer(), id: text<JobId>() }, (item) =>
  query
    .updateTable("job_scopes")
    .set({
      job_seq: sql<number>`(select jobs.seq from ${item} join "kiln".jobs on jobs.id = item.id where item.failed = job_scopes.job_seq)`,
    })
    .where(
      sql<boolean>`job_scopes.scope = any (array(select own.scope from ${item} cross join lateral (
          select scope from "kiln".job_scopes where job_seq = item.failed offset 0) as own join "kiln".jobs on jobs.id = item.id))`,
    )
    // Still, if another transaction had it locked.
    .where(sql<boolean>`job_scopes.job_seq in (select item.failed from ${item})`),
)

/** Gives the scopes of retried jobs to their first retries, which were inserted before, in the same transaction. */
export const inheritScopes = (
  session: Session,
  rows: ReadonlyArray<{ readonly retried: { readonly seq: number } | undefined; readonly row: { readonly id: JobId } }>,
): Promise<number> => {
  const firsts = new Map<number, JobId>()
  for (const { retried, row } of rows)
    if (retried !== undefined && !firsts.has(retried.seq)) firsts.set(retried.seq, row.id)
  return session.runBatch(
    moveScopes,
    [...firsts].map(([failed, id]) => ({ failed, id })),
  )
}
