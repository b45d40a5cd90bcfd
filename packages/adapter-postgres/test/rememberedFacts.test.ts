import { Effect } from "effect"
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest"
import type { NewJob } from "@kiln/core/ports"
import { freshDatabase, tcpProxy } from "@kiln/postgres-lab"
import { fixtures } from "@kiln/conformance"
import { must, openStores, tags } from "./faults/support/openStores.ts"
import { session } from "./faults/support/session.ts"

const { audioGate, keyId, newJob, newLiveJob, newUpload, newUploadJob, projectId, uploadedFile, uploadId } = fixtures
const run = Effect.runPromise
const kind = "speech_synthesis"

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
const next = () => (numbers += 1)
const live = (changes: Partial<NewJob> = {}) => newLiveJob(next(), changes)
const create = (...jobs: ReadonlyArray<NewJob>) => run(opened.stores.jobs.createJobs(jobs))
const createElsewhere = (...jobs: ReadonlyArray<NewJob>) => run(opened.others.jobs.createJobs(jobs))

/** The statements of a creation. */
const statementsOf = async (work: () => Promise<unknown>): Promise<ReadonlyArray<string>> => {
  opened.proxy.resetCounts()
  await work()
  return [...opened.proxy.statements()].flatMap(([text, count]) => Array.from({ length: count }, () => text))
}

/** The board as others set it, with everything that a live job needs. */
const openBoard = async (unitAmount: string) => {
  const { board } = opened.others
  for (const name of ["ai", "audio"]) await run(board.setSwitch(name, true))
  await run(board.setPrice({ name: audioGate.price, currency: "usd", unitAmounts: { input_characters: unitAmount } }))
  await run(board.activatePrice(audioGate.price, true))
  await run(board.publishWorker({ workerId: "worker", liveKinds: [kind], providers: [], ttlMs: 600_000 }))
}

beforeEach(async () => {
  await openBoard("0.000015")
  await opened.sql.query(`UPDATE "kiln".served_kinds SET served_at = "kiln".store_time()`)
  // The process remembers the board and the lanes.
  for (const job of [live(), newJob(next())]) expect(tags(await create(job))).toEqual(["Created"])
})

describe("a board that another process has changed", () => {
  it("a switch that was turned off refuses the next job, and one that was turned on again accepts it", async () => {
    for (const jobs of [1, 2]) {
      await run(opened.others.board.setSwitch("ai", false))
      const closed = { _tag: "GateClosed", missing: ["switch:ai"] }
      const outcomes = await create(...Array.from({ length: jobs }, () => live()))
      expect(outcomes).toEqual(Array.from({ length: jobs }, () => closed))
      await run(opened.others.board.setSwitch("ai", true))
      expect(tags(await create(live(), live()))).toEqual(["Created", "Created"])
      expect(await statementsOf(() => create(live()))).toHaveLength(1)
    }
  })

  it("a new price is the price of the next job, in two statements more", async () => {
    await openBoard("0.5")
    const { version } = must(
      (await run(opened.others.board.listPrices)).findLast(({ name, active }) => name === audioGate.price && active),
    )
    const job = live()
    const sent = await statementsOf(async () =>
      expect(await create(job)).toMatchObject([
        { job: { price: { version, unitAmounts: { input_characters: "0.5" } } } },
      ]),
    )
    expect(sent).toHaveLength(3)
    const { rows } = await opened.sql.query(
      `SELECT prices.version FROM "kiln".jobs JOIN "kiln".prices ON prices.id = price_id WHERE jobs.id = $1`,
      [job.id],
    )
    expect(rows).toEqual([{ version: String(version) }])
  })

  it("a price without a version in force refuses the next job", async () => {
    await run(opened.others.board.activatePrice(audioGate.price, false))
    expect(await create(live())).toMatchObject([{ _tag: "GateClosed", missing: [`price:${audioGate.price}`] }])
  })

  it("a change that no verb of kiln made counts as well", async () => {
    await opened.sql.query(`UPDATE "kiln".switches SET enabled = false WHERE name = 'audio'`)
    expect(tags(await create(live()))).toEqual(["GateClosed"])
    await opened.sql.query(`TRUNCATE "kiln".switches`)
    expect(await create(live())).toMatchObject([{ missing: ["switch:ai", "switch:audio"] }])
  })

  it("a change that waits for its commit counts from the commit on", async () => {
    await opened.sql.query(`BEGIN; UPDATE "kiln".switches SET enabled = false WHERE name = 'ai'`)
    expect(tags(await create(live()))).toEqual(["Created"])
    await opened.sql.query("COMMIT")
    expect(tags(await create(live()))).toEqual(["GateClosed"])
  })

  it("no live worker for longer than allowed refuses the next job, whatever the process has seen", async () => {
    await run(opened.others.board.publishWorker({ workerId: "worker", liveKinds: [kind], providers: [], ttlMs: 0 }))
    const withinMs = 300
    const gate = { ...audioGate, liveWorker: { kind, withinMs } }
    const at = await opened.sql.query(`SELECT served_at FROM "kiln".served_kinds`)
    expect(tags(await create(live({ gate: { ...audioGate, liveWorker: { kind, withinMs: 600_000 } } })))).toEqual([
      "Created",
    ])
    await opened.sql.query(`SELECT pg_sleep(greatest(0, $1::bigint + 300 - "kiln".store_time()) / 1000.0 + 0.01)`, [
      (at.rows as ReadonlyArray<{ served_at: string }>)[0]?.served_at,
    ])
    expect(await create(live({ gate }))).toMatchObject([{ _tag: "GateClosed", missing: [`provider:${kind}`] }])
    // Another kind of the same batch is judged as before.
    expect(tags(await create(live({ gate }), newJob(next())))).toEqual(["GateClosed", "Created"])
  })
})

describe("what others have taken", () => {
  const unique = (scope: string, duration: NonNullable<NewJob["unique"]>["while"] = "unfinished") => ({
    unique: { scope, while: duration },
  })

  it("a scope is taken once, by whichever process comes first, and free again once its job has finished", async () => {
    for (let round = 0; round < 20; round += 1) {
      const scope = `scope-${next()}`
      const outcomes = await Promise.all([
        create(newJob(next(), unique(scope))),
        createElsewhere(newJob(next(), unique(scope))),
      ])
      expect(outcomes.flatMap((outcome) => tags(outcome)).toSorted()).toEqual(["Created", "Duplicate"])
    }
    const scope = `scope-${next()}`
    const first = newJob(next(), { ...unique(scope), kind: "short" })
    await create(first)
    expect(tags(await create(newJob(next(), unique(scope)), newJob(next())))).toEqual(["Duplicate", "Created"])
    const runnable = [{ kind: "short", kindVersion: 1, mode: "sandbox" as const }]
    const request = { runnable, limits: fixtures.noLimits, limit: 1, leaseDurationMs: 60_000, maxLostWorkers: 3 }
    const { claims } = await run(opened.others.jobs.claimJobs(request))
    await run(opened.others.jobs.completeJobs(claims.map((claim) => fixtures.completionOf(claim))))
    expect(await statementsOf(() => create(newJob(next(), unique(scope))))).toHaveLength(1)
  })

  it("a scope that a job keeps for a time is free after it", async () => {
    const scope = `scope-${next()}`
    await create(newJob(next(), unique(scope, 60_000)))
    expect(tags(await create(newJob(next(), unique(scope, 60_000))))).toEqual(["Duplicate"])
    await opened.sql.query("SELECT pg_sleep(0.005)")
    expect(await statementsOf(() => create(newJob(next(), unique(scope, 1))))).toHaveLength(1)
  })

  it("a refused job leaves no entry of its scope, also where nothing of its batch was added", async () => {
    const entries = () => opened.sql.query(`SELECT FROM "kiln".job_scopes WHERE job_seq = 0`)
    const bound = newJob(next())
    await create(bound)
    expect(tags(await create({ ...bound, id: newJob(next()).id, ...unique(`scope-${next()}`) }))).toEqual(["Replayed"])
    const capped = { projectId: projectId(50), queueCap: 1 }
    await create(newJob(next(), capped))
    expect(tags(await create(newJob(next(), { ...capped, ...unique(`scope-${next()}`) })))).toEqual(["QueueFull"])
    expect((await entries()).rowCount).toBe(0)
  })

  /** An upload whose file has arrived, through the other process. */
  const stored = async () => {
    const { uploads } = opened.others
    const n = next()
    const id = uploadId(n)
    await run(uploads.createUploads([newUpload(n)]))
    const claimed = await run(uploads.claimUpload({ uploadId: id, leaseDurationMs: 60_000, maxTransfers: 5 }))
    if (claimed._tag !== "Claimed") throw new Error("the transfer did not begin")
    await run(uploads.completeUpload({ uploadId: id, token: claimed.token, file: uploadedFile(id, claimed.token) }))
    return n
  }

  it("an upload is used once, by whichever process comes first, and only by its owner", async () => {
    await create(newUploadJob(await stored()))
    for (let round = 0; round < 10; round += 1) {
      const n = await stored()
      const job = (): NewJob => newUploadJob(next(), { uploadId: uploadId(n) })
      const outcomes = await Promise.all([create(job()), createElsewhere(job())])
      expect(outcomes.flatMap((outcome) => tags(outcome)).toSorted()).toEqual(["Created", "UploadRefused"])
    }
    const n = await stored()
    const stranger = newUploadJob(next(), { uploadId: uploadId(n), keyId: keyId(77) })
    expect(await create(stranger)).toMatchObject([{ _tag: "UploadRefused", reason: "not_found" }])
    expect(tags(await create(newUploadJob(next(), { uploadId: uploadId(n) }), newJob(next())))).toEqual([
      "Created",
      "Created",
    ])
  })
})

describe("a lost answer", () => {
  it.each([
    ["a tag", { metadata: { "kiln:submitted": { tags: ["one"] } } }],
    ["a scope", { unique: { scope: "lost", while: "unfinished" as const } }],
    ["the last place under a cap", { projectId: projectId(60), queueCap: 2 }],
  ])("of a job with %s: it is created once and reported as created", async (_name, changes) => {
    // Makes the lane and has the process remember it.
    const others = { projectId: projectId(60), kind: "lost" }
    await create(newJob(next(), others))
    const job = newJob(next(), { ...others, ...changes })
    const held = opened.proxy.dropAnswer(/accept_job/)
    const outcomes = await create(job)
    await held
    expect(outcomes).toMatchObject([{ _tag: "Created", job: { id: job.id } }])
    const labels = await opened.sql.query(`SELECT FROM "kiln".job_labels WHERE job_id = $1`, [job.id])
    expect(labels.rowCount).toBe("metadata" in changes ? 1 : 0)
    await opened.sql.query(`UPDATE "kiln".queue SET deadline_at = 0 WHERE kind = 'lost'`)
    await run(opened.others.jobs.expireJobs(100))
  })
})

describe("spend caps", () => {
  it("a cap that another process has set counts for the next job, and no longer once it was removed", async () => {
    const owner = projectId(70)
    const job = () => live({ projectId: owner })
    expect(tags(await create(job()))).toEqual(["Created"])
    const cap = (day: string) => run(opened.others.board.setSpendCap(owner, { currency: "usd", day, month: null }))
    await cap("0.0002")
    expect(tags(await create(job(), job()))).toEqual(["Created", "SpendCapReached"])
    await run(opened.others.board.setSpendCap(owner, null))
    expect(tags(await create(job()))).toEqual(["Created"])
    expect(await statementsOf(() => create(job()))).toHaveLength(1)
    await cap("0.0001")
    expect(tags(await create(job()))).toEqual(["SpendCapReached"])
  })
})
