import { describe, expect, it, vi } from "@effect/vitest"
import { Effect } from "effect"
import pg from "pg"
import { postgresMigrations, PostgresStores } from "../src/index.ts"
import { connected, emptyDatabase } from "./support/databases.ts"
import { everyState } from "./support/everyState.ts"
import { growing } from "./support/fillTables.ts"
import { hotVerbs } from "./support/hotVerbs.ts"

interface Prepared {
  readonly text: string
  /** How often it was planned for its parameters. */
  readonly custom: number
}

/** What the server keeps for each of this process's connections, heartbeats' among them. */
const preparedOn = (clients: ReadonlySet<pg.Client>): Effect.Effect<ReadonlyArray<ReadonlyArray<Prepared>>> =>
  Effect.promise(async () => {
    const all: Array<ReadonlyArray<Prepared>> = []
    for (const client of clients) {
      const { rows } = await client.query<Prepared>(
        "SELECT statement AS text, custom_plans::int AS custom FROM pg_prepared_statements ORDER BY statement",
      )
      all.push(rows)
    }
    expect(all.flat().filter(({ custom }) => custom === 5).length).toBeGreaterThan(15)
    return all
  })

const clientsOf = <A, E, R>(use: (clients: ReadonlySet<pg.Client>) => Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const url = yield* everyState
    const query = vi.spyOn(pg.Client.prototype, "query")
    // One connection for heartbeats, and one for everything else.
    const layer = PostgresStores.layer({ url, poolSize: 2, notifications: false })
    yield* Effect.gen(function* () {
      yield* hotVerbs(1)
      const clients = new Set(query.mock.contexts.filter((context) => context instanceof pg.Client))
      expect(clients.size).toBe(2)
      yield* use(clients)
    }).pipe(Effect.provide(layer))
    query.mockRestore()
  })

// The server compares the first five with one for all values, which it then takes unless it would be dearer.
it.live("no statement is prepared or planned again when its parameters change", () =>
  clientsOf((clients) =>
    Effect.gen(function* () {
      for (const round of [2, 3, 4, 5, 6, 7, 8, 9, 10]) yield* hotVerbs(round)
      for (const prepared of yield* preparedOn(clients)) {
        expect(prepared.map(({ text }) => text)).toEqual([...new Set(prepared.map(({ text }) => text))])
        expect(prepared.filter(({ custom }) => custom > 5)).toEqual([])
      }
    }),
  ),
)

describe("functions that read tables which grow", () => {
  const schema = Effect.gen(function* () {
    const url = yield* emptyDatabase
    yield* postgresMigrations.apply({ url })
    const client = yield* connected(url)
    const text =
      "SELECT proname AS name, prosrc AS body, coalesce(proconfig, '{}') AS settings FROM pg_proc WHERE pronamespace = 'kiln'::regnamespace"
    const { rows } = yield* Effect.promise(() =>
      client.query<{ name: string; body: string; settings: ReadonlyArray<string> }>(text),
    )
    return rows
  })

  /** Run once, by migrations and copies, or add one row. */
  const others = new Set(["recount_kept_bytes", "keep_bytes", "lock_charges"])

  it.live("make no sequential scans, whatever the tables looked like when their statements were planned", () =>
    Effect.gen(function* () {
      const reads = new RegExp(`"kiln"\\.(${growing.join("|")})\\b`)
      const functions = (yield* schema).filter(({ body, name }) => reads.test(body) && !others.has(name))
      expect(functions.length).toBeGreaterThan(20)
      expect(
        functions.filter(({ settings }) => !settings.includes("enable_seqscan=off")).map(({ name }) => name),
      ).toEqual([])
    }),
  )

  it.live("that claim and end jobs keep one plan for all parameters", () =>
    Effect.gen(function* () {
      const keeping = (yield* schema).filter(({ settings }) => settings.includes("plan_cache_mode=force_generic_plan"))
      expect(keeping.map(({ name }) => name).toSorted()).toEqual([
        "claim_jobs",
        "end_jobs",
        "take_jobs",
        "take_jobs_in_turn",
      ])
    }),
  )
})
