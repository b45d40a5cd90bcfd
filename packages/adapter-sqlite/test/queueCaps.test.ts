import { describe, expect, it, vi } from "@effect/vitest"
import { Effect } from "effect"
import type { JobStore, NewJob } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { unfinishedJobs } from "../src/jobs/CountedProjects.ts"
import { openDatabase } from "../src/openDatabase.ts"
import { compiled } from "../src/Statement.ts"
import { PreparedStatements } from "../src/Transaction.ts"
import { storesOf } from "./support/arrangeJobs.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const { completionOf, newJob, noLimits, projectId } = fixtures

/** Two processes with one file. */
const opened = Effect.gen(function* () {
  const path = yield* temporaryFile
  const databases = [yield* openDatabase({ path }), yield* openDatabase({ path })] as const
  return {
    sql: databases[1].connection,
    stores: [storesOf(databases[0]).jobs, storesOf(databases[1]).jobs] as const,
  }
})

let numbers = 0
const next = (changes: Partial<NewJob>): NewJob => newJob((numbers += 1), changes)
const create = (store: JobStore["Service"], ...jobs: ReadonlyArray<NewJob>) =>
  Effect.map(store.createJobs(jobs), (outcomes) => outcomes.map(({ _tag }) => _tag))

const endOne = (store: JobStore["Service"], kind: string) =>
  Effect.gen(function* () {
    const runnable = [{ kind, kindVersion: 1, mode: "sandbox" as const }]
    const request = { runnable, limits: noLimits, limit: 1, leaseDurationMs: 60_000, maxLostWorkers: 3 }
    const { claims } = yield* store.claimJobs(request)
    yield* store.completeJobs(claims.map((claim) => completionOf(claim)))
    return claims.length
  })

describe("a queue cap", () => {
  it.live("far from it, nothing is counted, for one job and for several", () =>
    Effect.gen(function* () {
      const { stores } = yield* opened
      const some = (count: number) => Array.from({ length: count }, () => next({ queueCap: 100 }))
      yield* create(stores[0], ...some(1))
      const prepared = vi.spyOn(PreparedStatements.prototype, "get")
      for (const count of [1, 5, 1]) yield* create(stores[0], ...some(count))
      expect(prepared.mock.calls.flat()).not.toContain(compiled(unfinishedJobs).sql)
      prepared.mockRestore()
    }),
  )

  it.live("a number that is given again, after the newest job was deleted, counts", () =>
    Effect.gen(function* () {
      const { sql, stores } = yield* opened
      const capped = () => next({ projectId: projectId(7), queueCap: 1, kind: "short" })
      const other = () => next({ projectId: projectId(8), kind: "another" })
      yield* create(stores[1], other())
      // Counted, with the job of the other project as the newest.
      expect(yield* create(stores[0], capped())).toEqual(["Created"])
      yield* endOne(stores[1], "short")
      sql.exec("DELETE FROM kiln_jobs WHERE kind = 'short'")
      yield* endOne(stores[1], "another")
      sql.exec("DELETE FROM kiln_jobs WHERE kind = 'another'")
      expect(yield* create(stores[1], capped())).toEqual(["Created"])
      expect(yield* create(stores[0], capped())).toEqual(["QueueFull"])
    }),
  )

  it.live("decides as a count does, by two processes, in any order of creations, ends and deletions", () =>
    Effect.gen(function* () {
      const { sql, stores } = yield* opened
      const counts = sql.prepare(`SELECT count(*) AS jobs FROM kiln_jobs WHERE project_id = ? AND finished_at IS NULL`)
      let state = 7
      const chance = (below: number) => {
        state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
        return Math.floor((state / 2_147_483_648) * below)
      }
      const tally: Record<string, number> = {}
      for (let step = 0; step < 1_500; step += 1) {
        const store = stores[chance(2)] ?? stores[0]
        const project = projectId(1 + chance(2))
        const move = chance(10)
        if (move < 3) yield* endOne(store, `kind_${project.slice(-1)}`)
        else if (move === 3 && chance(4) === 0) sql.exec("DELETE FROM kiln_jobs WHERE finished_at IS NOT NULL")
        else {
          let unfinished = (counts.get([project]) as { readonly jobs: number }).jobs
          const jobs = Array.from({ length: move < 8 ? 1 : 1 + chance(4) }, () =>
            next({ projectId: project, kind: `kind_${project.slice(-1)}`, queueCap: [0, 4, 12][chance(3)] ?? 0 }),
          )
          const expected = jobs.map(({ queueCap }) => {
            if (queueCap > 0 && unfinished >= queueCap) return "QueueFull"
            unfinished += 1
            return "Created"
          })
          expect(yield* create(store, ...jobs)).toEqual(expected)
          for (const tag of expected) tally[tag] = (tally[tag] ?? 0) + 1
        }
      }
      expect(tally["Created"]).toBeGreaterThan(100)
      expect(tally["QueueFull"]).toBeGreaterThan(100)
    }),
  )
})
