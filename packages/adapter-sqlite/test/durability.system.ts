import { expect, it } from "@effect/vitest"
import { Effect } from "effect"
import type { JobId } from "@kiln/core/domain"
import { JobStore, KeyDirectory, SecretStore, Switchboard, UploadStore } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { SqliteStores } from "../src/index.ts"
import { child } from "./support/childProcess.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const createJobsUntilKilled = new URL("./support/createJobsUntilKilled.ts", import.meta.url)
const workThrough = new URL("./support/workThrough.ts", import.meta.url)

const principal = fixtures.ownerOf(fixtures.newJob(1))

it.live(
  "everything confirmed to a killed process is stored, and nothing is stored in part",
  () =>
    Effect.gen(function* () {
      for (const least of [1, 100, 400]) {
        const path = yield* temporaryFile
        const creator = yield* child(createJobsUntilKilled, path)
        const acknowledged: Array<string> = []
        while (acknowledged.length < least) acknowledged.push(...(yield* Effect.promise(creator.line)).split(" "))
        creator.process.kill("SIGKILL")
        acknowledged.push(...(yield* Effect.promise(creator.rest)).flatMap((line) => line.split(" ")))
        const found = yield* Effect.gen(function* () {
          const store = yield* JobStore
          const jobs = yield* store.findJobs(acknowledged.map((id) => ({ jobId: id as JobId, principal })))
          // The batch in progress was stored completely or not at all.
          const next = yield* store.findJobs(
            [1, 2, 3].map((n) => ({ jobId: fixtures.jobId(acknowledged.length + n), principal })),
          )
          return { jobs, next: next.filter((job) => job !== undefined).length }
        }).pipe(Effect.provide(SqliteStores.layer({ path })))
        expect(found.jobs.map((job) => job?.id)).toEqual(acknowledged)
        expect([0, 3]).toContain(found.next)
      }
    }),
  60_000,
)

it.live("a store that is opened again has everything that was written", () =>
  Effect.gen(function* () {
    const layer = SqliteStores.layer({ path: yield* temporaryFile })
    const observe = Effect.gen(function* () {
      const jobs = yield* JobStore
      const keys = yield* KeyDirectory
      const board = yield* Switchboard
      return {
        jobs: yield* jobs.findJobs([1, 2, 3].map((n) => ({ jobId: fixtures.jobId(n), principal }))),
        upload: yield* (yield* UploadStore).findUpload(fixtures.uploadId(1)),
        purges: yield* jobs.listPurges(10),
        keys: yield* keys.listKeys,
        projects: yield* keys.listProjects,
        known: yield* keys.findKey(fixtures.digest(1)),
        board: yield* board.readBoard,
        prices: yield* board.listPrices,
        secret: yield* (yield* SecretStore).getOrCreate("signing", Uint8Array.of(9)),
      }
    })
    const before = yield* Effect.gen(function* () {
      const jobs = yield* JobStore
      const keys = yield* KeyDirectory
      const board = yield* Switchboard
      yield* (yield* UploadStore).createUploads([fixtures.newUpload(1)])
      yield* jobs.createJobs([fixtures.newJob(1), fixtures.newJob(2), fixtures.newJob(3)])
      const { claims } = yield* jobs.claimJobs({
        runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }],
        limits: fixtures.noLimits,
        limit: 2,
        leaseDurationMs: 60_000,
        maxLostWorkers: 3,
      })
      yield* jobs.completeJobs(
        claims.slice(0, 1).map((claim) => fixtures.completionOf(claim, { files: [fixtures.outputFile(claim, 1)] })),
      )
      yield* jobs.checkpointJobs(
        claims.slice(1).map(({ job, token }) => ({ jobId: job.id, token, step: "a", value: [1] })),
      )
      yield* jobs.eraseJobs([{ jobId: fixtures.jobId(1), principal }])
      yield* keys.createFirstKey({ id: fixtures.projectId(1), name: "default" }, fixtures.newApiKey(1))
      yield* board.setSwitch("ai", true)
      yield* board.setPrice({ name: "svc-audio", currency: "usd", unitAmounts: { images: "0.1" } })
      yield* board.activatePrice("svc-audio", true)
      yield* board.publishWorker({ workerId: "w", liveKinds: ["transcription"], providers: [], ttlMs: 3_600_000 })
      yield* (yield* SecretStore).getOrCreate("signing", Uint8Array.of(1, 2, 3))
      return yield* observe
    }).pipe(Effect.provide(layer, { local: true }))
    const after = yield* Effect.provide(observe, layer, { local: true })
    expect(after).toEqual(before)
    expect(after).toMatchObject({
      jobs: [{ retained: "deleted" }, { checkpoints: { a: [1] } }, { status: "queued" }],
      secret: Uint8Array.of(1, 2, 3),
    })
  }),
)

it.live(
  "three processes share the work, and each job is done by exactly one of them",
  () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      const ids = Array.from({ length: 300 }, (_, n) => fixtures.jobId(n + 1))
      const layer = SqliteStores.layer({ path })
      yield* Effect.provide(
        Effect.flatMap(JobStore, ({ createJobs }) =>
          createJobs(ids.map((_, n) => fixtures.newJob(n + 1, { projectId: fixtures.projectId(n % 5) }))),
        ),
        layer,
        { local: true },
      )
      const workers = yield* Effect.forEach([1, 2, 3], () => child(workThrough, path))
      const done = yield* Effect.promise(() => Promise.all(workers.map(({ rest }) => rest())))
      expect(yield* Effect.promise(() => Promise.all(workers.map(({ ended }) => ended)))).toEqual([0, 0, 0])
      expect(done.flat().toSorted()).toEqual(ids)
    }),
  60_000,
)
