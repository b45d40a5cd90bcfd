import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { JobDirectory, JobStore, KeyDirectory, SecretStore, Switchboard, UploadStore } from "@kiln/core/ports"
import {
  advance,
  beginTransfer,
  claim,
  claimedNumbers,
  complete,
  create,
  createAndClaim,
  createDone,
  createDoneWithUpload,
  createFailed,
  createUpload,
  first,
  openAudioGate,
  read,
  readUpload,
} from "../arrange.ts"
import { allJobs } from "../allJobs.ts"
import { lastWriteChecks } from "./lastWrites.ts"
import type { PlaceCheck } from "../capabilities.ts"
import type { Stores } from "../Check.ts"
import {
  digest,
  jobId,
  leaseDurationMs,
  maxTransfers,
  newApiKey,
  newJob,
  newLiveJob,
  newUpload,
  ownerOf,
  projectId,
  uploadedFile,
  uploadId,
} from "../fixtures.ts"

const secret = (n: number): Uint8Array => Uint8Array.from({ length: 32 }, () => n)

/** Fills every table, with a record in every state. */
const fill = Effect.gen(function* () {
  const [jobs, keys, secrets] = [yield* JobStore, yield* KeyDirectory, yield* SecretStore]
  yield* openAudioGate
  yield* keys.createFirstKey({ id: projectId(1), name: "default" }, newApiKey(1))
  yield* keys.touchKeys([{ keyId: newApiKey(1).id, usedAt: 7 }])
  yield* secrets.getOrCreate("signing", secret(1))
  yield* createDoneWithUpload(1)
  yield* createDone(newLiveJob(2), 2)
  yield* createFailed(newJob(3))
  const erased = yield* createDone(newJob(4), 4)
  yield* jobs.eraseJobs([{ jobId: erased.id, principal: ownerOf(erased) }])
  const held = yield* createAndClaim(newJob(5))
  yield* jobs.checkpointJobs([{ jobId: held.job.id, token: held.token, step: "reply", value: { text: "é😀" } }])
  const deferred = yield* createAndClaim(newJob(6))
  yield* jobs.deferJobs([{ jobId: deferred.job.id, token: deferred.token, delayMs: 1_000, countsAsFailure: true }])
  yield* create(newJob(7), newJob(9, { delayMs: 3_600_000, priority: "high", metadata: { model: "small" } }))
  yield* Effect.flatMap(Switchboard, (board) => board.pauseKind("image_generation", true))
  yield* createUpload(newUpload(8))
  yield* beginTransfer(8)
  return held
})

const everything = Effect.gen(function* () {
  const [jobs, uploads, keys, board] = [yield* JobStore, yield* UploadStore, yield* KeyDirectory, yield* Switchboard]
  const items = [1, 2, 3, 4, 5, 6, 7, 9].map((n) => (n === 2 ? newLiveJob(n) : newJob(n)))
  return {
    jobs: yield* Effect.forEach(items, read),
    list: yield* allJobs({ limit: 3 }),
    counts: yield* Effect.flatMap(JobDirectory, (directory) => directory.countJobs({ finishedWithinMs: 60_000 })),
    uploads: yield* Effect.forEach([1, 8], (n) => uploads.findUpload(uploadId(n))),
    charges: yield* jobs.listCharges({ from: 0, to: Number.MAX_SAFE_INTEGER, after: null, limit: 10 }),
    purges: yield* jobs.listPurges(10),
    board: yield* board.readBoard,
    prices: yield* board.listPrices,
    workers: yield* board.listWorkers,
    projects: yield* keys.listProjects,
    keys: yield* keys.listKeys,
    key: yield* keys.findKey(digest(1)),
    secret: yield* Effect.flatMap(SecretStore, (secrets) => secrets.getOrCreate("signing", secret(2))),
  }
})

/** Promises of all ports together across restarts and concurrent openings. */
export const storePlaceChecks: ReadonlyArray<PlaceCheck<Stores>> = [
  ...lastWriteChecks,
  {
    name: "after closing and reopening, everything reads as before",
    needs: "durable",
    run: Effect.fnUntraced(function* (session) {
      const before = yield* session(Effect.andThen(fill, everything))
      expect(before.jobs.map((job) => job.status)).toContain("processing")
      expect([before.charges.entries.length, before.workers.length]).toEqual([1, 1])
      expect(yield* session(everything)).toEqual(before)
    }),
  },
  {
    name: "a claim survives a restart, and the queue continues where it was",
    needs: "durable",
    run: Effect.fnUntraced(function* (session) {
      const held = yield* session(fill)
      yield* session(complete(held))
      expect(claimedNumbers(yield* session(claim()))).toEqual([7])
      yield* advance(leaseDurationMs)
      expect(new Set(claimedNumbers(yield* session(claim())))).toEqual(new Set([6, 7]))
    }),
  },
  {
    name: "turns are kept across a restart",
    needs: "durable",
    run: Effect.fnUntraced(function* (session) {
      const jobs = [1, 2, 3, 4].flatMap((n) => [newJob(n), newJob(10 + n, { projectId: projectId(2) })])
      yield* session(create(...jobs))
      const turns: Array<number> = []
      for (let n = 0; n < 6; n++) turns.push(...claimedNumbers(yield* session(claim({ limit: 1 }))))
      expect(turns.filter((n) => n > 10)).toHaveLength(3)
    }),
  },
  {
    name: "a second instance sees every write immediately",
    needs: "multiProcess",
    run: (session) =>
      session(
        Effect.gen(function* () {
          const held = yield* fill
          expect(yield* session(everything)).toEqual(yield* everything)
          const done = yield* session(complete(held))
          expect(yield* read(done)).toEqual(done)
        }),
      ),
  },
  {
    name: "two racing instances create one job, one transfer, one secret",
    needs: "multiProcess",
    run: Effect.fnUntraced(function* (session) {
      const race = <A>(use: (n: number) => Effect.Effect<A, unknown, Stores>) =>
        Effect.forEach([1, 2, 3, 4], (n) => session(use(n)), { concurrency: "unbounded" })
      const { fingerprint, idempotencyKey } = newJob(1)
      const created = yield* race((n) =>
        Effect.flatMap(JobStore, (jobs) => jobs.createJobs([newJob(n, { fingerprint, idempotencyKey })])),
      )
      expect(
        created
          .flat()
          .map(({ _tag }) => _tag)
          .toSorted(),
      ).toEqual(["Created", "Replayed", "Replayed", "Replayed"])
      yield* session(createUpload(newUpload(1)))
      const transfers = yield* race(() =>
        Effect.flatMap(UploadStore, (uploads) =>
          uploads.claimUpload({ uploadId: uploadId(1), leaseDurationMs, maxTransfers }),
        ),
      )
      expect(transfers.filter(({ _tag }) => _tag === "Claimed")).toHaveLength(1)
      const file = uploadedFile(uploadId(1), 1)
      const ends = yield* race((n) =>
        Effect.flatMap(UploadStore, (uploads) =>
          n % 2 === 0
            ? uploads.completeUpload({ uploadId: uploadId(1), token: 1, file })
            : uploads.releaseUpload({ uploadId: uploadId(1), token: 1 }),
        ),
      )
      // A session that repeats the first value gets the same result; a session with another value has lost.
      expect(ends.filter((outcome) => outcome === "Written")).toHaveLength(2)
      expect(ends[0] === ends[1]).toBe(false)
      const { file: kept } = yield* session(readUpload(1))
      expect(kept).toEqual(ends[1] === "Written" ? file : null)
      const secrets = yield* race((n) =>
        Effect.flatMap(SecretStore, (store) => store.getOrCreate("signing", secret(n))),
      )
      for (const got of secrets) expect(got).toEqual(first(secrets))
    }),
  },
  {
    name: "two instances that race for jobs get each job once",
    needs: "multiProcess",
    run: Effect.fnUntraced(function* (session) {
      yield* session(create(...Array.from({ length: 30 }, (_, n) => newJob(n))))
      const results = yield* Effect.forEach([1, 2, 3, 4], () => session(claim({ limit: 9 })), {
        concurrency: "unbounded",
      })
      const numbers = results.flatMap(claimedNumbers)
      expect([numbers.length, new Set(numbers).size]).toEqual([30, 30])
      const codes = ["internal_error", "provider_rejected", "content_rejected"] as const
      const finished = yield* Effect.forEach(
        codes,
        (errorCode) =>
          session(Effect.flatMap(JobStore, (jobs) => jobs.failJobs([{ jobId: jobId(1), token: 1, errorCode }]))),
        { concurrency: "unbounded" },
      )
      expect(finished.flat().filter((outcome) => outcome === "Written")).toHaveLength(1)
      const winner = codes.find((_, n) => finished[n]?.[0] === "Written")
      expect((yield* session(read(newJob(1)))).errorCode).toBe(winner)
    }),
  },
  {
    name: "two openings that race for jobs share one limit",
    needs: "multiProcess",
    run: Effect.fnUntraced(function* (session) {
      const jobs = Array.from({ length: 40 }, (_, n) => newJob(n, { projectId: projectId(n % 4) }))
      yield* session(create(...jobs))
      const limits = { perKind: { speech_synthesis: 7 }, perProject: 2 }
      const race = Effect.forEach([1, 2, 3, 4], () => session(claim({ limit: 3, limits })), {
        concurrency: "unbounded",
      })
      const claims = (yield* race).flatMap((result) => result.claims)
      expect(claims).toHaveLength(7)
      for (const ofProject of Map.groupBy(claims, ({ job }) => job.projectId).values())
        expect(ofProject.length).toBeLessThanOrEqual(2)
      expect((yield* race).flatMap(claimedNumbers)).toEqual([])
      const [one, two] = claims
      if (one === undefined || two === undefined) throw new Error("expected several claims")
      yield* session(complete(one))
      yield* session(complete(two))
      expect((yield* race).flatMap(claimedNumbers)).toHaveLength(2)
    }),
  },
]
