import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type {
  Charge,
  Chunk,
  FailedAttempt,
  Job,
  JobId,
  Json,
  JsonObject,
  KeyId,
  PendingDelivery,
  ProjectId,
  Signal,
  SpendCap,
  SpendOwner,
  Upload,
  UploadId,
  WaitRun,
} from "@kiln/core/domain"
import type { ParkedJob, ParkedOn, SharedBucket } from "@kiln/core/rules"
import { isFinished, submittedOf, uploadBlobPrefix } from "@kiln/core/domain"
import {
  applyEvent,
  isDelivered,
  isParked,
  isUploadFault,
  keylessPrefix,
  readClocks,
  StoreTime,
} from "@kiln/core/rules"
import type {
  ApiKeyRecord,
  LedgerEntry,
  OperatorToken,
  PriceVersion,
  Project,
  PublishedWorker,
  PublishedRule,
  StoredSchedule,
} from "@kiln/core/ports"

/** A parked job, with how many of the jobs that it waits for have not finished. */
export interface Parked extends ParkedJob {
  readonly unfinished: number
}

/** One project's unfinished jobs of one kind, version and mode. Lanes keep their creation order permanently. */
export interface Lane {
  readonly projectId: ProjectId
  readonly kind: string
  readonly kindVersion: number
  readonly mode: Job["mode"]
  readonly unfinished: Set<JobId>
  /** The lane's position in start-time fair queueing; see `claimJobs`. */
  virtualTime: number
}

/** A secret of a key. */
export interface KeySecret {
  readonly keyId: KeyId
  /** When its overlap ends; `null` for the current secret. */
  readonly validUntil: number | null
}

/** The maximum cost of an unfinished job, and the owners of the caps that it counts against. */
export interface Reservation {
  readonly owners: ReadonlyArray<SpendOwner>
  readonly currency: string
  readonly amount: string
}

/** An idempotency key that stays bound to a job whose request was replaced, with the fingerprint of the request that bound it. */
export interface ReplacedKey {
  readonly jobId: JobId
  readonly fingerprint: string
}

/** A purge, with how often it has failed. */
export interface DuePurge {
  readonly blobPrefix: string
  readonly failures: number
  readonly dueAt: number
}

/** A published rule of retention, and until when its process counts as running. */
export type StoredRule = Omit<PublishedRule, "stoppedForMs"> & { readonly liveUntil: number }

/** The state of one memory store. Only the verbs change it, each in one synchronous step. */
export interface MemoryState {
  readonly jobs: Map<JobId, Job>
  /** Failed attempts of jobs that have any, oldest first. */
  readonly attempts: Map<JobId, ReadonlyArray<FailedAttempt>>
  /** The runs of attempts that ended to wait, of jobs that have any, oldest first. */
  readonly waits: Map<JobId, ReadonlyArray<WaitRun>>
  /** Of jobs that were parked. One that is over is kept until the job is parked again. */
  readonly parked: Map<JobId, Parked>
  /** The unfinished jobs that start after a job, of jobs that have any. */
  readonly dependents: Map<JobId, Set<JobId>>
  /** Signals of jobs that have any, by name. */
  readonly signals: Map<JobId, Readonly<Record<string, Signal>>>
  /** Chunks of jobs that have any, by index. */
  readonly chunks: Map<JobId, ReadonlyArray<Chunk>>
  readonly jobByIdempotencyKey: Map<string, JobId>
  /** The idempotency keys of requests that were replaced. */
  readonly replacedKeys: Map<string, ReplacedKey>
  readonly unfinishedByProject: Map<ProjectId, number>
  readonly lanes: Map<string, Lane>
  /** The virtual time at which a lane was last served. */
  virtualTime: number
  /** The ledger. Outlives the jobs. */
  readonly charges: Map<JobId, LedgerEntry>
  readonly spendCaps: Map<SpendOwner, SpendCap>
  /** By job. A reservation ends with its job. */
  readonly reservations: Map<JobId, Reservation>
  /** Charges from now on get this time or a later one. */
  ledgerClosedUntil: number
  readonly uploads: Map<UploadId, Upload>
  /** The maximum number of bytes that the latest transfer of an upload may store. */
  readonly reservedBytes: Map<UploadId, number>
  /** By prefix, oldest first. */
  readonly purges: Map<string, DuePurge>
  /** By kind and publisher. */
  readonly retentionRules: Map<string, StoredRule>
  readonly projects: Map<ProjectId, Project>
  readonly keys: Map<KeyId, ApiKeyRecord>
  readonly secrets: Map<string, KeySecret>
  readonly switches: Map<string, boolean>
  readonly pausedKinds: Set<string>
  readonly projectConcurrency: Map<ProjectId, number>
  readonly prices: Map<string, ReadonlyArray<PriceVersion>>
  readonly workers: Map<string, { readonly published: PublishedWorker; readonly until: number }>
  /** When each kind was last served live. */
  readonly servedKinds: Map<string, number>
  readonly namedSecrets: Map<string, Uint8Array>
  readonly schedules: Map<string, StoredSchedule>
  /** The job that took each scope last. */
  readonly scopes: Map<string, JobId>
  /** By job. */
  readonly deliveries: Map<JobId, PendingDelivery>
  readonly rateBuckets: Map<string, SharedBucket>
  /** By the hash of their secrets, in order of creation. */
  readonly operatorTokens: Map<string, OperatorToken>
  /** By the start of the minute. */
  readonly minutes: Map<number, JsonObject>
  /** The text last written by `writeLineage`. */
  lineage: { readonly version: number; readonly document: string | null }
}

export const emptyState = (): MemoryState => ({
  jobs: new Map(),
  attempts: new Map(),
  waits: new Map(),
  parked: new Map(),
  dependents: new Map(),
  signals: new Map(),
  chunks: new Map(),
  jobByIdempotencyKey: new Map(),
  replacedKeys: new Map(),
  unfinishedByProject: new Map(),
  lanes: new Map(),
  virtualTime: 0,
  charges: new Map(),
  spendCaps: new Map(),
  reservations: new Map(),
  ledgerClosedUntil: 0,
  uploads: new Map(),
  reservedBytes: new Map(),
  purges: new Map(),
  retentionRules: new Map(),
  projects: new Map(),
  keys: new Map(),
  secrets: new Map(),
  switches: new Map(),
  pausedKinds: new Set(),
  projectConcurrency: new Map(),
  prices: new Map(),
  workers: new Map(),
  servedKinds: new Map(),
  namedSecrets: new Map(),
  schedules: new Map(),
  scopes: new Map(),
  deliveries: new Map(),
  rateBuckets: new Map(),
  operatorTokens: new Map(),
  minutes: new Map(),
  lineage: { version: 0, document: null },
})

/** Returns the ledger entry of a job that finished at this time. */
export const entryOf = ({ id, keyId, kind, projectId }: Job, charge: Charge, chargedAt: number): LedgerEntry => ({
  jobId: id,
  projectId,
  keyId,
  kind,
  chargedAt,
  charge,
})

/** Store time for each clock. It lives as long as the clock, which in a program is the process. */
const storeTimes = new WeakMap<Clock.Clock, StoreTime>()

/** Returns the store time by a clock. */
export const storeTimeBy = (clock: Clock.Clock): number => {
  const storeTime = storeTimes.get(clock) ?? new StoreTime()
  storeTimes.set(clock, storeTime)
  return storeTime.now(readClocks(clock))
}

/** Runs one atomic step at one store time. It is synchronous, so nothing can run in between. An error is a defect. */
export const step = <A>(run: (now: number) => A): Effect.Effect<A> =>
  Clock.clockWith((clock) => Effect.sync(() => run(storeTimeBy(clock))))

/** Returns a frozen copy, so that later changes by callers or readers do not reach the store. */
export const keep = <A extends Json | object>(value: A): A => freeze(structuredClone(value))

/** Freezes a value with all its parts. */
export const freeze = <A>(value: A): A => {
  if (typeof value === "object" && value !== null && !ArrayBuffer.isView(value)) {
    for (const part of Object.values(value)) freeze(part)
    Object.freeze(value)
  }
  return value
}

export const idempotencyIndex = (keyId: KeyId, idempotencyKey: string): string => `${keyId} ${idempotencyKey}`

const laneKey = (job: Job): string => `${job.projectId} ${job.mode} ${job.kindVersion} ${job.kind}`

const laneOf = (state: MemoryState, job: Job): Lane => {
  const key = laneKey(job)
  let lane = state.lanes.get(key)
  if (lane === undefined) {
    const { kind, kindVersion, mode, projectId } = job
    lane = { projectId, kind, kindVersion, mode, unfinished: new Set(), virtualTime: 0 }
    state.lanes.set(key, lane)
  }
  return lane
}

/** Adds a new job to everything that refers to it. */
export const insertJob = (state: MemoryState, job: Job): void => {
  if (state.jobs.has(job.id)) throw new TypeError(`job ${job.id} already exists`)
  state.jobs.set(job.id, job)
  state.jobByIdempotencyKey.set(idempotencyIndex(job.keyId, job.idempotencyKey), job.id)
  state.unfinishedByProject.set(job.projectId, (state.unfinishedByProject.get(job.projectId) ?? 0) + 1)
  laneOf(state, job).unfinished.add(job.id)
  awaitPrerequisites(state, job)
}

const awaitPrerequisites = (state: MemoryState, job: Job): void => {
  for (const id of submittedOf(job).after ?? []) {
    const dependents = state.dependents.get(id) ?? new Set()
    state.dependents.set(id, dependents.add(job.id))
  }
}

/** Gives a waiting job another request, in everything that refers to it. The key of a caller that it had stays bound to it. */
export const replaceRequest = (state: MemoryState, before: Job, job: Job): void => {
  const { fingerprint, id: jobId, idempotencyKey, keyId } = before
  const key = idempotencyIndex(keyId, idempotencyKey)
  state.jobByIdempotencyKey.delete(key)
  if (!idempotencyKey.startsWith(keylessPrefix)) state.replacedKeys.set(key, Object.freeze({ jobId, fingerprint }))
  leavePrerequisites(state, before)
  laneOf(state, before).unfinished.delete(job.id)
  state.jobs.set(job.id, job)
  state.jobByIdempotencyKey.set(idempotencyIndex(job.keyId, job.idempotencyKey), job.id)
  laneOf(state, job).unfinished.add(job.id)
  awaitPrerequisites(state, job)
}

const addDelivery = (state: MemoryState, { finishedAt, id: jobId, kind }: Job): void =>
  void state.deliveries.set(jobId, Object.freeze({ jobId, kind, dueAt: finishedAt ?? 0, attempts: 0, token: 0 }))

/** Replaces a job with its next version. Removes the checkpoints of a done job; those of a failed one stay for its retry. */
export const putJob = (state: MemoryState, next: Job): Job => {
  const before = state.jobs.get(next.id)
  const finishes = isFinished(next) && before !== undefined && !isFinished(before)
  const job = Object.freeze(finishes && next.status === "done" ? { ...next, checkpoints: Object.freeze({}) } : next)
  if (finishes) {
    if (isUploadFault(job.errorCode) && job.uploadId !== null) eraseFaulty(state, job.uploadId)
    laneOf(state, job).unfinished.delete(job.id)
    state.reservations.delete(job.id)
    if (isDelivered(job.metadata)) addDelivery(state, job)
    state.unfinishedByProject.set(job.projectId, (state.unfinishedByProject.get(job.projectId) ?? 1) - 1)
  }
  state.jobs.set(job.id, job)
  if (finishes) {
    state.parked.delete(job.id)
    wakeParent(state, job)
    leavePrerequisites(state, job)
    for (const id of state.dependents.get(job.id) ?? []) countEnded(state, id, { reason: "after" }, job.finishedAt ?? 0)
  }
  return job
}

/** Wakes a job that is parked on an event which has come. */
export const wake = (state: MemoryState, jobId: JobId, { reason, subject }: ParkedOn, now: number): void => {
  const job = state.jobs.get(jobId)
  const parked = state.parked.get(jobId)
  if (job === undefined || !isParked(parked, job) || parked.reason !== reason || parked.subject !== subject) return
  const woken = applyEvent(job, { event: "woken" }, now)
  if (woken !== undefined) putJob(state, { ...job, ...woken })
}

/** Returns the number of jobs that a parking waits for: unfinished children of a step, or unfinished prerequisites. */
export const countAwaited = (state: MemoryState, jobId: JobId, { reason, subject }: ParkedOn): number => {
  if (reason === "children") return unfinishedChildren(state, { jobId, step: subject })
  if (reason !== "after") return 0
  const job = state.jobs.get(jobId)
  return [...new Set((job && submittedOf(job).after) ?? [])].filter((id) => {
    const prerequisite = state.jobs.get(id)
    return prerequisite !== undefined && !isFinished(prerequisite)
  }).length
}

const unfinishedChildren = (state: MemoryState, of: { readonly jobId: JobId; readonly step: string }): number => {
  let count = 0
  for (const lane of state.lanes.values())
    for (const id of lane.unfinished) {
      const child = state.jobs.get(id)
      const parent = child && submittedOf(child).parent
      if (parent?.jobId === of.jobId && parent.step === of.step) count += 1
    }
  return count
}

/** Counts a job that has ended, and wakes the one that waited for it once no other is left of those that it waited for when it was parked. */
const countEnded = (
  state: MemoryState,
  jobId: JobId,
  on: Pick<ParkedOn, "reason"> & Partial<ParkedOn>,
  now: number,
) => {
  const parked = state.parked.get(jobId)
  if (parked === undefined || parked.reason !== on.reason || parked.subject !== (on.subject ?? parked.subject)) return
  const unfinished = parked.unfinished - 1
  state.parked.set(jobId, Object.freeze({ ...parked, unfinished }))
  if (unfinished <= 0) wake(state, jobId, parked, now)
}

const wakeParent = (state: MemoryState, child: Job): void => {
  const { parent } = submittedOf(child)
  if (parent !== undefined)
    countEnded(state, parent.jobId, { reason: "children", subject: parent.step }, child.finishedAt ?? 0)
}

const leavePrerequisites = (state: MemoryState, job: Job): void => {
  for (const id of submittedOf(job).after ?? []) {
    const dependents = state.dependents.get(id)
    dependents?.delete(job.id)
    if (dependents?.size === 0) state.dependents.delete(id)
  }
}

/** No job can use the upload. */
const eraseFaulty = (state: MemoryState, uploadId: UploadId): void => {
  const upload = state.uploads.get(uploadId)
  if (upload === undefined || upload.erased) return
  putUpload(state, { ...upload, file: null, erased: true })
  addPurges(state, [uploadBlobPrefix(uploadId)])
}

export const putUpload = (state: MemoryState, upload: Upload): Upload => {
  state.uploads.set(upload.id, Object.freeze(upload))
  return upload
}

/** Records purges. A purge that is already due keeps its place. */
export const addPurges = (state: MemoryState, prefixes: ReadonlyArray<string>) =>
  prefixes.map((blobPrefix) => {
    if (!state.purges.has(blobPrefix))
      state.purges.set(blobPrefix, Object.freeze({ blobPrefix, failures: 0, dueAt: 0 }))
    return { blobPrefix }
  })
