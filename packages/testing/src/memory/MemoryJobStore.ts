import {
  type FileId,
  idBody,
  isFinished,
  type Job,
  type JobId,
  owns,
  type Principal,
  submittedOf,
} from "@kiln/core/domain"
import {
  applyEvent,
  holdsClaim,
  isOverdue,
  jobOrphanReason,
  overdueEvent,
  polledJob,
  waitsSince,
} from "@kiln/core/rules"
import {
  type CancelOutcome,
  isReplaced,
  JobStore,
  type LedgerEntry,
  type LedgerPage,
  type LedgerPart,
  type Orphan,
  type PublishedRule,
  type RetentionPublication,
  type StoredFile,
  type StoredLineage,
} from "@kiln/core/ports"
import { claimJobs } from "./jobs/claimJobs.ts"
import { appendChunks, countChunks, readChunks } from "./jobs/chunks.ts"
import { createJobs, findByIdempotencyKey } from "./jobs/createJobs.ts"
import { eraseJobs } from "./jobs/eraseJobs.ts"
import {
  checkpointJobs,
  completeJobs,
  deferJobs,
  extendLeases,
  failJobs,
  releaseJobs,
  rescheduleJobs,
  signalJobs,
} from "./jobs/fencedVerbs.ts"
import { deleteJobs, expireData } from "./jobs/pruneJobs.ts"
import { confirmPurges, hastenPurges, listPurges, nextPurges, postponePurges } from "./jobs/purges.ts"
import { type MemoryState, putJob, step, type StoredRule } from "./MemoryState.ts"

type Place = Pick<LedgerEntry, "chargedAt" | "jobId">

/** Orders entries by time, then by job id. */
const comparePlaces = (a: Place, b: Place): number =>
  a.chargedAt - b.chargedAt || (a.jobId < b.jobId ? -1 : a.jobId > b.jobId ? 1 : 0)

/**
 * Lists charges, and closes the ledger after now and after its last entry: a later charge, even in this millisecond, gets a later
 * time.
 */
const listCharges = (state: MemoryState, { after, from, limit, to }: LedgerPage, now: number): LedgerPart => {
  const last = [...state.charges.values()].reduce((time, { chargedAt }) => Math.max(time, chargedAt), now)
  const until = Math.min(to, Math.max(state.ledgerClosedUntil, last + 1))
  state.ledgerClosedUntil = Math.max(state.ledgerClosedUntil, until)
  const entries = [...state.charges.values()]
    .filter(
      (entry) =>
        entry.chargedAt >= from && entry.chargedAt < until && (after === null || comparePlaces(entry, after) > 0),
    )
    .sort(comparePlaces)
    .slice(0, limit)
  return { entries, until }
}

/** The reference model of `JobStore`: the pure domain functions over maps. */
export const makeMemoryJobStore = (state: MemoryState): JobStore["Service"] =>
  JobStore.of({
    capabilities: { durable: false, multiProcess: false },
    createJobs: (jobs) => step((now) => createJobs(state, jobs, now)),
    createAndClaimJobs: (jobs, claim) =>
      step((now) => ({ created: createJobs(state, jobs, now), claimed: claimJobs(state, claim, now) })),
    findJobs: (items) => step(() => items.map((item) => findOwned(state, item))),
    pollJobs: (items) =>
      step(() =>
        items.map((item) => {
          const polled = findOwned(state, item)
          return polled && polledJob(polled)
        }),
      ),
    findByIdempotencyKey: (keyId, idempotencyKey) => step(() => findByIdempotencyKey(state, keyId, idempotencyKey)),
    findFile: (fileId) => step(() => findFile(state, fileId)),
    claimJobs: (request) => step((now) => claimJobs(state, request, now)),
    extendLeases: (items) => step((now) => extendLeases(state, items, now)),
    checkpointJobs: (items) => step((now) => checkpointJobs(state, items, now)),
    appendChunks: (items) => step(() => appendChunks(state, items)),
    readChunks: (items) => step(() => readChunks(state, items)),
    countChunks: (jobId) => step(() => countChunks(state, jobId)),
    completeJobs: (items) => step((now) => completeJobs(state, items, now)),
    completeAndClaimJobs: (items, claim) =>
      step((now) => ({ completed: completeJobs(state, items, now), claimed: claimJobs(state, claim, now) })),
    failJobs: (items) => step((now) => failJobs(state, items, now)),
    deferJobs: (items) => step((now) => deferJobs(state, items, now)),
    releaseJobs: (items) => step((now) => releaseJobs(state, items, now)),
    signalJobs: (items) => step((now) => signalJobs(state, items, now)),
    listSignals: (jobId) =>
      step(() => Object.values(state.signals.get(jobId) ?? {}).sort((a, b) => compare(a.name, b.name))),
    cancelJobs: (jobIds) => step((now) => cancelJobs(state, jobIds, now)),
    rescheduleJobs: (items) => step((now) => rescheduleJobs(state, items, now)),
    checkClaims: (items) =>
      step(() =>
        items.map(({ jobId, token }) => {
          const job = state.jobs.get(jobId)
          return job !== undefined && holdsClaim(job, token)
        }),
      ),
    expireJobs: (limit) => step((now) => expireJobs(state, limit, now)),
    eraseJobs: (items) => step(() => eraseJobs(state, items)),
    expireData: (olderThanMs, limit) => step((now) => expireData(state, olderThanMs, limit, now)),
    deleteJobs: (olderThanMs, limit) => step((now) => deleteJobs(state, olderThanMs, limit, now)),
    listCharges: (page) => step((now) => listCharges(state, page, now)),
    publishRetention: (publication) => step((now) => publishRetention(state, publication, now)),
    readRetention: step((now) => readRetention(state, now)),
    listPurges: (limit) => step(() => listPurges(state, limit)),
    nextPurges: (limit) => step((now) => nextPurges(state, limit, now)),
    postponePurges: (purges) => step((now) => postponePurges(state, purges, now)),
    hastenPurges: step(() => hastenPurges(state)),
    confirmPurges: (purges) => step(() => confirmPurges(state, purges)),
    findOrphans: (blobs) => step(() => findOrphans(state, blobs)),
    readLineage: step((now) => readLineage(state, now)),
    writeLineage: (version, document) => step(() => writeLineage(state, version, document)),
  })

const findOwned = (
  state: MemoryState,
  { jobId, principal }: { readonly jobId: JobId; readonly principal: Principal },
): Job | undefined => {
  const job = state.jobs.get(jobId)
  return job !== undefined && owns(principal, job) ? job : undefined
}

const findFile = (state: MemoryState, fileId: FileId): StoredFile | undefined => {
  for (const job of state.jobs.values()) {
    const file = isFinished(job) ? job.files.find((candidate) => candidate.id === fileId) : undefined
    if (file !== undefined && job.retained === "kept") return { ...file, jobId: job.id }
  }
  return undefined
}

/** Fails unfinished jobs, even while a worker holds them. */
const cancelJobs = (state: MemoryState, jobIds: ReadonlyArray<JobId>, now: number): ReadonlyArray<CancelOutcome> =>
  jobIds.map((id) => {
    const job = state.jobs.get(id)
    if (job === undefined) return "NotFound"
    const failed = applyEvent(job, { event: "canceled" }, now)
    if (failed === undefined) return "AlreadyFinished"
    putJob(state, { ...job, ...failed })
    return "Canceled"
  })

/**
 * Fails overdue jobs, the longest overdue first. A job whose worker vanished is returned to the queue instead, one that could not start before its
 * prerequisites goes on waiting, and neither counts.
 */
const expireJobs = (state: MemoryState, limit: number, now: number): ReadonlyArray<JobId> => {
  const overdue = [...state.jobs.values()]
    .filter((job) => isOverdue(job, now))
    .sort((a, b) => (a.deadlineAt ?? 0) - (b.deadlineAt ?? 0))
  const failed: Array<JobId> = []
  for (const job of overdue) {
    if (failed.length >= limit) break
    const prerequisites = (submittedOf(job).after ?? []).flatMap((id) => state.jobs.get(id) ?? [])
    const since = waitsSince(
      prerequisites.map(({ finishedAt }) => finishedAt),
      now,
    )
    const next = applyEvent(job, overdueEvent(job, now, since), now)
    if (next !== undefined && isFinished(putJob(state, { ...job, ...next }))) failed.push(job.id)
  }
  return failed
}

/** The rule is the domain's: `jobOrphanReason`. */
const findOrphans = (
  state: MemoryState,
  blobs: ReadonlyArray<{ readonly blobKey: string; readonly jobId: JobId; readonly token: number }>,
): ReadonlyArray<Orphan> =>
  blobs.flatMap(({ blobKey, jobId, token }) => {
    const job = state.jobs.get(jobId)
    const named = job !== undefined && isFinished(job) && job.files.some((file) => file.blobKey === blobKey)
    const reason = jobOrphanReason(job && { finished: isFinished(job), token: job.token }, { token, named })
    return reason === undefined ? [] : [{ blobKey, reason }]
  })

const readLineage = (state: MemoryState, now: number): StoredLineage => {
  const bodies = [...state.jobs.keys(), ...state.uploads.keys()].map(idBody)
  const newestId = bodies.reduce<string | null>(
    (newest, body) => (newest === null || body > newest ? body : newest),
    null,
  )
  return { ...state.lineage, now, newestId }
}

const writeLineage = (state: MemoryState, version: number, document: string): boolean => {
  if (state.lineage.version !== version) return false
  state.lineage = { version: version + 1, document }
  return true
}

const publishedRule = ({ liveUntil, ...rule }: StoredRule, now: number): PublishedRule => ({
  ...rule,
  stoppedForMs: liveUntil > now ? null : now - liveUntil,
})

const publishRetention = (state: MemoryState, publication: RetentionPublication, now: number): void => {
  const { program, publisher, rules, ttlMs } = publication
  for (const [name, rule] of state.retentionRules)
    if (rule.publisher === publisher || isReplaced(publishedRule(rule, now), publication))
      state.retentionRules.delete(name)
  for (const { dataMs, jobsMs, kind } of rules)
    state.retentionRules.set(
      JSON.stringify([kind, publisher]),
      Object.freeze({ kind, dataMs, jobsMs, publisher, program, liveUntil: now + Math.ceil(ttlMs) }),
    )
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

const readRetention = (state: MemoryState, now: number): ReadonlyArray<PublishedRule> =>
  [...state.retentionRules.values()]
    .sort((a, b) => compare(a.kind, b.kind) || compare(a.publisher, b.publisher))
    .map((rule) => publishedRule(rule, now))
