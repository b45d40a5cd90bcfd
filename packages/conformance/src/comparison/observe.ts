import * as Effect from "effect/Effect"
import { isFinished, type Job } from "@kiln/core/domain"
import { JobDirectory, JobStore, KeyDirectory, Switchboard, UploadStore } from "@kiln/core/ports"
import { allJobs } from "../allJobs.ts"
import { ownerOf } from "../fixtures.ts"
import type { History, KnownJob, Seen } from "./History.ts"
import { countsInOrder, unordered } from "./pick.ts"

/** An age that no sum of a history's steps equals, because stores may include or exclude the limit itself. */
const finishedWithinMs = 2_345

/** Everything that can be read from a store about what a history touched. */
export const observe = Effect.fnUntraced(function* (history: History) {
  const jobs = yield* JobStore
  const uploads = yield* UploadStore
  const directory = yield* JobDirectory
  const keys = yield* KeyDirectory
  const board = yield* Switchboard
  const { liveKinds, ...rest } = yield* board.readBoard
  return {
    jobs: yield* jobs.findJobs(history.jobs),
    polled: yield* jobs.pollJobs(history.jobs),
    attempts: yield* Effect.forEach(history.jobs, ({ jobId }) => directory.listAttempts(jobId)),
    waits: yield* directory.listWaits(history.jobs.map(({ jobId }) => jobId)),
    signals: yield* Effect.forEach(history.jobs, ({ jobId }) => jobs.listSignals(jobId)),
    chunks: yield* jobs.readChunks(history.jobs.map(({ jobId }) => ({ jobId, from: 0, limit: 10_000 }))),
    chunkTotals: yield* Effect.forEach(history.jobs, ({ jobId }) => jobs.countChunks(jobId)),
    list: yield* allJobs({ limit: 10_000 }),
    counts: countsInOrder(yield* directory.countJobs({ finishedWithinMs })),
    // Without ages, which include the time that the store itself takes.
    depths: (yield* directory.measureQueue({ limit: 10_000 })).map(({ oldestReadyMs: _, ...depth }) => depth),
    uploads: yield* Effect.forEach(history.uploads, ({ uploadId }) => uploads.findUpload(uploadId)),
    charges: yield* jobs.listCharges({ from: 0, to: Number.MAX_SAFE_INTEGER, after: null, limit: 10_000 }),
    purges: unordered(yield* jobs.listPurges(10_000), (purge) => purge.blobPrefix),
    board: { ...rest, liveKinds: liveKinds.toSorted() },
    prices: yield* board.listPrices,
    spending: yield* board.listSpending,
    workers: yield* board.listWorkers,
    projects: unordered(yield* keys.listProjects, (project) => project.id),
    keys: unordered(yield* keys.listKeys, (key) => key.id),
  }
})
export type Observation = Effect.Success<ReturnType<typeof observe>>

export const presentJobs = ({ jobs }: Observation): ReadonlyMap<Job["id"], Job> =>
  new Map(jobs.flatMap((job) => (job === undefined ? [] : [[job.id, job] as const])))

const knownJob = (job: Job): KnownJob => ({ jobId: job.id, principal: ownerOf(job) })

/** Candidates for later operations. */
export const seenFrom = ({ jobs, uploads, projects }: Observation, history: History): Seen => {
  const known = jobs.filter((job) => job !== undefined)
  const announced = uploads.filter((upload) => upload !== undefined)
  const isEnded = (job: Job | undefined): boolean => job === undefined || isFinished(job)
  return {
    held: known.filter((job) => job.held).map(({ id, token, mode }) => ({ jobId: id, token, live: mode === "live" })),
    superseded: history.claims.filter(({ jobId, token }) => {
      const job = history.present.get(jobId)
      return job !== undefined && !isFinished(job) && job.token > token
    }),
    ended: history.claims.filter(({ jobId }) => isEnded(history.present.get(jobId))),
    finished: known.filter(isFinished).map(knownJob),
    unfinished: known.filter((job) => !isFinished(job)).map(knownJob),
    waiting: known.filter(({ held, status }) => status === "processing" && !held).map(knownJob),
    retryable: known.filter((job) => job.status === "failed" && job.retained === "kept"),
    transfers: announced
      .filter((upload) => upload.claimedUntil !== null)
      .map(({ id, token }) => ({ uploadId: id, token })),
    unused: announced.filter((upload) => upload.jobId === null).map((upload) => ({ ...upload, uploadId: upload.id })),
    files: known.flatMap((job) => job.files.map((file) => ({ fileId: file.id, blobKey: file.blobKey, jobId: job.id }))),
    projects: projects.map((project) => project.id),
    instants: [
      ...known.flatMap((job) => [job.claimableAt, job.deadlineAt]),
      ...announced.flatMap((upload) => [upload.claimedUntil, upload.expiresAt, upload.usableUntil]),
    ].filter((instant) => instant !== null),
  }
}
