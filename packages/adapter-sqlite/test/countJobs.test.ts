import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { fixtures } from "@kiln/conformance"
import { labelsOf } from "@kiln/core/rules"
import { makeSqliteJobDirectory } from "../src/jobs/directory.ts"
import { openDatabase } from "../src/openDatabase.ts"
import { storesOf } from "./support/arrangeJobs.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const { completionOf, newJob, noLimits } = fixtures

const tagged = { "kiln:submitted": { tags: ["counted"] } }

describe("counting jobs by a tag", () => {
  it.live("leaves the thread to others between its parts, and counts each job once", () =>
    Effect.gen(function* () {
      const database = yield* openDatabase({ path: yield* temporaryFile })
      const { jobs: store } = storesOf(database)
      const directory = makeSqliteJobDirectory(database)
      for (let n = 0; n < 3_000; n += 500)
        yield* store.createJobs(
          Array.from({ length: 500 }, (_, at) => newJob(n + at, at % 5 === 0 ? {} : { metadata: tagged })),
        )
      const runnable = [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" as const }]
      const request = { runnable, limits: noLimits, limit: 1, leaseDurationMs: 60_000, maxLostWorkers: 3 }
      const state = { isCounting: true, ended: 0 }
      const ending = Effect.gen(function* () {
        while (state.isCounting) {
          const { claims } = yield* store.claimJobs(request)
          yield* store.completeJobs(claims.map((claim) => completionOf(claim)))
          state.ended += 1
          yield* Effect.yieldNow
        }
      })
      const [label] = labelsOf(tagged)
      const count = directory.countJobs({ finishedWithinMs: 60_000, labels: label === undefined ? [] : [label] })
      const [counts] = yield* Effect.all(
        [
          Effect.ensuring(
            count,
            Effect.sync(() => (state.isCounting = false)),
          ),
          ending,
        ],
        { concurrency: "unbounded" },
      )
      expect(counts.reduce((sum, { count: part }) => sum + part, 0)).toBe(2_400)
      expect(state.ended).toBeGreaterThan(1)
    }),
  )
})
