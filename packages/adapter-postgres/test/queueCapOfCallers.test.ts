import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { CallerTransactions, JobStore, type NewJob } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { PostgresStores } from "../src/index.ts"
import { connected, emptyDatabase, runSql } from "./support/databases.ts"

const { newJob, projectId } = fixtures
const project = projectId(300)
const capped = (n: number): NewJob => newJob(n, { projectId: project, queueCap: 5 })

describe("a queue cap and a transaction of a caller's", () => {
  it.live("counts its jobs once it has committed", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const client = yield* connected(url)
      const sql = (text: string) => Effect.promise(() => client.query(text))
      yield* Effect.gen(function* () {
        const callers = yield* CallerTransactions
        const store = yield* JobStore
        yield* sql("BEGIN")
        yield* callers.createJobs(client, [capped(1), capped(2), capped(3)])
        // Counts the jobs of the project: none is visible yet.
        const first = yield* store.createJobs([capped(4)])
        expect(first.map(({ _tag }) => _tag)).toEqual(["Created"])
        yield* sql("COMMIT")
        // Four are unfinished: one more fits.
        for (let n = 5; n < 12; n++) yield* store.createJobs([capped(n)])
        const [row] = yield* runSql(
          url,
          `SELECT count(*)::int AS n FROM "kiln".queue JOIN "kiln".lanes ON lanes.id = lane_id WHERE lanes.project_id = '${project}'`,
        )
        expect((row as { n: number }).n).toBe(5)
      }).pipe(Effect.provide(PostgresStores.layer({ url, poolSize: 3, notifications: false })))
    }).pipe(Effect.scoped),
  )
})
