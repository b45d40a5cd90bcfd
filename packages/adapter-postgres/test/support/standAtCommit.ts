import { Effect } from "effect"
import pg from "pg"
import type { Claim, ClaimRef } from "@kiln/core/ports"
import { freshDatabase } from "@kiln/postgres-lab"
import { fixtures } from "@kiln/conformance"
import { openStores } from "../faults/support/openStores.ts"
import { until } from "../faults/support/until.ts"

/** While the lock is held, transactions that write jobs stand still: everything is decided, nothing is committed. They wait here longer than for a row. */
const standAtCommit = `
CREATE FUNCTION "kiln".stand_at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('lock_timeout', '10s', true);
  PERFORM pg_advisory_xact_lock_shared(4711);
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER stand_at_commit AFTER INSERT OR UPDATE ON "kiln".queue
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "kiln".stand_at_commit();
CREATE CONSTRAINT TRIGGER stand_at_commit AFTER INSERT OR UPDATE OR DELETE ON "kiln".results
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "kiln".stand_at_commit();
`

const waitingForLocks = `
SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`

/** The stores of two processes on a database of their own, whose commits can be held up. */
export const openStanding = async () => {
  const database = await freshDatabase()
  const [stores, others] = [
    await openStores({ url: database.url, noteLanesEveryMs: 0 }),
    await openStores({ url: database.url, noteLanesEveryMs: 0 }),
  ]
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  await client.query(standAtCommit)

  /** Does something while these transactions, begun in this order, have not come past their commit. */
  const meanwhile = async <A, B>(transactions: ReadonlyArray<() => Promise<A>>, work: () => Promise<B>) => {
    await client.query("SELECT pg_advisory_lock(4711)")
    const begun: Array<Promise<A>> = []
    try {
      for (const begin of transactions) {
        begun.push(begin())
        await until(async () => ((await client.query(waitingForLocks)).rowCount === begun.length ? true : undefined))
      }
      const result = await work()
      await client.query("SELECT pg_advisory_unlock(4711)")
      return { result, outcomes: await Promise.all(begun) }
    } finally {
      // Whatever happened, nobody is left standing.
      await client.query("SELECT pg_advisory_unlock_all()")
    }
  }

  const claim = async (kind: string): Promise<Claim> => {
    const request = {
      runnable: [{ kind, kindVersion: 1, mode: "sandbox" as const }],
      limits: fixtures.noLimits,
      limit: 1,
      leaseDurationMs: 600_000,
      maxLostWorkers: 3,
    }
    const [only] = (await Effect.runPromise(stores.jobs.claimJobs(request))).claims
    if (only === undefined) throw new Error(`there is nothing of ${kind} to claim`)
    return only
  }

  /** A job of this kind in somebody's hands. */
  const held = async (n: number, kind: string): Promise<ClaimRef> => {
    await Effect.runPromise(stores.jobs.createJobs([fixtures.newJob(n, { kind })]))
    const { job, token } = await claim(kind)
    return { jobId: job.id, token }
  }

  const close = async () => {
    await client.end()
    await Promise.all([stores.close(), others.close()])
    await database.dispose()
  }
  return { stores, others, client, meanwhile, claim, held, close }
}
