import Sqlite from "better-sqlite3"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { fixtures } from "@kiln/conformance"
import { initial } from "../src/migrations/0001Initial.ts"
import { migrate, migrationStatus } from "../src/migrate.ts"
import { openDatabase } from "../src/openDatabase.ts"
import { storesOf } from "./support/arrangeJobs.ts"
import {
  claimAsBefore,
  completeAsBefore,
  headAsBefore,
  insertAsBefore,
  lanesAsBefore,
  makeOldDatabase,
  publishAsBefore,
  workersAsBefore,
} from "./support/oldDatabase.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const { charge, completionOf, jobId, newJob, noLimits, ownerOf, standings } = fixtures
const minuteMs = 60_000

const request = (...versions: ReadonlyArray<number>) => ({
  runnable: versions.map((kindVersion) => ({ kind: "speech_synthesis", kindVersion, mode: "sandbox" as const })),
  limits: noLimits,
  limit: 10,
  leaseDurationMs: minuteMs,
  maxLostWorkers: 3,
})
const idsOf = (claims: ReadonlyArray<{ readonly job: { readonly id: string } }>) => claims.map(({ job }) => job.id)

/** A database of the first version with three jobs, opened by this one. */
const opened = Effect.gen(function* () {
  const path = yield* temporaryFile
  const now = Date.now()
  makeOldDatabase(path, now - 1_000, now + minuteMs)
  const database = yield* openDatabase({ path })
  return { path, database, ...storesOf(database) }
})

describe("a database of the version before", () => {
  it.live("is brought up to date, and its jobs are of the first version of their kind", () =>
    Effect.gen(function* () {
      const { database, jobs } = yield* opened
      expect(migrationStatus(database.connection).pending).toEqual([])
      const found = yield* jobs.findJobs([1, 2, 3].map((n) => ({ jobId: jobId(n), principal: ownerOf(newJob(n)) })))
      expect(found.map((job) => [job?.kindVersion, job?.priority, job?.kept])).toEqual(
        [1, 2, 3].map(() => [1, "normal", {}]),
      )
      expect((yield* jobs.claimJobs(request(2))).claims).toEqual([])
      const { claims } = yield* jobs.claimJobs(request(1, 2))
      expect(idsOf(claims)).toEqual([jobId(1), jobId(2)])
      expect(yield* jobs.completeJobs(claims.map((claim) => completionOf(claim)))).toEqual(["Written", "Written"])
      expect(yield* jobs.releaseJobs([{ jobId: jobId(3), token: 1 }])).toEqual(["Written"])
      expect(idsOf((yield* jobs.claimJobs(request(1))).claims)).toEqual([jobId(3)])
    }),
  )

  it.live("counts what was in hand before for the limits", () =>
    Effect.gen(function* () {
      const { jobs } = yield* opened
      const one = { perKind: { speech_synthesis: 1 }, perProject: 0 }
      const { claims, nextInMs } = yield* jobs.claimJobs({ ...request(1), limits: one })
      expect(claims).toEqual([])
      expect(nextInMs).toBeGreaterThan(0)
      const two = { perKind: {}, perProject: 2 }
      expect(idsOf((yield* jobs.claimJobs({ ...request(1), limits: two })).claims)).toEqual([jobId(1)])
    }),
  )
})

describe("beside a process of the version before", () => {
  it.live("what that process creates stands between the priorities, and it takes all of them in order of arrival", () =>
    Effect.gen(function* () {
      const { database, directory, jobs } = yield* opened
      yield* jobs.createJobs([newJob(5, { priority: "low" }), newJob(6, { priority: "urgent" })])
      insertAsBefore(database.connection, 7, Date.now() - 500)
      expect(headAsBefore(database.connection, Date.now() + 1)).toEqual([1, 2, 7, 5, 6].map((n) => jobId(n)))
      expect((yield* jobs.claimJobs(request(1))).claims.map(({ job }) => job.id)).toEqual(
        [6, 1, 2, 7, 5].map((n) => jobId(n)),
      )
      const { jobs: listed } = yield* directory.listJobs({ limit: 10 })
      expect(listed.filter(({ priority }) => priority === "normal")).toHaveLength(4)
    }),
  )

  it.live("that process opens the file, and what it writes is of the first version", () =>
    Effect.gen(function* () {
      const { database, jobs } = yield* opened
      yield* migrate(database, [initial])
      insertAsBefore(database.connection, 4, Date.now() - 500)
      const { claims } = yield* jobs.claimJobs(request(1))
      expect(claims.map(({ job }) => [job.id, job.kindVersion])).toEqual([1, 2, 4].map((n) => [jobId(n), 1]))
    }),
  )

  it.live("that process sees no lane of a version it could not run, and all others", () =>
    Effect.gen(function* () {
      const { database, jobs } = yield* opened
      const [lane] = lanesAsBefore(database.connection)
      yield* jobs.createJobs([newJob(5), newJob(6, { kindVersion: 2 })])
      expect(lanesAsBefore(database.connection)).toEqual([lane])
      const lanes = database.connection
        .prepare("SELECT lanes.kind, kind_version FROM jobs JOIN lanes ON lanes.id = lane_id WHERE jobs.id >= ?")
        .all([jobId(5)])
      expect(lanes).toEqual([
        { kind: "speech_synthesis", kind_version: 1 },
        { kind: "speech_synthesis@2", kind_version: 2 },
      ])
      expect(idsOf((yield* jobs.claimJobs(request(2))).claims)).toEqual([jobId(6)])
    }),
  )

  it.live("what that process has in hand is nobody else's, and goes on when it is lost", () =>
    Effect.gen(function* () {
      const { database, jobs } = yield* opened
      claimAsBefore(database.connection, 1, Date.now() + minuteMs)
      claimAsBefore(database.connection, 2, Date.now() - 1)
      const { claims } = yield* jobs.claimJobs(request(1))
      expect(claims.map(({ job }) => [job.id, job.lostWorkers])).toEqual([[jobId(2), 1]])
    }),
  )

  it.live("each sees the other's workers; of providers that process says nothing", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      const now = Date.now()
      const until = now + minuteMs
      makeOldDatabase(path, now - 1_000, until)
      const before = yield* Effect.acquireRelease(
        Effect.sync(() => new Sqlite(path)),
        (opened) => Effect.sync(() => opened.close()),
      )
      publishAsBefore(before, "old", ["transcription"], until)
      // Migrated while that process has it open.
      const { board } = storesOf(yield* openDatabase({ path }))
      expect(yield* board.listWorkers).toEqual([{ workerId: "old", liveKinds: ["transcription"], providers: [] }])
      yield* board.publishWorker({ workerId: "new", liveKinds: ["voice_turn"], providers: standings, ttlMs: minuteMs })
      publishAsBefore(before, "old", [], until)
      publishAsBefore(before, "older", ["speech_synthesis"], until)
      expect(yield* board.listWorkers).toEqual([
        { workerId: "new", liveKinds: ["voice_turn"], providers: standings },
        { workerId: "old", liveKinds: [], providers: [] },
        { workerId: "older", liveKinds: ["speech_synthesis"], providers: [] },
      ])
      expect(workersAsBefore(before, now)).toHaveLength(3)
    }),
  )

  it.live("what that process charged and charges is in the ledger", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      const now = Date.now()
      makeOldDatabase(path, now - 1_000, now + minuteMs)
      const before = yield* Effect.acquireRelease(
        Effect.sync(() => new Sqlite(path)),
        (opened) => Effect.sync(() => opened.close()),
      )
      const chargeAsBefore = (n: number, chargedAt: number) => {
        insertAsBefore(before, n, now, "live")
        claimAsBefore(before, n, now + minuteMs)
        completeAsBefore(before, n, chargedAt)
      }
      chargeAsBefore(10, now + 2)
      const { jobs } = storesOf(yield* openDatabase({ path }))
      chargeAsBefore(11, now + 1)
      const { keyId, kind, projectId } = newJob(10)
      const entry = (n: number, chargedAt: number) => ({ jobId: jobId(n), projectId, keyId, kind, chargedAt, charge })
      expect((yield* jobs.listCharges({ from: now, to: now + 3, after: null, limit: 10 })).entries).toEqual([
        entry(11, now + 1),
        entry(10, now + 2),
      ])
    }),
  )
})
