import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { labelsWith, maxParkMs, submittedOf, withSubmitted } from "@kiln/core/domain"
import { deliveryMark, withDelivery } from "@kiln/core/rules"
import { JobDirectory, JobStore, type NewJob, Switchboard, UploadStore } from "@kiln/core/ports"
import {
  advance,
  capSpending as cap,
  claim,
  claimOne,
  complete,
  create,
  createFailed,
  createTags,
  createUploaded,
  exists,
  first,
  openAudioGate,
  read,
  readUpload,
  spendingOf,
} from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { expectMoved } from "../expectations.ts"
import {
  digest,
  jobId,
  keyId,
  newJob,
  newLiveJob,
  newUploadJob,
  projectId,
  queueLimitMs,
  runLimitMs,
  uploadId,
} from "../fixtures.ts"

const replaces: Partial<NewJob> = { unique: { scope: digest(7), while: "queued", replaces: true } }

const replacing = (n: number, overrides: Partial<NewJob> = {}): NewJob => newJob(n, { ...replaces, ...overrides })

const submit = Effect.fnUntraced(function* (...jobs: ReadonlyArray<NewJob>) {
  return yield* (yield* JobStore).createJobs(jobs)
})

/** Submits a job that must replace the request of another, and returns that. */
const replace = Effect.fnUntraced(function* (item: NewJob) {
  const outcome = first(yield* submit(item))
  if (outcome._tag !== "Replaced") throw new Error(`expected Replaced, got ${outcome._tag}`)
  expect(yield* read(outcome.job)).toEqual(outcome.job)
  return outcome.job
})

/** Unique jobs whose request a later submission replaces. */
export const replacingJobs: Section = {
  name: "JobStore.createJobs: replacing a request",
  checks: [
    check(
      "a waiting job gets all of the new submission, and keeps its id and its creation",
      Effect.gen(function* () {
        const before = first(yield* create(replacing(1, { delayMs: 500 })))
        yield* advance(100)
        const item = replacing(2, {
          delayMs: 1_000,
          kindVersion: 2,
          request: { input: "x".repeat(700), n: [1, { m: null }] },
          priority: "high",
          metadata: withSubmitted({ model: "small" }, { tags: ["new"], metadata: { order: 7 } }),
          limits: { queueLimitMs: 5_000, runLimitMs: 600 },
        })
        const after = yield* replace(item)
        const limits = { queueLimitMs: 5_000, runLimitMs: 600 }
        expectMoved(before, { event: "replaced", limits, at: 1_100 }, 100, after)
        expect(after).toEqual({
          ...before,
          ...limits,
          kindVersion: 2,
          request: item.request,
          priority: "high",
          metadata: item.metadata,
          idempotencyKey: item.idempotencyKey,
          fingerprint: item.fingerprint,
          claimableAt: 1_100,
          phaseStartedAt: 1_100,
          deadlineAt: 6_100,
        })
        expect(yield* exists(item)).toBe(false)
        yield* advance(999)
        const versionTwo = [{ kind: "speech_synthesis", kindVersion: 2, mode: "sandbox" }] as const
        expect((yield* claim({ runnable: versionTwo })).claims).toEqual([])
        yield* advance(1)
        expect((yield* claim()).claims).toEqual([])
        const claimed = yield* claimOne({ runnable: versionTwo })
        expect(claimed.job).toEqual(yield* read(before))
        expect(claimed.job.request).toEqual(item.request)
        yield* complete(claimed)
      }),
    ),

    check(
      "one that is claimable and is to be keeps its place in the line",
      Effect.gen(function* () {
        yield* create(replacing(1), newJob(2))
        yield* advance(700)
        yield* create(newJob(3))
        const after = yield* replace(replacing(4, { request: { n: 2 } }))
        expect(after).toMatchObject({ claimableAt: 0, deadlineAt: queueLimitMs })
        const { claims } = yield* claim()
        expect(claims.map(({ job }) => job.id)).toEqual([jobId(1), jobId(2), jobId(3)])
        expect(first(claims).job.request).toEqual({ n: 2 })
      }),
    ),

    check(
      "one that is claimed is not replaced: the submission makes another job, also after a deferral",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(replacing(1))
        const { token } = yield* claimOne()
        const running = yield* read(newJob(1))
        expect(yield* createTags(replacing(2))).toEqual(["Created"])
        yield* store.deferJobs([{ jobId: jobId(1), token, delayMs: 1_000, countsAsFailure: true }])
        const deferred = yield* read(newJob(1))
        expect((yield* replace(replacing(3))).id).toBe(jobId(2))
        expect(yield* read(newJob(1))).toEqual(deferred)
        expect(deferred.request).toEqual(running.request)
      }),
    ),

    check(
      "one that is out of time is not replaced either, and has no scope",
      Effect.gen(function* () {
        const brief = { limits: { queueLimitMs: 1_000, runLimitMs } }
        const plain = { unique: { scope: digest(8), while: "queued" } } as const
        yield* create(replacing(1, brief), newJob(4, { ...plain, ...brief }))
        yield* advance(1_000)
        expect(yield* createTags(replacing(2), newJob(5, plain))).toEqual(["Created", "Created"])
        expect((yield* replace(replacing(3))).id).toBe(jobId(2))
        expect(yield* createTags(newJob(6, plain))).toEqual(["Duplicate"])
        expect(yield* (yield* JobStore).expireJobs(10)).toEqual([jobId(1), jobId(4)])
      }),
    ),

    check(
      "items of a batch come one after the other, and one without it is a duplicate",
      Effect.gen(function* () {
        const plain = replacing(4, { unique: { scope: digest(7), while: "queued" } })
        const outcomes = yield* submit(replacing(1), newJob(2), replacing(3), plain, replacing(5))
        expect(outcomes.map(({ _tag }) => _tag)).toEqual(["Created", "Created", "Replaced", "Duplicate", "Replaced"])
        expect(yield* read(newJob(1))).toMatchObject({ request: newJob(5).request, idempotencyKey: "idempotency-5" })
        const { claims } = yield* claim()
        expect(claims.map(({ job }) => job.request)).toEqual([newJob(5).request, newJob(2).request])
      }),
    ),

    check(
      "every idempotency key stays bound to the job, and none puts an older request back",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(replacing(1))
        yield* replace(replacing(2))
        const job = yield* replace(replacing(3))
        for (const n of [1, 2, 3]) {
          const again = { ...replacing(n), id: jobId(10 + n) }
          expect(yield* submit(again)).toEqual([{ _tag: "Replayed", job }])
          expect(yield* submit({ ...again, fingerprint: digest(99) })).toEqual([{ _tag: "KeyReused", job }])
          // Also without `unique`, as of a request that names another scope.
          expect(yield* submit({ ...again, unique: undefined })).toEqual([{ _tag: "Replayed", job }])
          expect(yield* store.findByIdempotencyKey(keyId(1), `idempotency-${n}`)).toEqual(job)
        }
        const others = [newJob(20), { ...newJob(21), idempotencyKey: "idempotency-1", fingerprint: digest(1) }]
        expect((yield* submit(...others)).map(({ _tag }) => _tag)).toEqual(["Created", "Replayed"])
        expect(yield* read(newJob(1))).toEqual(job)
        // Of another key, they are free.
        expect(yield* createTags({ ...newJob(22), keyId: keyId(2), idempotencyKey: "idempotency-1" })).toEqual([
          "Created",
        ])
        const done = yield* complete(yield* claimOne())
        expect(yield* submit({ ...replacing(1), id: jobId(30) })).toEqual([{ _tag: "Replayed", job: done }])
        yield* store.deleteJobs(0, 10)
        expect(yield* store.findByIdempotencyKey(keyId(1), "idempotency-1")).toBe(undefined)
        expect(yield* createTags({ ...replacing(1), id: jobId(31) })).toEqual(["Created"])
      }),
    ),

    check(
      "signals stay, and labels are those of the new submission",
      Effect.gen(function* () {
        const store = yield* JobStore
        const directory = yield* JobDirectory
        const tagged = (...tags: ReadonlyArray<string>) => ({ metadata: withSubmitted({}, { tags }) })
        const idsOf = (tag: string) =>
          Effect.map(directory.listJobs({ labels: [`#${tag}`], limit: 10 }), ({ jobs }) => jobs.map(({ id }) => id))
        yield* create(replacing(1, tagged("old", "both")))
        expect(yield* store.signalJobs([{ jobId: jobId(1), name: "go", value: 1 }])).toEqual(["Accepted"])
        yield* replace(replacing(2, tagged("both", "new")))
        expect(yield* Effect.all([idsOf("old"), idsOf("both"), idsOf("new")])).toEqual([[], [jobId(1)], [jobId(1)]])
        expect((yield* store.listSignals(jobId(1))).map(({ name }) => name)).toEqual(["go"])
      }),
    ),

    check(
      "a job keeps its prerequisites, and what happens if one of them fails",
      Effect.gen(function* () {
        const directory = yield* JobDirectory
        yield* create(newJob(1))
        const [prerequisite] = (yield* claim()).claims
        const after = [jobId(1)]
        const dependent = { metadata: withSubmitted({}, { after, afterFailure: "run", tags: ["old"] }), delayMs: 500 }
        yield* create(replacing(2, dependent))
        const plain = yield* replace(replacing(3))
        expect(plain.metadata).toEqual(withSubmitted({}, { after, afterFailure: "run" }))
        const marked = withDelivery(withSubmitted({ model: "small" }, { tags: ["new"] }))
        const job = yield* replace(replacing(4, { metadata: marked }))
        expect(submittedOf(job)).toEqual({ after, afterFailure: "run", tags: ["new"] })
        expect(JSON.stringify(job.metadata).endsWith(deliveryMark)).toBe(true)
        for (const label of labelsWith({ after, tags: ["new"] }))
          expect((yield* directory.listJobs({ labels: [label], limit: 10 })).jobs.map(({ id }) => id)).toEqual([job.id])
        // The end of the prerequisite finds it.
        const store = yield* JobStore
        const { token } = yield* claimOne()
        const park = { reason: "after", subject: "1", until: undefined } as const
        const deferral = { jobId: job.id, token, delayMs: 1, countsAsFailure: true, record: undefined, park }
        expect(yield* store.deferJobs([deferral])).toEqual(["Written"])
        expect((yield* read(job)).claimableAt).toBe(maxParkMs)
        if (prerequisite !== undefined) yield* complete(prerequisite)
        expect((yield* claimOne()).job).toMatchObject({ id: job.id, request: replacing(4).request })
      }),
    ),

    check(
      "the retry of a failed job can be replaced, and the operator's key stays bound",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* createFailed(replacing(1))
        yield* create(replacing(2, { retryOf: jobId(1), idempotencyKey: "retry 1" }))
        const job = yield* replace(replacing(3))
        expect(job.id).toBe(jobId(2))
        expect(yield* store.findByIdempotencyKey(keyId(1), "retry 1")).toEqual(job)
        // A retry itself replaces nothing.
        const retry = replacing(4, { retryOf: jobId(1) })
        expect((yield* submit(retry)).map(({ _tag }) => _tag)).toEqual(["Duplicate"])
      }),
    ),

    check(
      "the upload before is free again, and the new one is consumed",
      Effect.gen(function* () {
        const [one, two] = [yield* createUploaded(1), yield* createUploaded(2)]
        const withUpload = (n: number, upload: number) => newUploadJob(n, { ...replaces, uploadId: uploadId(upload) })
        yield* create(withUpload(1, 1))
        expect((yield* replace(withUpload(2, 2))).uploadId).toBe(uploadId(2))
        expect(yield* readUpload(1)).toEqual(one)
        expect(yield* readUpload(2)).toEqual({ ...two, jobId: jobId(1) })
        // Its own is not in use by another.
        expect((yield* replace(withUpload(3, 2))).uploadId).toBe(uploadId(2))
        expect(yield* createTags(newUploadJob(4, { uploadId: uploadId(2) }))).toEqual(["UploadRefused"])
        yield* create(newUploadJob(5, { uploadId: uploadId(1) }))
        expect(yield* createTags(withUpload(6, 1), withUpload(7, 9))).toEqual(["UploadRefused", "UploadRefused"])
        const { claims } = yield* claim()
        expect(claims.map(({ job, upload }) => [job.id, upload?.id])).toEqual([
          [jobId(1), uploadId(2)],
          [jobId(5), uploadId(1)],
        ])
      }),
    ),

    check(
      "an upload that was released is swept like any other, and no sweep takes the one of the job",
      Effect.gen(function* () {
        const [one, two] = [yield* createUploaded(1), yield* createUploaded(2)]
        yield* create(newUploadJob(1, replaces))
        yield* replace(newUploadJob(2, { ...replaces, uploadId: uploadId(2) }))
        yield* advance(Math.max(one.usableUntil, two.usableUntil))
        expect((yield* (yield* UploadStore).expireUploads(10)).count).toBe(1)
        expect(yield* readUpload(1)).toMatchObject({ erased: true, file: null })
        expect((yield* readUpload(2)).erased).toBe(false)
      }),
    ),

    check(
      "a live job has the price in force at its last submission, and is refused while the gate is closed",
      Effect.gen(function* () {
        const board = yield* Switchboard
        yield* openAudioGate
        const before = first(yield* create(newLiveJob(1, replaces)))
        yield* board.setPrice({ name: "svc-audio", currency: "usd", unitAmounts: { input_characters: "0.5" } })
        yield* board.activatePrice("svc-audio", true)
        const after = yield* replace(newLiveJob(2, replaces))
        expect(after.price?.unitAmounts).toEqual({ input_characters: "0.5" })
        expect(after.price?.version).toBeGreaterThan(before.price?.version ?? 0)
        yield* board.setSwitch("ai", false)
        expect(yield* createTags(newLiveJob(3, replaces))).toEqual(["GateClosed"])
        expect(yield* read(before)).toEqual(after)
      }),
    ),

    check(
      "a replaced key is bound for its key record alone, and the time of another project's job stays",
      Effect.gen(function* () {
        const { idempotencyKey } = newJob(1)
        const scope = { ...replaces.unique, scope: digest(8), while: "queued" } as const
        const ofOther = { projectId: projectId(2), keyId: keyId(2), unique: scope }
        yield* create(replacing(1, { delayMs: 5_000 }), newJob(3, { ...ofOther, delayMs: 9_000 }))
        yield* replace(replacing(2, { delayMs: 5_000 }))
        expect((yield* replace(newJob(4, { ...ofOther, idempotencyKey }))).id).toBe(jobId(3))
        yield* create(newJob(5, { projectId: projectId(3), keyId: keyId(3), idempotencyKey }), newJob(6))
        const claimed = (yield* claim()).claims.map(({ job }) => job.id)
        expect(claimed.toSorted()).toEqual([jobId(3), jobId(5), jobId(6)])
      }),
    ),

    check(
      "under a spend cap, only the difference counts, and a refusal changes nothing",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* cap(projectId(1), { day: "0.00030" })
        const live = (n: number, characters: number, of = replaces) =>
          newLiveJob(n, { ...of, maxUsage: { input_characters: characters } })
        const reserved = Effect.map(spendingOf(projectId(1)), (spending) => spending?.reserved)
        yield* create(live(1, 12))
        expect(yield* reserved).toBe("0.00018")
        // With both at once, the cap would be passed.
        const job = yield* replace(live(2, 20))
        expect(yield* reserved).toBe("0.0003")
        expect(yield* createTags(live(3, 21))).toEqual(["SpendCapReached"])
        expect(yield* read(job)).toEqual(job)
        expect(yield* reserved).toBe("0.0003")
        expect(yield* createTags(live(4, 5), live(5, 15, {}), live(6, 6), live(7, 5))).toEqual([
          "Replaced",
          "Created",
          "SpendCapReached",
          "Replaced",
        ])
        expect(yield* reserved).toBe("0.0003")
        yield* (yield* JobStore).cancelJobs([jobId(1)])
        expect(yield* reserved).toBe("0.000225")
        // Without its own reservation, not without that of the other job.
        yield* create(live(8, 4))
        expect(yield* createTags(live(9, 6), live(10, 5))).toEqual(["SpendCapReached", "Replaced"])
      }),
    ),

    check(
      "in a full queue, a job is replaced, and counts once",
      Effect.gen(function* () {
        const [one, two] = [{ queueCap: 1 }, { queueCap: 2 }]
        yield* create(replacing(1, one))
        for (const n of [2, 3, 4]) yield* replace(replacing(n, one))
        expect(yield* createTags(newJob(5, one))).toEqual(["QueueFull"])
        expect(yield* createTags(newJob(6, two), newJob(7, two))).toEqual(["Created", "QueueFull"])
      }),
    ),

    check(
      "of submissions and claims at once, every claimed job has one whole request",
      Effect.gen(function* () {
        const store = yield* JobStore
        const rounds = 30
        const item = (n: number) =>
          replacing(n, { request: { n }, metadata: { n }, limits: { queueLimitMs, runLimitMs: runLimitMs + n } })
        const [outcomes, claims] = yield* Effect.all(
          [
            Effect.forEach(
              Array.from({ length: rounds }, (_, n) => item(n + 1)),
              (job) => store.createJobs([job]),
              { concurrency: 4 },
            ),
            Effect.forEach(Array.from({ length: rounds }), () => Effect.andThen(Effect.yieldNow, claim()), {
              concurrency: 2,
            }),
          ],
          { concurrency: "unbounded" },
        )
        const last = yield* claim()
        const jobs = [...claims, last].flatMap((found) => found.claims.map(({ job }) => job))
        expect(new Set(jobs.map(({ id }) => id)).size).toBe(jobs.length)
        expect(jobs).toHaveLength(outcomes.flat().filter(({ _tag }) => _tag === "Created").length)
        for (const { fingerprint, idempotencyKey, metadata, request, runLimitMs: limit } of jobs) {
          const n = (request as { readonly n: number }).n
          const whole = { fingerprint: digest(n), idempotencyKey: `idempotency-${n}`, metadata: { n } }
          expect({ fingerprint, idempotencyKey, metadata }).toEqual(whole)
          expect(limit).toBe(runLimitMs + n)
        }
      }),
    ),
  ],
}
