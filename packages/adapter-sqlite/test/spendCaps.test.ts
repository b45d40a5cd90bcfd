import { describe, expect, it, vi } from "@effect/vitest"
import { Effect } from "effect"
import type { SpendOwner } from "@kiln/core/domain"
import { fixtures } from "@kiln/conformance"
import { openDatabase } from "../src/openDatabase.ts"
import { Transaction } from "../src/Transaction.ts"
import { storesOf } from "./support/arrangeJobs.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const { keyId, newLiveJob, projectId } = fixtures

/** A character costs 0.1. */
const opened = Effect.gen(function* () {
  const database = yield* openDatabase({ path: yield* temporaryFile })
  const { board, jobs } = storesOf(database)
  yield* board.setSwitch("ai", true)
  yield* board.setSwitch("audio", true)
  yield* board.setPrice({ name: "svc-audio", currency: "usd", unitAmounts: { input_characters: "0.1" } })
  yield* board.activatePrice("svc-audio", true)
  yield* board.publishWorker({ workerId: "worker", liveKinds: ["speech_synthesis"], providers: [], ttlMs: 86_400_000 })
  const cap = (owner: SpendOwner, day = "100000") => board.setSpendCap(owner, { currency: "usd", day, month: null })
  const reserved = Effect.map(board.listSpending, (all) => all.map((spending) => spending.reserved))
  return { board, cap, jobs, reserved, sql: database.connection }
})

/** Live jobs that cost at most between 0.1 and 12.7. */
const some = (from: number, count: number) =>
  Array.from({ length: count }, (_, n) =>
    newLiveJob(from + n, { maxUsage: { input_characters: charactersOf(from + n) } }),
  )

const charactersOf = (n: number): number => 1 + (n % 127)

const costOf = (count: number): string =>
  `${Array.from({ length: count }, (_, n) => charactersOf(n + 1)).reduce((sum, characters) => sum + characters, 0) / 10}`

describe("a spend cap", () => {
  it.live("a job among hundreds under it reads as few rows as the first one", () =>
    Effect.gen(function* () {
      const { cap, jobs, reserved } = yield* opened
      yield* cap(projectId(1))
      yield* cap(keyId(1))
      yield* jobs.createJobs(some(1, 400))
      const read = vi.spyOn(Transaction.prototype, "all")
      const created = yield* jobs.createJobs(some(401, 60))
      const rows = read.mock.results.map(({ value }) => (value as ReadonlyArray<unknown>).length)
      read.mockRestore()
      expect(created.every(({ _tag }) => _tag === "Created")).toBe(true)
      expect(Math.max(...rows)).toBeLessThanOrEqual(50)
      expect(yield* reserved).toEqual([costOf(460), costOf(460)])
      // What they leave is room for as many with the same costs, to the last tenth.
      yield* jobs.cancelJobs(some(1, 100).map(({ id }) => id))
      yield* cap(projectId(1), costOf(460))
      const outcomes = yield* jobs.createJobs(some(1 + 10 * 127, 101))
      expect(outcomes.map(({ _tag }) => _tag)).toEqual([
        ...Array.from({ length: 100 }, () => "Created"),
        "SpendCapReached",
      ])
    }),
  )

  it.live("counts what a process of the previous version reserves, charges and frees", () =>
    Effect.gen(function* () {
      const { board, cap, reserved, sql } = yield* opened
      const insert = (entry: string, chargedAt: string) =>
        sql.exec(`INSERT INTO kiln_spending VALUES ('${projectId(1)}', '${entry}', 'usd', '1.5', ${chargedAt})
          ON CONFLICT (owner, entry) DO UPDATE SET amount = excluded.amount, charged_at = excluded.charged_at`)
      // Accepted under an earlier cap.
      insert("zero", "NULL")
      yield* cap(projectId(1))
      expect(yield* reserved).toEqual(["1.5"])
      for (const entry of ["one", "two", "three"]) insert(entry, "NULL")
      expect(yield* reserved).toEqual(["6"])
      insert("one", `${Date.now()}`)
      sql.exec("DELETE FROM kiln_spending WHERE entry = 'two'")
      expect(yield* reserved).toEqual(["3"])
      yield* board.setSpendCap(projectId(1), null)
      sql.exec("DELETE FROM kiln_spending WHERE entry = 'three'")
      expect(sql.prepare("SELECT count(*) AS count FROM kiln_reserved").get([])).toEqual({ count: 0 })
      yield* cap(projectId(1))
      expect(yield* reserved).toEqual(["1.5"])
    }),
  )
})
