import { Effect } from "effect"
import pg from "pg"
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest"
import { fixtures } from "@kiln/conformance"
import type { ClaimRequest, NewJob } from "@kiln/core/ports"
import { freshDatabase } from "@kiln/postgres-lab"
import { clientConfig } from "../src/connection/pool.ts"
import { LanePositions } from "../src/jobs/LanePositions.ts"
import { takeJobs } from "../src/jobs/takeJobs.ts"
import { connectionOptions } from "../src/connection/options.ts"
import { Session } from "../src/connection/Session.ts"
import { openStores } from "./faults/support/openStores.ts"

const { jobId, keyId, newJob, noLimits, projectId } = fixtures

const open = async () => {
  const database = await freshDatabase()
  const stores = await openStores({ url: database.url, poolSize: 3, noteLanesEveryMs: 0 })
  const client = new pg.Client({ ...clientConfig(connectionOptions({ url: database.url }), "test"), pipeline: true })
  await client.connect()
  return { database, stores, client }
}
let opened: Awaited<ReturnType<typeof open>>
beforeAll(async () => {
  opened = await open()
})
afterAll(async () => {
  await opened.client.end()
  await opened.stores.close()
  await opened.database.dispose()
})
beforeEach(() =>
  opened.client.query(`TRUNCATE "kiln".queue, "kiln".jobs, "kiln".results, "kiln".lanes RESTART IDENTITY CASCADE`),
)

const runnable = ["speech_synthesis", "transcription"].map((kind) => ({
  kind,
  kindVersion: 1,
  mode: "sandbox" as const,
}))
const request: ClaimRequest = { runnable, limits: noLimits, limit: 10, leaseDurationMs: 60_000, maxLostWorkers: 3 }
const oneOfEach = { perKind: { speech_synthesis: 1 }, perProject: 1 }

const create = (...jobs: ReadonlyArray<NewJob>) => Effect.runPromise(opened.stores.jobs.createJobs(jobs))
const claim = (over: Partial<ClaimRequest> = {}) =>
  Effect.runPromise(opened.stores.jobs.claimJobs({ ...request, ...over }))
const cancel = (...numbers: ReadonlyArray<number>) =>
  Effect.runPromise(opened.stores.jobs.cancelJobs(numbers.map((n) => jobId(n))))
const ofProject = (n: number, project: number, over: Partial<NewJob> = {}) =>
  newJob(n, { projectId: projectId(project), keyId: keyId(project), ...over })
const normal = (count: number): ReadonlyArray<NewJob> => Array.from({ length: count }, (_, n) => newJob(n + 1))

/** How often a claim of up to 10 jobs enters an index. The claim is undone. */
const entersOf = async (index: string, over: Partial<ClaimRequest> = {}): Promise<number> => {
  const { client } = opened
  const enters = async () => {
    const { rows } = await client.query<{ count: number }>(
      `SELECT pg_stat_get_xact_numscans('"kiln".${index}'::regclass) AS count`,
    )
    return Number(rows[0]?.count)
  }
  await client.query("BEGIN")
  try {
    const session = new Session(client, { schema: "kiln", prepared: false, lockTimeoutMs: 3_000 })
    const positions = new LanePositions(60_000)
    positions.found(2)
    const before = await enters()
    await takeJobs(session, positions, { ...request, ...over }, { claim: 1, repeated: false })
    return (await enters()) - before
  } finally {
    await client.query("ROLLBACK")
  }
}

describe("a claim looks into the queue", () => {
  // First for the jobs, and then in every rank for when there is more.
  it("for normal jobs and above them, where these fill it", async () => {
    await create(...normal(12))
    expect(await entersOf("queue_by_turn")).toBe(2 + 3)
  })

  it("below them too, where they do not", async () => {
    await create(...normal(3))
    expect(await entersOf("queue_by_turn")).toBe(3 + 3)
  })

  it("for every rank above normal only where there is any", async () => {
    await create(...normal(12), newJob(20, { priority: 4 }))
    expect(await entersOf("queue_by_turn")).toBe(7 + 8)
  })

  it("without counting what is held, unless there are limits", async () => {
    await create(...normal(3))
    expect(await entersOf("queue_held")).toBe(0)
    expect(await entersOf("queue_held", { limits: { perKind: {}, perProject: 9 } })).toBe(1)
    // At the limit, it counts again, for the first end of a lease.
    expect(await entersOf("queue_held", { limits: { perKind: {}, perProject: 2 } })).toBe(2)
  })
})

describe("where limits of kinds and projects cross", () => {
  const first = ofProject(1, 1)
  const heldBack = ofProject(2, 2)
  const behind = ofProject(3, 2, { kind: "transcription" })

  it("a lane that only another's turns hold back is not passed by the ones behind it, if that other has nothing", async () => {
    await create(first, heldBack, behind)
    // The lane stays, as one that may have something.
    await cancel(1)
    const { claims } = await claim({ limits: oneOfEach })
    expect(claims.map(({ job }) => job.id)).toEqual([jobId(2)])
  })

  it("it is passed if the other has a job", async () => {
    await create(first, heldBack, behind)
    const { claims, nextInMs } = await claim({ limits: oneOfEach })
    expect(claims.map(({ job }) => job.id)).toEqual([jobId(1), jobId(3)])
    expect(nextInMs).toBeGreaterThan(50_000)
  })
})

it("a process that has saved no turns serves each of many lanes once before it serves one again", async () => {
  const projects = 60
  await create(...Array.from({ length: 2 * projects }, (_, n) => ofProject(n, n % projects)))
  const session = new Session(opened.client, { schema: "kiln", prepared: false, lockTimeoutMs: 3_000 })
  const positions = new LanePositions(60_000)
  // Its first turn is saved at once.
  positions.claimed(
    {
      served: [{ id: 0, start: 0, count: 1, group: "" }],
      visited: [],
      exhausted: new Set(),
      hidOthers: false,
      clock: 0,
    },
    0,
  )
  const served: Array<string> = []
  for (let round = 0; served.length < 2 * projects; round += 1) {
    const taken = await takeJobs(session, positions, { ...request, limit: 7 }, { claim: 100 + round, repeated: false })
    if (taken.claims.length === 0) break
    expect(positions.claimed(taken, 0).served).toEqual([])
    served.push(...taken.claims.map(({ job }) => job.id))
  }
  expect(served).toEqual(Array.from({ length: 2 * projects }, (_, n) => jobId(n)))
})

it("a claim finds the job behind many empty lanes that cannot be set aside", async () => {
  const { client, database } = opened
  await create(...Array.from({ length: 70 }, (_, n) => ofProject(n + 1, n + 1)))
  await cancel(...Array.from({ length: 69 }, (_, n) => n + 1))
  const adding = new pg.Client({ connectionString: database.url })
  await adding.connect()
  // What adds jobs to lanes holds these, perhaps for minutes.
  await adding.query("BEGIN")
  await adding.query(
    `SELECT pg_advisory_xact_lock_shared(hashtextextended(current_database() || ' "kiln".lanes mod 256 ' || id % 256, 0)) FROM "kiln".lanes`,
  )
  const { claims } = await claim({ limit: 1 })
  expect(claims.map(({ job }) => job.id)).toEqual([jobId(70)])
  await adding.end()
  expect((await client.query(`SELECT count(*)::int AS count FROM "kiln".queue`)).rows).toEqual([{ count: 1 }])
})

it("a repeated claim under limits returns what it claimed, although no lane is due any more", async () => {
  const { client } = opened
  await create(...normal(3))
  const session = new Session(client, { schema: "kiln", prepared: false, lockTimeoutMs: 3_000 })
  const limited = { ...request, limits: oneOfEach }
  const take = (repeated: boolean) => takeJobs(session, new LanePositions(60_000), limited, { claim: 5, repeated })
  const first = await take(false)
  expect(first.claims.map(({ job }) => job.id)).toEqual([jobId(1)])
  await client.query(`UPDATE "kiln".lanes SET next_at = NULL`)
  const again = await take(true)
  expect(again.claims.map(({ job, token }) => [job.id, token])).toEqual([[jobId(1), 1]])
})

describe("while another claim with limits is not committed", () => {
  const limits = { perKind: {}, perProject: 2 }

  /** Holds the turn until the work is done. */
  const holdingTurn = async <A>(work: () => Promise<A>): Promise<A> => {
    await opened.client.query("BEGIN")
    await opened.client.query(
      `SELECT pg_advisory_xact_lock(hashtextextended(current_database() || ' "kiln".claims', 0))`,
    )
    try {
      return await work()
    } finally {
      await opened.client.query("COMMIT")
    }
  }

  it("a claim waits for its turn", async () => {
    await create(...normal(3))
    let claimed: ReturnType<typeof claim> | undefined
    let isAnswered = false
    await holdingTurn(async () => {
      claimed = claim({ limits })
      void claimed.then(() => (isAnswered = true))
      await expect
        .poll(() => opened.client.query(`SELECT FROM pg_locks WHERE NOT granted`).then(({ rows }) => rows.length))
        .toBe(1)
      expect(isAnswered).toBe(false)
    })
    expect((await claimed)?.claims).toHaveLength(2)
  })

  it("a creation does not wait, and claims nothing", async () => {
    // The process knows the lane.
    await create(newJob(1))
    await claim()
    const { claimed, created } = await holdingTurn(() =>
      Effect.runPromise(opened.stores.jobs.createAndClaimJobs([newJob(2)], { ...request, limits })),
    )
    expect(created).toMatchObject([{ _tag: "Created" }])
    expect(claimed).toBe(undefined)
    const again = await Effect.runPromise(
      opened.stores.jobs.createAndClaimJobs([newJob(3)], { ...request, limits: { perKind: {}, perProject: 3 } }),
    )
    expect(again.claimed?.claims.map(({ job }) => job.id)).toEqual([jobId(2), jobId(3)])
  })

  it("a worker that finds nothing does not wait", async () => {
    const { claims } = await holdingTurn(() => claim({ limits }))
    expect(claims).toEqual([])
  })
})
