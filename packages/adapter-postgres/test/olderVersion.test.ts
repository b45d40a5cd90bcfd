import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { JobStore, type LedgerEntry, Switchboard } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { inspectPostgres, postgresMigrations, PostgresStores } from "../src/index.ts"
import { migrations } from "../src/migrations/index.ts"
import { initial } from "../src/migrations/0001Initial.ts"
import { oldDatabase } from "./support/oldDatabase.ts"

const { charge, completionOf, jobId, keyId, newLiveJob, noLimits, projectId, standings } = fixtures

const storesOf = (url: string) => PostgresStores.layer({ url, poolSize: 2, notifications: false })
const request = {
  runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "live" as const }],
  limits: noLimits,
  limit: 10,
  leaseDurationMs: 60_000,
  maxLostWorkers: 3,
}
const everything = { from: 0, to: Number.MAX_SAFE_INTEGER, after: null, limit: 100 }
const entry = (n: number, chargedAt: number): LedgerEntry => ({
  jobId: jobId(n),
  projectId: projectId(n),
  keyId: keyId(1),
  kind: newLiveJob(n).kind,
  chargedAt,
  charge,
})

/** The migrations that came after it. */
const later = migrations.slice(1).map(({ name }) => name)

describe("a database of the version before", () => {
  it.live("is brought up to date with what is in it, and is then what the migrations make", () =>
    Effect.gen(function* () {
      const { url } = yield* oldDatabase
      expect(yield* postgresMigrations.status({ url })).toMatchObject({
        applied: [{ name: initial.name }],
        pending: later.map((name) => ({ name })),
        unknown: [],
      })
      expect(yield* postgresMigrations.apply({ url })).toEqual(later)
      expect(yield* postgresMigrations.apply({ url })).toEqual([])
      const inspection = yield* inspectPostgres({ url })
      expect(yield* inspection?.schemaDrift ?? Effect.succeed("no schema")).toEqual([])
    }),
  )

  it.live("keeps its jobs, its ledger and its workers, who say nothing of providers", () =>
    Effect.gen(function* () {
      const { url } = yield* oldDatabase
      yield* Effect.gen(function* () {
        const jobs = yield* JobStore
        const board = yield* Switchboard
        expect((yield* jobs.listCharges(everything)).entries).toEqual([entry(3, 1_000)])
        expect(yield* board.listWorkers).toEqual([{ workerId: "old", liveKinds: ["speech_synthesis"], providers: [] }])
        expect((yield* board.readBoard).liveKinds).toEqual(["speech_synthesis"])
        // Its workers count as seen, also once they are gone.
        expect((yield* board.readBoard).lastServedAt).toEqual({ speech_synthesis: expect.any(Number) })
        const { claims } = yield* jobs.claimJobs(request)
        expect(claims.map(({ job }) => job)).toMatchObject([{ id: jobId(1), priority: "normal", kept: {} }])
        expect(yield* jobs.completeJobs(claims.map((claim) => completionOf(claim)))).toEqual(["Written"])
        expect((yield* jobs.listCharges(everything)).entries.map((each) => each.jobId)).toEqual([jobId(3), jobId(1)])
      }).pipe(Effect.provide(storesOf(url)))
    }),
  )
})

describe("beside a process of the version before", () => {
  it.live("that process publishes and reads as it did, on a session from before the migration", () =>
    Effect.gen(function* () {
      const { before, url } = yield* oldDatabase
      expect(yield* Effect.promise(before.readLiveKinds)).toEqual(["speech_synthesis"])
      yield* Effect.gen(function* () {
        const board = yield* Switchboard
        yield* board.publishWorker({ workerId: "new", liveKinds: ["voice_turn"], providers: standings, ttlMs: 60_000 })
        yield* Effect.promise(() => before.publish("old", ["transcription"], 60_000))
        yield* Effect.promise(() => before.publish("older", [], 60_000))
        expect(yield* Effect.promise(before.readLiveKinds)).toEqual(["transcription", "voice_turn"])
        expect(yield* board.listWorkers).toEqual([
          { workerId: "new", liveKinds: ["voice_turn"], providers: standings },
          { workerId: "old", liveKinds: ["transcription"], providers: [] },
          { workerId: "older", liveKinds: [], providers: [] },
        ])
        // Each forgets of the other's what has run out, and nothing else.
        yield* Effect.promise(() => before.publish("old", [], 0))
        yield* board.publishWorker({ workerId: "new", liveKinds: [], providers: [], ttlMs: 0 })
        yield* Effect.promise(() => before.publish("older", ["image_generation"], 60_000))
        expect((yield* board.listWorkers).map(({ workerId }) => workerId)).toEqual(["older"])
      }).pipe(Effect.provide(storesOf(url)))
    }),
  )

  it.live("what that process accepts is done here, and what it completes is in the ledger", () =>
    Effect.gen(function* () {
      const { before, url } = yield* oldDatabase
      yield* Effect.gen(function* () {
        const jobs = yield* JobStore
        yield* Effect.promise(async () => {
          await before.complete(2, 2_000)
          await before.insert(4)
          await before.insert(5)
          await before.claim(5)
        })
        const { claims } = yield* jobs.claimJobs(request)
        expect(claims.map(({ job }) => job.id)).toEqual([jobId(1), jobId(4)])
        yield* Effect.promise(() => before.complete(5, 3_000))
        expect(yield* jobs.completeJobs(claims.map((claim) => completionOf(claim)))).toEqual(["Written", "Written"])
        expect((yield* jobs.listCharges({ ...everything, to: 4_000 })).entries).toEqual([
          entry(3, 1_000),
          entry(2, 2_000),
          entry(5, 3_000),
        ])
        const { entries, until } = yield* jobs.listCharges(everything)
        expect(entries).toHaveLength(5)
        // The ledger is closed for the time that process read, so its charge comes after the close.
        yield* Effect.promise(async () => {
          await before.insert(6)
          await before.claim(6)
          await before.complete(6, 3_500)
        })
        expect((yield* jobs.listCharges({ ...everything, from: until })).entries).toEqual([entry(6, until)])
      }).pipe(Effect.provide(storesOf(url)))
    }),
  )
})
