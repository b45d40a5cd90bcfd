import { expect } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import type { Job, SpendOwner, Upload } from "@kiln/core/domain"
import { polledJob } from "@kiln/core/rules"
import {
  type Claim,
  type ClaimRequest,
  type ClaimResult,
  type Completion,
  JobStore,
  type NewJob,
  type NewUpload,
  type StoredFile,
  Switchboard,
  UploadStore,
} from "@kiln/core/ports"
import { expectWellFormed } from "./expectations.ts"
import {
  completionOf,
  leaseDurationMs,
  maxTransfers,
  newJob,
  newUpload,
  newUploadJob,
  noLimits,
  outputFile,
  ownerOf,
  standings,
  uploadedFile,
  uploadId,
} from "./fixtures.ts"

/** Steps that bring a store into a state. Each fails if it does not succeed. */

export const advance = (ms: number): Effect.Effect<void> => TestClock.adjust(ms)
export const now = Clock.currentTimeMillis

const createOutcomes = Effect.fnUntraced(function* (jobs: ReadonlyArray<NewJob>) {
  const store = yield* JobStore
  return yield* store.createJobs(jobs)
})

/** Creates jobs that must all be accepted. */
export const create = Effect.fnUntraced(function* (...jobs: ReadonlyArray<NewJob>) {
  const outcomes = yield* createOutcomes(jobs)
  return outcomes.map((outcome) => {
    if (outcome._tag !== "Created") throw new Error(`expected Created, got ${outcome._tag}`)
    return outcome.job
  })
})

/** Returns the tags of the outcomes of these jobs. */
export const createTags = Effect.fnUntraced(function* (...jobs: ReadonlyArray<NewJob>) {
  const outcomes = yield* createOutcomes(jobs)
  return outcomes.map((outcome) => outcome._tag)
})

export const runnable: ClaimRequest["runnable"] = [
  { kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" },
  { kind: "speech_synthesis", kindVersion: 1, mode: "live" },
  { kind: "transcription", kindVersion: 1, mode: "sandbox" },
  { kind: "transcription", kindVersion: 1, mode: "live" },
]

/** A claim of everything that is claimable. */
export const claimRequest: ClaimRequest = {
  runnable,
  limits: noLimits,
  limit: 100,
  leaseDurationMs,
  maxLostWorkers: 3,
}

export const claim = Effect.fnUntraced(function* (
  request: Partial<ClaimRequest> = {},
): Effect.fn.Return<ClaimResult, unknown, JobStore> {
  const store = yield* JobStore
  return yield* store.claimJobs({ ...claimRequest, ...request })
})

/** The numbers at the end of the claimed jobs' ids, in order. */
export const claimedNumbers = (result: ClaimResult): ReadonlyArray<number> =>
  result.claims.map(({ job }) => Number(job.id.slice("job_".length)))

/** Claims the one job that is next. */
export const claimOne = Effect.fnUntraced(function* (request: Partial<ClaimRequest> = {}) {
  const { claims } = yield* claim({ limit: 1, ...request })
  return first(claims)
})

/** Creates one job and claims it. */
export const createAndClaim = Effect.fnUntraced(function* (
  job: NewJob = newJob(1),
  request: Partial<ClaimRequest> = {},
) {
  yield* create(job)
  const claimed = yield* claimOne(request)
  expect(claimed.job.id).toBe(job.id)
  return claimed
})

/** Reads the current job as its owner; it must exist and be well-formed, and a poll must show the same. */
export const read = Effect.fnUntraced(function* (job: Pick<Job, "id" | "projectId" | "keyId" | "mode">) {
  const store = yield* JobStore
  const items = [{ jobId: job.id, principal: ownerOf(job) }]
  const [found] = yield* store.findJobs(items)
  if (found === undefined) throw new Error(`${job.id} does not exist`)
  expectWellFormed(found)
  expect(yield* store.pollJobs(items)).toEqual([polledJob(found)])
  return found
})

/** Returns whether the job still exists. */
export const exists = Effect.fnUntraced(function* (job: Pick<Job, "id" | "projectId" | "keyId" | "mode">) {
  const store = yield* JobStore
  const [found] = yield* store.findJobs([{ jobId: job.id, principal: ownerOf(job) }])
  return found !== undefined
})

export const complete = Effect.fnUntraced(function* (claimed: Claim, overrides: Partial<Completion> = {}) {
  const store = yield* JobStore
  expect(yield* store.completeJobs([completionOf(claimed, overrides)])).toEqual(["Written"])
  return yield* read(claimed.job)
})

/** Creates a job and brings it to `done`, with one output file `fil_n`. */
export const createDone = Effect.fnUntraced(function* (job: NewJob, n = 1) {
  const claimed = yield* createAndClaim(job)
  return yield* complete(claimed, { files: [outputFile(claimed, n)] })
})

/** Creates a job and brings it to `failed`. */
export const createFailed = Effect.fnUntraced(function* (job: NewJob) {
  const store = yield* JobStore
  const { token } = yield* createAndClaim(job)
  expect(yield* store.failJobs([{ jobId: job.id, token, errorCode: "content_rejected" }])).toEqual(["Written"])
  return yield* read(job)
})

export const createUpload = Effect.fnUntraced(function* (
  upload: NewUpload,
): Effect.fn.Return<Upload, unknown, UploadStore> {
  const store = yield* UploadStore
  const created = first(yield* store.createUploads([upload]))
  if (created === "UploadsFull") throw new Error("expected an upload, got UploadsFull")
  return created
})

/** Begins a transfer and returns its token. */
export const beginTransfer = Effect.fnUntraced(function* (n: number) {
  const store = yield* UploadStore
  const outcome = yield* store.claimUpload({ uploadId: uploadId(n), leaseDurationMs, maxTransfers })
  if (outcome._tag !== "Claimed") throw new Error(`expected Claimed, got ${outcome._tag}`)
  return outcome.token
})

/** Creates upload `n` and transfers its file. */
export const createUploaded = Effect.fnUntraced(function* (n: number, overrides: Partial<NewUpload> = {}) {
  const store = yield* UploadStore
  yield* createUpload(newUpload(n, overrides))
  const token = yield* beginTransfer(n)
  expect(yield* store.completeUpload({ uploadId: uploadId(n), token, file: uploadedFile(uploadId(n), token) })).toBe(
    "Written",
  )
  return yield* readUpload(n)
})

export const readUpload = Effect.fnUntraced(function* (n: number) {
  const store = yield* UploadStore
  const upload = yield* store.findUpload(uploadId(n))
  if (upload === undefined) throw new Error(`upload ${n} does not exist`)
  return upload
})

/** Upload `n`, and job `n` that consumed it and is done. */
export const createDoneWithUpload = Effect.fnUntraced(function* (n: number) {
  yield* createUploaded(n)
  return yield* createDone(newUploadJob(n), n)
})

export const findFile = Effect.fnUntraced(function* (id: StoredFile["id"]) {
  const store = yield* JobStore
  return yield* store.findFile(id)
})

export const duePurges = Effect.gen(function* () {
  const store = yield* JobStore
  const purges = yield* store.listPurges(1_000)
  return purges.map((purge) => purge.blobPrefix)
})

/** Switches, price and provider for `audioGate`. The provider is published for a day. */
export const openAudioGate = Effect.gen(function* () {
  const board = yield* Switchboard
  yield* board.setSwitch("ai", true)
  yield* board.setSwitch("audio", true)
  yield* board.setPrice({ name: "svc-audio", currency: "usd", unitAmounts: { input_characters: "0.000015" } })
  yield* board.activatePrice("svc-audio", true)
  yield* board.publishWorker({
    workerId: "worker",
    liveKinds: ["speech_synthesis", "transcription"],
    providers: standings,
    ttlMs: 86_400_000,
  })
})

/** Sets a spend cap in US dollars. */
export const capSpending = (
  owner: SpendOwner,
  amounts: { readonly day?: string; readonly month?: string; readonly currency?: string },
) =>
  Effect.flatMap(Switchboard, (board) =>
    board.setSpendCap(owner, { currency: "usd", day: null, month: null, ...amounts }),
  )

/** Returns what counts against the cap of an owner, which must have one. */
export const spendingOf = Effect.fnUntraced(function* (owner: SpendOwner) {
  const all = yield* (yield* Switchboard).listSpending
  const found = all.find((spending) => spending.owner === owner)
  if (found === undefined) throw new Error(`${owner} has no cap`)
  const { day, month, reserved } = found
  return { reserved, day, month }
})

/** The first of a list that must not be empty. */
export const first = <A>(list: ReadonlyArray<A>): A => {
  const [head] = list
  if (head === undefined) throw new Error("expected at least one")
  return head
}
