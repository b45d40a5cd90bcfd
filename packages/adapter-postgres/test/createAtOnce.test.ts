import { Effect } from "effect"
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest"
import type { NewJob } from "@kiln/core/ports"
import { freshDatabase, tcpProxy } from "@kiln/postgres-lab"
import { fixtures } from "@kiln/conformance"
import { openStores, tags } from "./faults/support/openStores.ts"
import { session } from "./faults/support/session.ts"

const { newJob, projectId } = fixtures

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
const fresh = (changes: Partial<NewJob> = {}): NewJob => newJob((numbers += 1), changes)
const create = async (...jobs: ReadonlyArray<NewJob>) => Effect.runPromise(opened.stores.jobs.createJobs(jobs))

/** Statements of a creation: `accept_job` or `accept_jobs` is one of them at least. */
const statementsOf = async (work: () => Promise<unknown>): Promise<ReadonlyArray<string>> => {
  opened.proxy.resetCounts()
  await work()
  return [...opened.proxy.statements()].flatMap(([text, count]) => Array.from({ length: count }, () => text))
}

const isAdding = (text: string): boolean => /accept_jobs?\(/.test(text)

beforeEach(async () => {
  // Makes the lane and has the process remember it.
  await create(fresh())
})

describe("jobs that only a key or a cap can refuse", () => {
  it.each([1, 100])("%d of them are one statement", async (count) => {
    const sent = await statementsOf(() => create(...Array.from({ length: count }, () => fresh({ queueCap: 10_000 }))))
    expect(sent.map((text) => (isAdding(text) ? "accept_jobs" : text))).toEqual(["accept_jobs"])
  })

  it("meet an earlier try of theirs whose answer was lost, and are one job", async () => {
    for (let round = 0; round < 200; round += 1) {
      const job = fresh()
      const tries = [opened.stores, opened.others, opened.others].map((stores) =>
        Effect.runPromise(stores.jobs.createJobs([job])),
      )
      const outcomes = (await Promise.all(tries)).flatMap(tags)
      expect(outcomes.toSorted()).toEqual(["Created", "Replayed", "Replayed"])
    }
  })

  it("keep what each of them has of its own", async () => {
    const differing = [
      {},
      { priority: "urgent" },
      {},
      { delayMs: 90_000 },
      { priority: "urgent" },
      { limits: { queueLimitMs: 7_000, runLimitMs: 8_000 } },
      { metadata: { note: "kept" } },
      {},
    ] as const
    const jobs = differing.map((changes) => fresh(changes))
    const outcomes = await create(...jobs)
    const read = await Effect.runPromise(
      opened.stores.jobs.findJobs(jobs.map((job) => ({ jobId: job.id, principal: { ...job, scopes: [] } }))),
    )
    expect(read).toEqual(outcomes.map((outcome) => ("job" in outcome ? outcome.job : undefined)))
    expect(read).toMatchObject(
      jobs.map(({ id, idempotencyKey, limits, metadata, priority, request }) => {
        const shown = { id, idempotencyKey, metadata, priority, request }
        return { ...shown, ...limits }
      }),
    )
    expect(read.map((job) => (job?.claimableAt ?? 0) - (job?.createdAt ?? 0))).toEqual(
      jobs.map(({ delayMs }) => delayMs),
    )
  })

  it("are added, while a replay and a reused key in the same batch are recognized", async () => {
    const [first, other] = [fresh(), fresh()]
    await create(first)
    const twice = fresh()
    const outcomes = await create(
      other,
      { ...first, id: fresh().id },
      { ...first, id: fresh().id, fingerprint: "something else" },
      twice,
      twice,
    )
    expect(tags(outcomes)).toEqual(["Created", "Replayed", "KeyReused", "Created", "Replayed"])
    expect(outcomes).toMatchObject([
      { job: { id: other.id } },
      { job: { id: first.id } },
      {},
      {},
      { job: twice.id && { id: twice.id } },
    ])
    const stored = await opened.sql.query(`SELECT id FROM "kiln".jobs WHERE id = ANY ($1)`, [
      [first.id, other.id, twice.id],
    ])
    expect(stored.rowCount).toBe(3)
  })

  it("race another process for one key: one is created, the other replayed", async () => {
    for (let round = 0; round < 20; round += 1) {
      const job = fresh()
      const outcomes = await Promise.all([
        create(job),
        Effect.runPromise(opened.others.jobs.createJobs([{ ...job, id: fresh().id }])),
      ])
      expect(outcomes.flatMap((outcome) => tags(outcome)).toSorted()).toEqual(["Created", "Replayed"])
    }
  })
})

describe("jobs that cannot be decided in one round trip are judged under locks", () => {
  it("a project near its cap gets its last place, and no more", async () => {
    const capped = (queueCap: number) => fresh({ projectId: projectId(77), queueCap })
    expect(tags(await create(capped(2)))).toEqual(["Created"])
    expect(tags(await create(capped(2), capped(2), capped(3)))).toEqual(["Created", "QueueFull", "Created"])
    expect(tags(await create(capped(3)))).toEqual(["QueueFull"])
  })

  it("a remembered lane that is gone is inserted again, and its jobs are claimed", async () => {
    const kind = "short_lived"
    const lane = () => opened.sql.query(`SELECT id FROM "kiln".lanes WHERE kind = $1`, [kind])
    const [first, second] = [fresh({ kind }), fresh({ kind })]
    await create(first)
    const claim = async () => {
      const runnable = [{ kind, kindVersion: 1, mode: "sandbox" as const }]
      const request = { runnable, limits: fixtures.noLimits, limit: 10, leaseDurationMs: 60_000, maxLostWorkers: 3 }
      const { claims } = await Effect.runPromise(opened.stores.jobs.claimJobs(request))
      return claims
    }
    const before = await lane()
    await Effect.runPromise(opened.stores.jobs.completeJobs((await claim()).map((one) => fixtures.completionOf(one))))
    await opened.sql.query(`DELETE FROM "kiln".lanes WHERE kind = $1`, [kind])
    const sent = await statementsOf(async () => expect(tags(await create(second))).toEqual(["Created"]))
    expect(sent.filter(isAdding)).toHaveLength(2)
    expect((await lane()).rows).not.toEqual(before.rows)
    expect((await claim()).map(({ job }) => job.id)).toEqual([second.id])
  })

  it("a remembered lane that has become another one is not used", async () => {
    const kind = "restored"
    await create(fresh({ kind }))
    // As a restored backup may have it: the number stands for another lane.
    await opened.sql.query(`UPDATE "kiln".lanes SET kind = 'another' WHERE kind = $1`, [kind])
    const job = fresh({ kind })
    expect(tags(await create(job))).toEqual(["Created"])
    const { rows } = await opened.sql.query(
      `SELECT lanes.kind FROM "kiln".queue JOIN "kiln".lanes ON lanes.id = lane_id WHERE queue.id = $1`,
      [job.id],
    )
    expect(rows).toEqual([{ kind }])
  })
})

describe("a lost connection", () => {
  it("before the server receives the statement: the job is created once", async () => {
    const job = fresh()
    const cut = opened.proxy.cutBefore(/accept_job/)
    expect(tags(await create(job))).toEqual(["Created"])
    await cut
  })

  it("after COMMIT, before any answer: the job is created once and reported as created", async () => {
    const job = fresh()
    const held = opened.proxy.dropAnswer(/accept_job/)
    const outcomes = await create(job)
    await held
    expect(outcomes).toMatchObject([{ _tag: "Created", job: { id: job.id, status: "queued" } }])
    // A repeat by another request is a replay, as ever.
    expect(tags(await create({ ...job, id: fresh().id }))).toEqual(["Replayed"])
    const { rowCount } = await opened.sql.query(`SELECT FROM "kiln".jobs WHERE idempotency_key = $1`, [
      job.idempotencyKey,
    ])
    expect(rowCount).toBe(1)
  })
})
