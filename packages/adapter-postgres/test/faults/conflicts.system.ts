import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { fixtures } from "@kiln/conformance"
import { useCluster } from "./support/databases.ts"
import { must, openStores, outcomeOf, tags, timed } from "./support/openStores.ts"
import { session } from "./support/session.ts"
import { claimRequest } from "./support/writingVerbs.ts"

const { completionOf, newJob } = fixtures
const cluster = useCluster()

describe("a verb that meets a conflict", () => {
  it("a deadlock (40P01): the verb is retried, once", async () => {
    await using database = await cluster.database()
    await using stores = await openStores({ url: database.url, migrate: false })
    await outcomeOf(stores.jobs.createJobs([newJob(1), newJob(2)]))
    const url = new URL(cluster.server.adminUrl)
    url.pathname = new URL(database.url).pathname
    await using other = await session(url.href)
    // It waits longer than the verb, so that the server takes the verb for its victim.
    await other.query("BEGIN; SET LOCAL deadlock_timeout = '1min'")
    const lock = (n: number) => other.query('SELECT FROM "kiln".queue WHERE id = $1 FOR UPDATE', [newJob(n).id])
    await lock(2)
    const canceling = outcomeOf(stores.jobs.cancelJobs([newJob(1).id, newJob(2).id]))
    await cluster.waiting()
    await lock(1)
    await other.query("COMMIT")
    expect(await canceling).toEqual(["Canceled", "Canceled"])
    expect(cluster.server.log()).toMatch(/deadlock detected/)
    expect((await other.query(`SELECT FROM "kiln".results WHERE status = 'failed'`)).rowCount).toBe(2)
  })

  it("a lock on one job of several (55P03): the batch fails soon and whole, and the other job succeeds alone", async () => {
    await using database = await cluster.database()
    await using stores = await openStores({ url: database.url, migrate: false })
    await outcomeOf(stores.jobs.createJobs([newJob(1), newJob(2)]))
    const { claims } = await Effect.runPromise(stores.jobs.claimJobs(claimRequest))
    const completions = claims.map((claim) => completionOf(claim))
    await using other = await session(database.url)
    await other.query("BEGIN")
    await other.query('SELECT FROM "kiln".queue WHERE id = $1 FOR UPDATE', [completions[1]?.jobId])
    const { outcome, tookMs } = await timed(() => Effect.runPromise(Effect.flip(stores.jobs.completeJobs(completions))))
    expect(outcome).toMatchObject({ _tag: "StoreUnavailable", contended: true })
    expect(tookMs).toBeLessThan(2_000)
    expect(await outcomeOf(stores.jobs.completeJobs(completions.slice(0, 1)))).toEqual(["Written"])
    const completing = outcomeOf(stores.jobs.completeJobs(completions.slice(1)))
    await cluster.waiting()
    await other.query("COMMIT")
    expect(await completing).toEqual(["Written"])
  })

  it("a lock that is held for long (55P03): the verb waits", async () => {
    await using database = await cluster.database()
    await using stores = await openStores({
      url: database.url,
      migrate: false,
      lockTimeoutMs: 100,
      retryForMs: 20_000,
    })
    await using other = await session(database.url)
    await other.query('BEGIN; LOCK TABLE "kiln".jobs')
    const before = cluster.server.log().length
    const creating = outcomeOf(stores.jobs.createJobs([newJob(1)]))
    await cluster.waiting()
    await other.query("SELECT pg_sleep(0.5)")
    await other.query("COMMIT")
    expect(tags(await creating)).toEqual(["Created"])
    expect(cluster.server.log().slice(before)).toMatch(/canceling statement due to lock timeout/)
  })

  it("a lock that is never released: the verb fails in bounded time, with nothing written", async () => {
    await using database = await cluster.database()
    await using stores = await openStores({ url: database.url, migrate: false, lockTimeoutMs: 100, retryForMs: 600 })
    await using other = await session(database.url)
    await other.query('BEGIN; LOCK TABLE "kiln".jobs')
    const { outcome, tookMs } = await timed(() => outcomeOf(stores.jobs.createJobs([newJob(1)])))
    expect(outcome).toBe("StoreUnavailable")
    expect(tookMs).toBeLessThan(5_000)
    await other.query("COMMIT")
    expect((await other.query('SELECT FROM "kiln".jobs')).rowCount).toBe(0)
  })

  it("a serialization failure (40001): the verb is retried, once", async () => {
    await using database = await cluster.database()
    await using stores = await openStores({ url: database.url, migrate: false })
    await using other = await session(database.url)
    // At READ COMMITTED the server has no reason of its own; engines like it do. What it counts with is never undone.
    await other.query(`
      CREATE SEQUENCE "kiln".tries;
      CREATE FUNCTION fail_twice() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('kiln.tries') <= 2 THEN RAISE EXCEPTION 'try again' USING ERRCODE = '40001'; END IF;
        RETURN NULL;
      END $$;
      CREATE TRIGGER fail_twice AFTER INSERT ON "kiln".jobs FOR EACH STATEMENT EXECUTE FUNCTION fail_twice()`)
    expect(tags(await outcomeOf(stores.jobs.createJobs([newJob(1)])))).toEqual(["Created"])
    expect((await other.query('SELECT FROM "kiln".jobs')).rowCount).toBe(1)
    expect((await other.query<{ n: number }>('SELECT last_value::int AS n FROM "kiln".tries')).rows).toEqual([{ n: 3 }])
  })
})

describe("a read-only server (25006)", () => {
  it("answers reads, and accepts writes again without reopening the store", async () => {
    await using database = await cluster.database()
    await using stores = await openStores({ url: database.url, migrate: false })
    await outcomeOf(stores.jobs.createJobs([newJob(1)]))
    await using other = await session(database.url)
    const readOnly = async (on: boolean) => {
      await other.query(`ALTER DATABASE ${database.name} SET default_transaction_read_only = ${on}`)
      for (const { database: name, pid } of await cluster.backendsOf("kiln"))
        if (name === database.name) await cluster.server.terminate(pid)
    }
    await readOnly(true)
    const { outcome, tookMs } = await timed(() => outcomeOf(stores.jobs.createJobs([newJob(2)])))
    expect(outcome).toBe("StoreUnavailable")
    expect(tookMs).toBeLessThan(5_000)
    const [read] = await Effect.runPromise(
      stores.jobs.findJobs([{ jobId: newJob(1).id, principal: fixtures.ownerOf(newJob(1)) }]),
    )
    expect(must(read).status).toBe("queued")
    await other.query("SET default_transaction_read_only = off")
    await readOnly(false)
    expect(tags(await outcomeOf(stores.jobs.createJobs([newJob(2)])))).toEqual(["Created"])
  })
})
