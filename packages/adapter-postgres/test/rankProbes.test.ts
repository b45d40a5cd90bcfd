import { expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { fixtures } from "@kiln/conformance"
import type { NewJob } from "@kiln/core/ports"
import { JobStore } from "@kiln/core/ports"
import { postgresMigrations, PostgresStores } from "../src/index.ts"
import { lockHeads } from "../src/jobs/claimJobs.ts"
import { connected } from "./support/databases.ts"
import { temporaryDatabase } from "./support/places.ts"

const { newJob } = fixtures

interface PlanNode {
  readonly "Index Name"?: string
  readonly "Actual Loops": number
  readonly Plans?: ReadonlyArray<PlanNode>
}

const probesIn = (plan: PlanNode): number =>
  (plan["Index Name"] === "queue_by_turn" ? plan["Actual Loops"] : 0) +
  (plan.Plans ?? []).reduce((sum, next) => sum + probesIn(next), 0)

/** How often a claim of up to 10 jobs of one lane with these jobs enters the index of the queue. */
const probesFor = Effect.fnUntraced(function* (...jobs: ReadonlyArray<NewJob>) {
  const url = yield* temporaryDatabase()
  yield* postgresMigrations.apply({ url })
  const layer = PostgresStores.layer({ url, poolSize: 2, notifications: false })
  yield* Effect.provide(
    Effect.flatMap(JobStore, (store) => store.createJobs(jobs)),
    layer,
  )
  const client = yield* connected(url)
  const now = Date.now() + 60_000
  const { rows } = yield* Effect.promise(() =>
    client.query<{ "QUERY PLAN": ReadonlyArray<{ readonly Plan: PlanNode }> }>(
      `EXPLAIN (ANALYZE, FORMAT JSON) ${lockHeads.sql}`,
      [...lockHeads.bind([{ laneId: 1, floor: 0, count: 10 }], { now })],
    ),
  )
  const [explained] = rows[0]?.["QUERY PLAN"] ?? []
  if (explained === undefined) throw new Error("there is no plan")
  return probesIn(explained.Plan)
})

const normal = (count: number): ReadonlyArray<NewJob> => Array.from({ length: count }, (_, n) => newJob(n))

it.live("a claim that normal jobs fill looks once above them, and not below", () =>
  Effect.gen(function* () {
    expect(yield* probesFor(...normal(12))).toBe(2)
  }),
)

it.live("a claim that normal jobs do not fill looks once below them too", () =>
  Effect.gen(function* () {
    expect(yield* probesFor(...normal(3))).toBe(3)
  }),
)

it.live("a lane with jobs above normal has those ranks searched, one by one", () =>
  Effect.gen(function* () {
    expect(yield* probesFor(...normal(12), newJob(20, { priority: 4 }))).toBe(7)
  }),
)
