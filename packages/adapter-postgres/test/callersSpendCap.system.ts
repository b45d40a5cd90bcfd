import { postgresStore } from "@kiln/adapter-postgres"
import { createEngine, jobKind } from "@kiln/core"
import { freshDatabase, withClient } from "@kiln/postgres-lab"
import { memoryBlobs } from "@kiln/testing"
import { setTimeout as pause } from "node:timers/promises"
import pg from "pg"
import * as Schema from "effect/Schema"
import { expect, it } from "vitest"

/** A job costs between 1 and 5. */
const print = jobKind({
  name: "print",
  request: Schema.Struct({ pages: Schema.Number }),
  meters: ["pages"],
  price: "print",
  maxUsage: ({ pages }) => ({ pages }),
  run: async ({ request }) => ({ output: {}, usage: { pages: request.pages } }),
})

const projects = ["a", "b", "c"] as const
const cap = 40

/** Numbers in [0, 1) that a seed repeats. */
const chances = (seed: number) => {
  let state = seed
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return state / 2_147_483_648
  }
}

it.each([1, 2])(
  "callers' transactions over three capped projects, in any order, rolled back and killed at random: no wait, no leak, no cap passed (seed %i)",
  async (seed) => {
    await using database = await freshDatabase()
    const engine = await createEngine({
      store: postgresStore({ url: database.url, poolSize: 4 }),
      blobs: memoryBlobs(),
      kinds: [print],
      log: false,
    })
    try {
      await engine.operator.setPrice({ name: "print", currency: "usd", unitAmounts: { pages: "1" } })
      for (const project of projects)
        await engine.operator.setSpendCap({ project }, { currency: "usd", day: String(cap) })
      const chance = chances(seed)
      const anyOf = <A>(list: ReadonlyArray<A>): A => list[Math.floor(chance() * list.length)] as A
      const outcomes = { accepted: 0, refused: 0 }
      const submit = async (transaction?: pg.Client) => {
        const pages = 1 + Math.floor(chance() * 5)
        const options = { project: anyOf(projects), mode: "live", ...(transaction && { transaction }) } as const
        await engine.submit("print", { pages }, options).then(
          () => (outcomes.accepted += 1),
          (error: unknown) => {
            if ((error as { readonly code?: string }).code !== "spend_cap_reached") throw error
            outcomes.refused += 1
          },
        )
      }
      const caller = async () => {
        const client = new pg.Client({ connectionString: database.url })
        client.on("error", () => undefined)
        await client.connect()
        await client.query("BEGIN")
        for (let n = 0; n < 3; n++) {
          await client.query("SAVEPOINT mine")
          await submit(client)
          if (chance() < 0.3) await client.query("ROLLBACK TO SAVEPOINT mine")
        }
        // One that is left open holds up nobody.
        if (chance() < 0.3) await submit()
        const end = anyOf(["COMMIT", "COMMIT", "ROLLBACK", "kill"])
        if (end === "kill") {
          const { rows } = await client.query<{ pid: number }>("SELECT pg_backend_pid() AS pid")
          await withClient(database.url, (one) => one.query(`SELECT pg_terminate_backend(${rows[0]?.pid}, 5000)`))
        } else await client.query(end)
        await client.end().catch(() => undefined)
      }
      for (let round = 0; round < 6; round++) await Promise.all(Array.from({ length: 6 }, caller))
      const unfinished = async () => (await engine.operator.listSpending()).some(({ reserved }) => reserved !== "0")
      while (await unfinished()) await pause(50)
      for (const { day, reserved } of await engine.operator.listSpending()) {
        expect(Number(day)).toBeLessThanOrEqual(cap)
        expect(reserved).toBe("0")
      }
      expect(outcomes.accepted).toBeGreaterThan(20)
      expect(outcomes.refused).toBeGreaterThan(0)
    } finally {
      await engine.stop()
    }
  },
  120_000,
)
