import { Effect } from "effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import type { NewJob } from "@kiln/core/ports"
import { freshDatabase, tcpProxy } from "@kiln/postgres-lab"
import { fixtures } from "@kiln/conformance"
import { openStores, tags } from "./faults/support/openStores.ts"
import { session } from "./faults/support/session.ts"

const { completionOf, newJob, noLimits, projectId } = fixtures
const run = Effect.runPromise

const open = async () => {
  const database = await freshDatabase()
  const proxy = await tcpProxy(database.url)
  const options = { poolSize: 3, noteLanesEveryMs: 0, reconnectForMs: 10_000 }
  const stores = await openStores({ url: proxy.url, ...options })
  const others = await openStores({ url: database.url, ...options })
  const sql = await session(database.url)
  return { database, proxy, stores, others, sql }
}
let opened: Awaited<ReturnType<typeof open>>
beforeAll(async () => {
  opened = await open()
})
afterAll(async () => {
  await opened.sql[Symbol.asyncDispose]()
  await Promise.all([opened.stores.close(), opened.others.close()])
  await opened.proxy.close()
  await opened.database.dispose()
})

let numbers = 0
const jobs = (count: number, changes: Partial<NewJob>): ReadonlyArray<NewJob> =>
  Array.from({ length: count }, () => newJob((numbers += 1), changes))
const create = async (list: ReadonlyArray<NewJob>, stores = opened.stores) =>
  tags(await run(stores.jobs.createJobs(list)))

const capLock = (project: string) => `hashtextextended(current_database() || ' "kiln".queue ' || '${project}', 0)`

/** The statements of a creation. */
const statementsOf = async (work: () => Promise<unknown>): Promise<number> => {
  opened.proxy.resetCounts()
  await work()
  return [...opened.proxy.statements().values()].reduce((sum, each) => sum + each, 0)
}

describe("a queue cap", () => {
  it.each([1, 3])(
    "far from it, %d jobs are one statement that counts nothing and waits for no other creation",
    async (size) => {
      const project = projectId(200 + size)
      const some = () => jobs(size, { projectId: project, queueCap: 1_000 })
      await create(some())
      await create(some())
      await opened.sql.query(`BEGIN; SELECT pg_advisory_xact_lock_shared(${capLock(project)})`)
      try {
        expect(
          await statementsOf(async () => expect(new Set(await create(some()))).toEqual(new Set(["Created"]))),
        ).toBe(1)
      } finally {
        await opened.sql.query("ROLLBACK")
      }
    },
  )

  it("waits for a process of the previous version that counts", async () => {
    const project = projectId(210)
    const one = () => jobs(1, { projectId: project, queueCap: 100 })
    await create(one())
    await create(one())
    await opened.sql.query(`BEGIN; SELECT pg_advisory_xact_lock(${capLock(project)})`)
    let isCreated = false
    const creating = (async () => {
      await create(one())
      isCreated = true
    })()
    await opened.sql.query("SELECT pg_sleep(0.05)")
    expect(isCreated).toBe(false)
    await opened.sql.query("COMMIT")
    await creating
  })

  it("counts again once other projects have taken as many numbers as there was room", async () => {
    const project = projectId(220)
    const one = () => jobs(1, { projectId: project, queueCap: 10 })
    await create(one())
    await create(one())
    await create(jobs(30, { projectId: projectId(221), queueCap: 0 }), opened.others)
    for (let unfinished = 3; unfinished <= 10; unfinished += 1)
      expect(await statementsOf(async () => expect(await create(one())).toEqual(["Created"]))).toBe(1)
    expect(await create(one())).toEqual(["QueueFull"])
  })

  it("counts again if the database gives numbers that it gave before", async () => {
    const project = projectId(230)
    const one = () => jobs(1, { projectId: project, queueCap: 3 })
    expect(await create(one())).toEqual(["Created"])
    expect(await create(one())).toEqual(["Created"])
    // As after a restore to an earlier time, in which others have created meanwhile.
    await opened.sql.query(`SELECT setval('"kiln".jobs_seq_seq', 100000 + nextval('"kiln".jobs_seq_seq'))`)
    expect(await create(one())).toEqual(["Created"])
    await opened.sql.query(`SELECT setval('"kiln".jobs_seq_seq', nextval('"kiln".jobs_seq_seq') - 90000)`)
    expect(await create(one())).toEqual(["QueueFull"])
  })

  it("is reached and never passed by two processes, with other projects and ends between", async () => {
    const project = projectId(240)
    const kind = "capped_here"
    const queueCap = 25
    const until = performance.now() + 1_500
    let most = 0
    let created = 0
    let full = 0
    const creating = async (stores: typeof opened.stores, size: number) => {
      while (performance.now() < until)
        for (const tag of await create(jobs(size, { projectId: project, kind, queueCap }), stores))
          if (tag === "Created") created += 1
          else if (tag === "QueueFull") full += 1
    }
    const disturbing = async () => {
      while (performance.now() < until)
        await create(jobs(3, { projectId: projectId(241), kind: "other" }), opened.others)
    }
    const ending = async () => {
      const runnable = [{ kind, kindVersion: 1, mode: "sandbox" as const }]
      const request = { runnable, limits: noLimits, limit: 9, leaseDurationMs: 60_000, maxLostWorkers: 3 }
      while (performance.now() < until) {
        const { claims } = await run(opened.others.jobs.claimJobs(request))
        await run(opened.others.jobs.completeJobs(claims.map((claim) => completionOf(claim))))
      }
    }
    const watching = async () => {
      while (performance.now() < until) {
        const { rows } = await opened.sql.query(
          `SELECT count(*)::int AS jobs FROM "kiln".queue WHERE project_id = $1`,
          [project],
        )
        most = Math.max(most, (rows as ReadonlyArray<{ jobs: number }>)[0]?.jobs ?? 0)
      }
    }
    await Promise.all([
      ...[1, 1, 4].flatMap((size) => [creating(opened.stores, size), creating(opened.others, size)]),
      disturbing(),
      ending(),
      watching(),
    ])
    expect(most).toBeLessThanOrEqual(queueCap)
    // A refusal is true: there was no room when it was given.
    expect(most).toBeGreaterThan(queueCap - 5)
    expect(created).toBeGreaterThan(queueCap)
    expect(full).toBeGreaterThan(0)
  })
})
