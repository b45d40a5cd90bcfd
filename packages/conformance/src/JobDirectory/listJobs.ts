import { expect } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { JobDirectory, type JobPage, type JobQuery, JobStore } from "@kiln/core/ports"
import { allJobs } from "../allJobs.ts"
import { advance, create, createAndClaim, createDone, createFailed, openAudioGate, read } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { jobId, keyId, newJob, newLiveJob, ownerOf, projectId } from "../fixtures.ts"

const listing = (page: JobPage) => Effect.flatMap(JobDirectory, (directory) => directory.listJobs(page))

const numberOf = ({ id }: { readonly id: string }): number => Number(id.slice("job_".length))

/** The numbers of all jobs that match, in the order in which pages of `limit` show them. */
const numbers = (query: JobQuery = {}, limit = 100) =>
  Effect.map(allJobs({ ...query, limit }), (jobs) => jobs.map(numberOf))

/**
 * 1 queued, 2 delayed, 3 held, 4 done, 5 failed; 6 of another kind, 7 of project 2, 8 live: a job every 10 ms, and the last two at
 * once, in the order of their ids, as `IdGenerator` numbers jobs.
 */
const arrangeJobs = Effect.gen(function* () {
  yield* openAudioGate
  yield* createDone(newJob(4))
  yield* advance(10)
  yield* createFailed(newJob(5))
  yield* advance(10)
  yield* createAndClaim(newJob(3))
  yield* advance(10)
  yield* create(newJob(2, { delayMs: 60_000, priority: "high" }))
  yield* advance(10)
  yield* create(newJob(6, { kind: "transcription", kindVersion: 2 }))
  yield* advance(10)
  yield* create(newJob(7, { projectId: projectId(2), keyId: keyId(2) }))
  yield* advance(10)
  yield* create(newJob(1), newLiveJob(8))
})

/** Listing jobs of all projects for the operator. */
export const listJobs: Section = {
  name: "JobDirectory.listJobs",
  checks: [
    check(
      "an empty store lists no jobs",
      Effect.gen(function* () {
        expect(yield* numbers()).toEqual([])
        expect(yield* numbers({ status: "done", projectId: projectId(1) })).toEqual([])
      }),
    ),

    check(
      "the newest first, of one instant by id, highest first",
      Effect.gen(function* () {
        yield* arrangeJobs
        for (const limit of [100, 1, 2, 3]) expect(yield* numbers({}, limit)).toEqual([8, 1, 7, 6, 2, 3, 5, 4])
      }),
    ),

    check(
      "shows each job without the caller's data",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* arrangeJobs
        const failed = yield* read(newJob(5))
        yield* store.eraseJobs([{ jobId: failed.id, principal: ownerOf(failed) }])
        const items = [newLiveJob(8), newJob(1), newJob(7, { projectId: projectId(2), keyId: keyId(2) })]
        items.push(...[6, 2, 3, 5, 4].map((n) => newJob(n)))
        const jobs = yield* Effect.forEach(items, read)
        expect(yield* allJobs({ limit: 3 })).toEqual(
          jobs.map((job) => ({
            id: job.id,
            projectId: job.projectId,
            keyId: job.keyId,
            mode: job.mode,
            kind: job.kind,
            kindVersion: job.kindVersion,
            priority: job.priority,
            status: job.status,
            errorCode: job.errorCode,
            warningCode: job.warningCode,
            retained: job.retained,
            attempts: job.attempts,
            failures: job.failures,
            lostWorkers: job.lostWorkers,
            metadata: job.metadata,
            held: job.held,
            phaseStartedAt: job.phaseStartedAt,
            createdAt: job.createdAt,
            claimableAt: job.claimableAt,
            finishedAt: job.finishedAt,
          })),
        )
      }),
    ),

    check(
      "by each filter alone",
      Effect.gen(function* () {
        yield* arrangeJobs
        expect(yield* numbers({ projectId: projectId(2) })).toEqual([7])
        expect(yield* numbers({ projectId: projectId(9) })).toEqual([])
        expect(yield* numbers({ kind: "transcription" })).toEqual([6])
        expect(yield* numbers({ kind: "a kind nobody knows" })).toEqual([])
        expect(yield* numbers({ mode: "live" })).toEqual([8])
        expect(yield* numbers({ mode: "sandbox" })).toEqual([1, 7, 6, 2, 3, 5, 4])
        expect(yield* numbers({ status: "queued" })).toEqual([8, 1, 7, 6, 2])
        expect(yield* numbers({ status: "processing" })).toEqual([3])
        expect(yield* numbers({ status: "done" })).toEqual([4])
        expect(yield* numbers({ status: "failed" })).toEqual([5])
        expect(yield* numbers({ keyId: keyId(2) })).toEqual([7])
        expect(yield* numbers({ keyId: keyId(9) })).toEqual([])
        const [failed] = yield* (yield* JobDirectory).readJobs([jobId(5)])
        expect(yield* numbers({ errorCode: failed?.errorCode ?? "" })).toEqual([5])
        expect(yield* numbers({ errorCode: "a code nobody knows" })).toEqual([])
        expect(yield* numbers({ errorCode: failed?.errorCode ?? "", status: "done" })).toEqual([])
      }),
    ),

    check(
      "by age, to the millisecond: from inclusive, to exclusive",
      Effect.gen(function* () {
        yield* arrangeJobs
        expect(yield* numbers({ createdFrom: 40 })).toEqual([8, 1, 7, 6])
        expect(yield* numbers({ createdFrom: 41 })).toEqual([8, 1, 7])
        expect(yield* numbers({ createdTo: 20 })).toEqual([5, 4])
        expect(yield* numbers({ createdTo: 21 })).toEqual([3, 5, 4])
        expect(yield* numbers({ createdFrom: 10, createdTo: 40 }, 1)).toEqual([2, 3, 5])
        expect(yield* numbers({ createdFrom: 30, createdTo: 30 })).toEqual([])
      }),
    ),

    check(
      "by filters together: everything that is given must hold, also over several pages",
      Effect.gen(function* () {
        yield* arrangeJobs
        const one = { projectId: projectId(1), mode: "sandbox", kind: "speech_synthesis" } as const
        for (const limit of [100, 1, 2]) {
          expect(yield* numbers(one, limit)).toEqual([1, 2, 3, 5, 4])
          expect(yield* numbers({ ...one, status: "queued" }, limit)).toEqual([1, 2])
          expect(yield* numbers({ ...one, status: "queued", createdTo: 60 }, limit)).toEqual([2])
          expect(yield* numbers({ status: "queued", createdFrom: 30, createdTo: 60 }, limit)).toEqual([7, 6, 2])
          expect(yield* numbers({ ...one, kind: "transcription", mode: "live" }, limit)).toEqual([])
        }
        expect(yield* numbers({ ...one, kind: undefined, mode: undefined, status: undefined })).toEqual([
          8, 1, 6, 2, 3, 5, 4,
        ])
      }),
    ),

    check(
      "no page exceeds its limit, and the last one is marked as the last",
      Effect.gen(function* () {
        yield* create(...Array.from({ length: 7 }, (_, n) => newJob(n)))
        const whole = yield* listing({ limit: 100 })
        expect(whole.jobs.length).toBeLessThanOrEqual(7)
        for (const limit of [1, 2, 7]) expect((yield* listing({ limit })).jobs.length).toBeLessThanOrEqual(limit)
        expect(yield* numbers({}, 3)).toEqual([6, 5, 4, 3, 2, 1, 0])
      }),
    ),

    check(
      "pages through all jobs without gaps or duplicates while others are added, moved and finished",
      Effect.gen(function* () {
        const store = yield* JobStore
        const directory = yield* JobDirectory
        for (let n = 0; n < 30; n += 3) {
          yield* create(newJob(n), newJob(n + 1), newJob(n + 2))
          yield* advance(1)
        }
        const seen: Array<number> = []
        let after: string | undefined
        let round = 0
        do {
          const { jobs, next } = yield* directory.listJobs({ limit: 4, after })
          seen.push(...jobs.map(numberOf))
          after = next
          yield* create(newJob(1_000 + round))
          yield* store.cancelJobs([jobId(round), jobId(29 - round)])
          yield* advance(1)
          round += 1
        } while (after !== undefined)
        expect(seen).toEqual(Array.from({ length: 10 }, (_, n) => [29 - 3 * n, 28 - 3 * n, 27 - 3 * n]).flat())
      }),
    ),

    check(
      "paging continues when the job of its cursor is gone",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1))
        yield* advance(1)
        yield* create(newJob(2), newJob(3))
        let page = yield* listing({ limit: 2 })
        const seen = page.jobs.map(numberOf)
        yield* store.cancelJobs([jobId(2), jobId(3)])
        expect((yield* store.deleteJobs(0, 10)).count).toBe(2)
        while (page.next !== undefined) {
          page = yield* listing({ limit: 2, after: page.next })
          seen.push(...page.jobs.map(numberOf))
        }
        expect(seen).toEqual([3, 2, 1])
      }),
    ),

    check(
      "an invalid cursor is a defect",
      Effect.gen(function* () {
        yield* create(newJob(1), newJob(2))
        for (const after of ["", "nonsense", "1", "{}", "null", "0 0", "' or 1=1 --"]) {
          const exit = yield* Effect.exit(listing({ limit: 1, after }))
          expect(Exit.isFailure(exit) && Cause.hasDies(exit.cause), after).toBe(true)
          expect(Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined, after).toBeInstanceOf(TypeError)
        }
      }),
    ),
  ],
}
