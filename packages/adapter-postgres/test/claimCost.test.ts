import { Effect } from "effect"
import pg from "pg"
import { describe, expect, it } from "vitest"
import { freshDatabase } from "@kiln/postgres-lab"
import { postgresMigrations, PostgresStores } from "../src/index.ts"
import { claimingStore, costRatio } from "./support/claimCost.ts"
import { type Filling, fillStore } from "./support/fillStore.ts"

const filled = async (filling: Filling) => {
  const database = await freshDatabase()
  await Effect.runPromise(postgresMigrations.apply({ url: database.url }))
  await fillStore(database.url, filling)
  const store = claimingStore(PostgresStores.layer({ url: database.url, poolSize: 3, notifications: false }))
  return {
    ...store,
    url: database.url,
    [Symbol.asyncDispose]: async () => {
      await store.dispose()
      await database.dispose()
    },
  }
}

/** A transaction that reads and does not end: nothing that goes while it is open can be vacuumed. */
const oldSnapshot = async (url: string) => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ")
  await client.query(`SELECT count(*) FROM "kiln".lanes`)
  return { [Symbol.asyncDispose]: () => client.end() }
}

describe("what a claim costs", () => {
  it("does not grow with what is finished or waits", { timeout: 120_000 }, async () => {
    await using small = await filled({ finished: 0, backlog: 2_000 })
    await using large = await filled({ finished: 100_000, backlog: 20_000 })
    await costRatio(large, small, 10)
    const { cheapMs, dearMs, ratio } = await costRatio(large, small, 80)
    expect(ratio, `${dearMs} ms against ${cheapMs} ms`).toBeLessThan(1.3)
  })

  it("does not grow while an old snapshot keeps what is done from being vacuumed", { timeout: 120_000 }, async () => {
    await using fresh = await filled({ finished: 0, backlog: 2_000 })
    await using worn = await filled({ finished: 0, backlog: 12_000 })
    await using _snapshot = await oldSnapshot(worn.url)
    for (let round = 0; round < 800; round += 1) await worn.claim()
    const { cheapMs, dearMs, ratio } = await costRatio(worn, fresh, 80)
    expect(ratio, `${dearMs} ms against ${cheapMs} ms`).toBeLessThan(1.3)
  })
})
