import { setTimeout as pause } from "node:timers/promises"
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { fixtures } from "@kiln/conformance"
import { useCluster } from "./support/databases.ts"
import { forgottenCommit } from "./support/forgottenCommit.ts"
import { openStores, type OpenStores, outcomeOf, tags } from "./support/openStores.ts"
import { session } from "./support/session.ts"
import { claimRequest } from "./support/writingVerbs.ts"

const { completionOf, newJob, outputFile } = fixtures
const cluster = useCluster()

const fibers = 16

/** What somebody does who wants jobs done, and repeats what got no answer. */
const workOn = async ({ jobs }: OpenStores, fiber: number, isOver: () => boolean) => {
  const insist = async <A>(verb: Effect.Effect<A, { readonly _tag: string }>): Promise<A> => {
    for (;;) {
      const outcome = await Effect.runPromise(Effect.result(verb))
      if (outcome._tag === "Success") return outcome.success
      await pause(20)
    }
  }
  const accepted: Array<string> = []
  let completed = 0
  for (let n = 1; !isOver(); n++) {
    const job = newJob(fiber * 100_000 + n, { mode: "live" })
    const [created] = await insist(jobs.createJobs([job]))
    if (created?._tag !== "Created" && created?._tag !== "Replayed") throw new Error(`a job was ${created?._tag}`)
    accepted.push(job.id)
    const { claims } = await insist(
      jobs.claimJobs({ ...claimRequest, limit: 3, leaseDurationMs: 5_000, maxLostWorkers: 99 }),
    )
    for (const [at, claim] of claims.entries()) {
      const files = [outputFile(claim, fiber * 1_000_000 + n * 10 + at)]
      const [outcome] = await insist(jobs.completeJobs([completionOf(claim, { files })]))
      if (outcome === "Written") completed += 1
    }
  }
  return { accepted, completed }
}

describe("an immediate restart of the server under load", () => {
  it("loses and duplicates nothing; verbs succeed again within 5 s without reopening the store", async () => {
    await using database = await cluster.database()
    await using stores = await openStores({ url: database.url, migrate: false, poolSize: 6 })
    let over = false
    const work = Promise.all(Array.from({ length: fibers }, (_, fiber) => workOn(stores, fiber + 1, () => over)))
    await pause(1_000)
    await cluster.server.restart("immediate")
    const backAt = performance.now()
    expect(
      tags(await outcomeOf(Effect.retry(stores.jobs.createJobs([newJob(1, { mode: "live" })]), { times: 50 }))),
    ).toEqual(["Created"])
    const recoveredMs = performance.now() - backAt
    await pause(500)
    over = true
    const done = await work
    expect(recoveredMs).toBeLessThan(5_000)

    await using other = await session(database.url)
    const count = async (sql: string) =>
      Number((await other.query<{ n: string }>(`SELECT count(*) AS n FROM ${sql}`)).rows[0]?.n)
    const accepted = done.flatMap((fiber) => fiber.accepted)
    expect(accepted.length).toBeGreaterThan(fibers)
    const { rows } = await other.query<{ id: string }>('SELECT id FROM "kiln".jobs ORDER BY id')
    expect(rows.map(({ id }) => id)).toEqual([newJob(1).id, ...accepted].toSorted())
    const completed = done.reduce((sum, fiber) => sum + fiber.completed, 0)
    expect(await count(`"kiln".results WHERE status = 'done'`)).toBe(completed)
    expect(await count('"kiln".charges')).toBe(completed)
    expect(await count('"kiln".files')).toBe(completed)
    expect(await count('"kiln".queue')).toBe(accepted.length + 1 - completed)
    // Each claim took an attempt and a number, and the end a number: none was made twice for one answer.
    expect(
      await count(`"kiln".results WHERE status = 'done' AND (token <> attempts + 1 OR lost_workers <> attempts - 1)`),
    ).toBe(0)
  })
})

describe("a crash that makes the server forget a transaction", () => {
  it("is not reported as committed when its number belongs to another transaction", async () => {
    expect(await forgottenCommit()).toEqual({
      // Whether it was done cannot be known.
      answer: "StoreUnavailable",
      stored: 0,
      repeated: ["Created"],
    })
  })
})
