import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { fixtures } from "@kiln/conformance"
import { makeAuditLog } from "@kiln/sql-store"
import { inspectSqlite } from "../src/index.ts"
import { openDatabase } from "../src/openDatabase.ts"
import { transactionsOf } from "../src/transactionsOf.ts"
import { storesOf } from "./support/arrangeJobs.ts"
import { pathOf } from "./support/pathOf.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const { newJob, newLiveJob } = fixtures

const inspect = (path: string) =>
  Effect.flatMap(inspectSqlite({ path }), (inspection) =>
    inspection === undefined ? Effect.die(new Error("there is no database")) : Effect.succeed(inspection),
  )

const open = Effect.flatMap(temporaryFile, (path) => openDatabase({ path }))

describe("an inspection", () => {
  it.effect("counts the queue by kind, mode and state", () =>
    Effect.gen(function* () {
      const database = yield* open
      const { jobs } = storesOf(database)
      const claim = jobs.claimJobs({
        runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }],
        limits: fixtures.noLimits,
        limit: 1,
        leaseDurationMs: 30_000,
        maxLostWorkers: 3,
      })
      const count = Effect.flatMap(inspect(pathOf(database)), (inspection) => inspection.countQueue)
      expect(yield* count).toEqual([])
      const delayed = { delayMs: 500_000 }
      yield* jobs.createJobs([newJob(1), newJob(2), newJob(3, delayed), newLiveJob(4, { gate: null, ...delayed })])
      yield* claim
      yield* TestClock.adjust(10_000)
      const of = (state: string, oldestMs: number, mode = "sandbox") => ({
        kind: "speech_synthesis",
        mode,
        state,
        count: 1,
        oldestMs,
      })
      expect(yield* count).toEqual([of("delayed", 0, "live"), of("delayed", 0), of("ready", 10_000), of("running", 0)])
      yield* TestClock.adjust(30_000)
      expect(yield* count).toContainEqual(of("lapsed", 10_000))
    }),
  )

  it.effect("reads the board, the keys and the last change of a kind", () =>
    Effect.gen(function* () {
      const database = yield* open
      const { board, keys } = storesOf(database)
      yield* board.setSwitch("ai", true)
      yield* keys.createProject({ id: fixtures.projectId(1), name: "one" })
      yield* keys.createKey(fixtures.newApiKey(1))
      const log = makeAuditLog(transactionsOf(database))
      const entry = (action: string, subject: string) =>
        log.append({ actor: "user a", origin: "host b", action, subject, details: { n: 1 } })
      yield* entry("key.create", "key")
      yield* entry("backup.create", "/first")
      yield* entry("backup.create", "/second")
      yield* entry("switch.set", "ai")
      const inspection = yield* inspect(pathOf(database))
      expect(yield* inspection.readBoard).toEqual(yield* board.readBoard)
      expect(yield* inspection.listKeys).toEqual(yield* keys.listKeys)
      expect(yield* inspection.findLastChange("backup.create")).toMatchObject({
        subject: "/second",
        details: { n: 1 },
      })
      expect(yield* inspection.findLastChange("backup.restore")).toBe(undefined)
    }),
  )
})
