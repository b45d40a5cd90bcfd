import { type Board, type Job, type JobId, owns } from "@kiln/core/domain"
import { advanceAfter, type BoundKey, type JobFacts, judgeJob, maximumCostOf } from "@kiln/core/rules"
import type { CreateOutcome, NewJob } from "@kiln/core/ports"
import {
  idempotencyIndex,
  insertJob,
  keep,
  type MemoryState,
  putJob,
  putUpload,
  replaceRequest,
} from "../MemoryState.ts"
import { replaceSchedule } from "../MemoryScheduleStore.ts"
import { keptBytes } from "../keptBytes.ts"
import { readBoard } from "../MemorySwitchboard.ts"
import { readSpending } from "../spending.ts"

/** Creates jobs. Earlier items of the batch count for later ones. */
export const createJobs = (
  state: MemoryState,
  jobs: ReadonlyArray<NewJob>,
  now: number,
): ReadonlyArray<CreateOutcome> => {
  const board = readBoard(state, now)
  return jobs.map((job) => createJob(state, job, board, now))
}

const createJob = (state: MemoryState, item: NewJob, board: Board, now: number): CreateOutcome => {
  const outcome = judgeJob(item, factsOf(state, item, board, now))
  const advanced = item.tick && advanceAfter(item.tick, outcome)
  if (item.tick !== undefined && advanced !== undefined) replaceSchedule(state, item.tick, advanced, now)
  if (outcome._tag === "Created") return { _tag: "Created", job: write(state, item, outcome.job) }
  return outcome._tag === "Replaced" ? { _tag: "Replaced", job: replace(state, item, outcome.job) } : outcome
}

const factsOf = (state: MemoryState, item: NewJob, board: Board, now: number): JobFacts => ({
  now,
  scheduleVersion: () => (item.tick === undefined ? undefined : state.schedules.get(item.tick.name)?.version),
  existing: () => boundKey(state, item),
  scopeHolder: () => {
    const holder = item.unique === undefined ? undefined : state.scopes.get(item.unique.scope)
    return holder === undefined ? undefined : state.jobs.get(holder)
  },
  retried: () => ownRecord(item, item.retryOf === null ? undefined : state.jobs.get(item.retryOf)),
  board: () => board,
  upload: () => ownRecord(item, item.uploadId === null ? undefined : state.uploads.get(item.uploadId)),
  spending: (replaced) =>
    [item.keyId, item.projectId].flatMap((owner) => readSpending(state, owner, now, replaced) ?? []),
  kept: () => keptBytes(state, item.projectId, item.mode),
  unfinished: () => state.unfinishedByProject.get(item.projectId) ?? 0,
})

/** Records of another project, key or mode are treated exactly like unknown ones. */
const ownRecord = <Record extends Parameters<typeof owns>[1]>(
  item: NewJob,
  record: Record | undefined,
): Record | undefined => (record !== undefined && owns(item, record) ? record : undefined)

const write = (state: MemoryState, item: NewJob, judged: Job): Job => {
  const { retryOf, uploadId } = item
  const job = keep(judged)
  insertJob(state, job)
  reserve(state, item, job)
  if (item.unique !== undefined) state.scopes.set(item.unique.scope, job.id)
  for (const [scope, holder] of state.scopes) if (holder === retryOf) state.scopes.set(scope, job.id)
  const retried = retryOf === null ? undefined : state.jobs.get(retryOf)
  if (retried !== undefined) putJob(state, { ...retried, uploadId: null })
  consume(state, uploadId, job.id)
  return job
}

/** Gives a waiting job another request. Its upload is free again, unless the request names the same one. */
const replace = (state: MemoryState, item: NewJob, judged: Job): Job => {
  const before = state.jobs.get(judged.id)
  if (before === undefined) throw new TypeError(`${judged.id} does not exist`)
  const job = keep(judged)
  replaceRequest(state, before, job)
  state.reservations.delete(job.id)
  reserve(state, item, job)
  consume(state, before.uploadId, null)
  consume(state, job.uploadId, job.id)
  return job
}

const consume = (state: MemoryState, uploadId: Job["uploadId"], jobId: JobId | null): void => {
  const upload = uploadId === null ? undefined : state.uploads.get(uploadId)
  if (upload !== undefined) putUpload(state, { ...upload, jobId })
}

/** Reserves what the job may cost at most, for those of its key and project that have a cap. */
const reserve = (state: MemoryState, item: NewJob, { id, keyId, price, projectId }: Job): void => {
  const owners = [keyId, projectId].filter((owner) => state.spendCaps.has(owner))
  const amount = price === null ? undefined : maximumCostOf(item, price)
  if (price === null || amount === undefined || owners.length === 0) return
  state.reservations.set(id, { owners, currency: price.currency, amount })
}

const boundKey = (state: MemoryState, { idempotencyKey, keyId }: NewJob): BoundKey | undefined => {
  const job = findByIdempotencyKey(state, keyId, idempotencyKey)
  const replaced = state.replacedKeys.get(idempotencyIndex(keyId, idempotencyKey))
  return job && { job, fingerprint: replaced?.fingerprint ?? job.fingerprint }
}

export const findByIdempotencyKey = (
  state: MemoryState,
  keyId: NewJob["keyId"],
  idempotencyKey: string,
): Job | undefined => {
  const index = idempotencyIndex(keyId, idempotencyKey)
  const id = state.jobByIdempotencyKey.get(index) ?? state.replacedKeys.get(index)?.jobId
  return id === undefined ? undefined : state.jobs.get(id)
}
