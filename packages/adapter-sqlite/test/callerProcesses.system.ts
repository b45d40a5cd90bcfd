import { describe, expect, it } from "@effect/vitest"
import { Deferred, Effect } from "effect"
import { JobStore, WakeUp } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { SqliteStores } from "../src/index.ts"
import { child } from "./support/childProcess.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const { jobId, newJob, noLimits, ownerOf } = fixtures
const createInTransaction = new URL("./support/createInTransaction.ts", import.meta.url)

const exists = (n: number) =>
  Effect.flatMap(JobStore, (store) =>
    Effect.map(store.findJobs([{ jobId: jobId(n), principal: ownerOf(newJob(n)) }]), ([job]) => job !== undefined),
  )

const claimed = Effect.flatMap(JobStore, (store) =>
  store.claimJobs({
    runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }],
    limits: noLimits,
    limit: 10,
    leaseDurationMs: 60_000,
    maxLostWorkers: 3,
  }),
)

describe("another process's transaction", () => {
  it.live("leaves no job and no lock if the process is killed before the commit", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      yield* Effect.gen(function* () {
        const other = yield* child(createInTransaction, path, "1")
        expect(yield* Effect.promise(other.line)).toBe("created")
        expect(yield* exists(1)).toBe(false)
        other.process.kill("SIGKILL")
        expect(yield* Effect.promise(() => other.ended)).toBe("SIGKILL")
        const store = yield* JobStore
        yield* store.createJobs([newJob(2)])
        expect((yield* claimed).claims.map(({ job }) => job.id)).toEqual([jobId(2)])
        expect(yield* exists(1)).toBe(false)
      }).pipe(Effect.provide(SqliteStores.layer({ path })))
    }),
  )

  it.live("creates a job at its commit, and listeners are called", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      yield* Effect.gen(function* () {
        const other = yield* child(createInTransaction, path, "1")
        expect(yield* Effect.promise(other.line)).toBe("created")
        const { onFinished } = yield* WakeUp
        const heard = yield* Deferred.make<unknown>()
        yield* onFinished((jobs) => void Deferred.doneUnsafe(heard, Effect.succeed(jobs)))
        expect(Deferred.isDoneUnsafe(heard)).toBe(false)
        other.process.kill("SIGUSR2")
        expect(yield* Effect.promise(other.line)).toBe("committed")
        expect(yield* Deferred.await(heard)).toBe("any")
        expect((yield* claimed).claims.map(({ job }) => job.id)).toEqual([jobId(1)])
      }).pipe(Effect.provide(SqliteStores.layer({ path })))
    }),
  )
})
