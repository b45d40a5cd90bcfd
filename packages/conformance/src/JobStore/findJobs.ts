import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { Job, Principal } from "@kiln/core/domain"
import { polledJob } from "@kiln/core/rules"
import { JobStore } from "@kiln/core/ports"
import {
  advance,
  claimOne,
  complete,
  create,
  createAndClaim,
  createDone,
  findFile,
  first,
  openAudioGate,
  read,
} from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import {
  charge,
  completionOf,
  fileId,
  jobId,
  keyId,
  newJob,
  newLiveJob,
  outputFile,
  ownerOf,
  projectId,
} from "../fixtures.ts"

/** The owner of a job, followed by callers that differ from it in one part. */
const principalsFor = (job: Job): ReadonlyArray<Principal> => {
  const owner = ownerOf(job)
  return [owner, { ...owner, keyId: keyId(2) }, { ...owner, projectId: projectId(2) }, { ...owner, mode: "live" }]
}

/** Reading jobs. A caller can never see another caller's job. */
export const findJobs: Section = {
  name: "JobStore.findJobs",
  checks: [
    check(
      "shows a job only to the project, key and mode that created it",
      Effect.gen(function* () {
        const store = yield* JobStore
        const job = first(yield* create(newJob(1)))
        const found = yield* store.findJobs(principalsFor(job).map((principal) => ({ jobId: job.id, principal })))
        expect(found).toEqual([job, undefined, undefined, undefined])
      }),
    ),

    check(
      "answers each item in its place, including unknown and repeated ones",
      Effect.gen(function* () {
        const store = yield* JobStore
        const [one, two] = yield* create(newJob(1), newJob(2))
        const principal = ownerOf(newJob(1))
        const ids = [jobId(2), jobId(9), jobId(1), jobId(2)]
        expect(yield* store.findJobs(ids.map((id) => ({ jobId: id, principal })))).toEqual([two, undefined, one, two])
        expect(yield* store.findJobs([])).toEqual([])
      }),
    ),
  ],
}

/** The hottest read. `read` compares it with `findJobs` in every other check. */
export const pollJobs: Section = {
  name: "JobStore.pollJobs",
  checks: [
    check(
      "shows a job only to the project, key and mode that created it",
      Effect.gen(function* () {
        const store = yield* JobStore
        const job = first(yield* create(newJob(1)))
        const items = principalsFor(job).map((principal) => ({ jobId: job.id, principal }))
        expect(yield* store.pollJobs(items)).toEqual([polledJob(job), undefined, undefined, undefined])
        for (const item of items.slice(1)) expect(yield* store.pollJobs([item])).toEqual([undefined])
      }),
    ),

    check(
      "answers each item in its place, including unknown and repeated ones",
      Effect.gen(function* () {
        const store = yield* JobStore
        const [one, two] = (yield* create(newJob(1), newJob(2))).map(polledJob)
        const principal = ownerOf(newJob(1))
        const ids = [jobId(2), jobId(9), jobId(1), jobId(2)]
        expect(yield* store.pollJobs(ids.map((id) => ({ jobId: id, principal })))).toEqual([two, undefined, one, two])
        expect(yield* store.pollJobs([])).toEqual([])
      }),
    ),

    check(
      "shows the output with its files in their order, until they are gone, and the currency of the price",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* openAudioGate
        const claimed = yield* createAndClaim(newLiveJob(1))
        const items = [{ jobId: claimed.job.id, principal: ownerOf(claimed.job) }]
        const [running] = yield* store.pollJobs(items)
        expect(running).toMatchObject({ status: "processing", output: null, files: [], price: { currency: "usd" } })
        const files = [outputFile(claimed, 2), { ...outputFile(claimed, 1), name: "image", blobKey: "jobs/1/1/image" }]
        yield* complete(claimed, { files, charge })
        const [done] = yield* store.pollJobs(items)
        expect(done).toMatchObject({ status: "done", charge, files: files.map(({ id, name }) => ({ id, name })) })
        yield* store.eraseJobs(items)
        const [erased] = yield* store.pollJobs(items)
        expect(erased).toMatchObject({ status: "done", retained: "deleted", output: null, files: [], charge })
      }),
    ),
  ],
}

export const findByIdempotencyKey: Section = {
  name: "JobStore.findByIdempotencyKey",
  checks: [
    check(
      "finds the current state of the job that this key record created",
      Effect.gen(function* () {
        const store = yield* JobStore
        const { job } = yield* createAndClaim(newJob(1))
        expect(yield* store.findByIdempotencyKey(job.keyId, job.idempotencyKey)).toEqual(job)
        expect(yield* store.findByIdempotencyKey(keyId(2), job.idempotencyKey)).toBe(undefined)
        expect(yield* store.findByIdempotencyKey(job.keyId, `${job.idempotencyKey}x`)).toBe(undefined)
      }),
    ),

    check(
      "finds nothing once the record is gone",
      Effect.gen(function* () {
        const store = yield* JobStore
        const job = yield* createDone(newJob(1))
        yield* store.deleteJobs(0, 10)
        expect(yield* store.findByIdempotencyKey(job.keyId, job.idempotencyKey)).toBe(undefined)
      }),
    ),
  ],
}

/** Files are reachable exactly while their job is done and its data is kept. */
export const findFileSection: Section = {
  name: "JobStore.findFile",
  checks: [
    check(
      "finds the file of a done job together with the job, and no other file",
      Effect.gen(function* () {
        const claimed = yield* createAndClaim(newJob(1))
        const files = [outputFile(claimed, 1), { ...outputFile(claimed, 2), name: "image", blobKey: "jobs/1/1/image" }]
        expect(yield* findFile(fileId(1))).toBe(undefined)
        yield* complete(claimed, { files })
        for (const file of files) expect(yield* findFile(file.id)).toEqual({ ...file, jobId: jobId(1) })
        expect(yield* findFile(fileId(3))).toBe(undefined)
      }),
    ),

    check(
      "a stale attempt's file is never reachable",
      Effect.gen(function* () {
        const store = yield* JobStore
        const zombie = yield* createAndClaim(newJob(1), { leaseDurationMs: 1 })
        yield* advance(1)
        const winner = yield* claimOne()
        const file = outputFile(zombie, 1)
        expect(yield* store.completeJobs([completionOf(zombie, { files: [file] })])).toEqual(["LeaseLost"])
        expect(yield* findFile(file.id)).toBe(undefined)
        yield* complete(winner, { files: [outputFile(winner, 2)] })
        expect(yield* findFile(file.id)).toBe(undefined)
        expect(yield* findFile(fileId(2))).toMatchObject({ jobId: jobId(1) })
      }),
    ),

    check(
      "a file is gone immediately with the job's data, deleted or expired, and with its record",
      Effect.gen(function* () {
        const store = yield* JobStore
        const deleted = yield* createDone(newJob(1), 1)
        yield* store.eraseJobs([{ jobId: deleted.id, principal: ownerOf(deleted) }])
        expect(yield* findFile(fileId(1))).toBe(undefined)
        yield* createDone(newJob(2), 2)
        yield* store.expireData(0, 10)
        expect(yield* findFile(fileId(2))).toBe(undefined)
        yield* createDone(newJob(3), 3)
        yield* store.deleteJobs(0, 10)
        expect(yield* findFile(fileId(3))).toBe(undefined)
      }),
    ),

    check(
      "erasing one job leaves another's files alone",
      Effect.gen(function* () {
        const store = yield* JobStore
        const [one, two] = [yield* createDone(newJob(1), 1), yield* createDone(newJob(2), 2)]
        yield* store.eraseJobs([{ jobId: one.id, principal: ownerOf(one) }])
        expect(yield* findFile(fileId(2))).toMatchObject({ jobId: two.id })
        expect((yield* read(two)).files).toHaveLength(1)
      }),
    ),
  ],
}
