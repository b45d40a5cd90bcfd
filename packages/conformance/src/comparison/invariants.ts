import type { ConcurrencyLimits, Job, JobId, UploadId } from "@kiln/core/domain"
import { applyEvent, created } from "@kiln/core/rules"
import type { Claim, ClaimRequest } from "@kiln/core/ports"
import { jobChange } from "../model/jobChange.ts"
import { sameValue } from "../model/jobFields.ts"
import type { History } from "./History.ts"
import type { Observation } from "./observe.ts"

/** Throws if the reference itself breaks a rule: the table checks the reference as well. */
const refuse = (rule: string): never => {
  throw new Error(`an invariant failed: ${rule}`)
}

/** Checks the invariants that hold after every step. */
export const expectPromises = (
  name: string,
  history: History,
  observed: Observation,
  present: ReadonlyMap<JobId, Job>,
  now: number,
): void => {
  expectMoves(name, history, present, now)
  expectUniqueKeys(present)
  expectUploadsUsedOnce(history, observed, present)
  expectUniqueFiles(present)
  expectLedger(history, observed, present)
}

type Step = readonly [before: Job | undefined, after: Job | undefined, verb: string]

/** The verbs that made this of a job. A creation with a claim is two: the job it claimed was first as it is created. */
const stepsOf = (name: string, before: Job | undefined, after: Job | undefined, now: number): ReadonlyArray<Step> => {
  const woken = before && after?.held === true && !before.held ? applyEvent(before, { event: "woken" }, now) : undefined
  // An end of the step may have made it claimable: it was the last child of a parked job.
  if (before !== undefined && woken !== undefined && name !== "claimJobs") {
    const claimable = { ...before, ...woken }
    return [
      [before, claimable, "completeJobs"],
      [claimable, after, "claimJobs"],
    ]
  }
  if (before === undefined && after !== undefined && name.startsWith("complete")) return followUpSteps(after, now)
  if (name === "completeAndClaimJobs") return [[before, after, after?.status === "done" ? "completeJobs" : "claimJobs"]]
  if (name !== "createAndClaimJobs") return [[before, after, name]]
  if (before !== undefined && after !== undefined && before.idempotencyKey !== after.idempotencyKey)
    return replacementAndClaim(before, after, now)
  if (before === undefined && after?.token === 0) return [[before, after, "createJobs"]]
  // Another job of the batch may be the retry of a job, which no claim changes.
  if (before?.status === "failed") return [[before, after, "createJobs"]]
  if (before !== undefined || after === undefined) return [[before, after, "claimJobs"]]
  const queued = { ...after, ...created(now, after) }
  return [
    [undefined, queued, "createJobs"],
    [queued, after, "claimJobs"],
  ]
}

/** A job that a completion created: it may have been refused, or claimed, in the same step. */
const followUpSteps = (after: Job, now: number): ReadonlyArray<Step> => {
  if (after.status === "queued") return [[undefined, after, "createJobs"]]
  const queued: Job = { ...after, ...created(now, after), output: null }
  return [
    [undefined, queued, "createJobs"],
    [queued, after, after.status === "failed" ? "completeJobs" : "claimJobs"],
  ]
}

/** A job that is claimed has waited since its start. */
const replacementAndClaim = (before: Job, after: Job, now: number): ReadonlyArray<Step> => {
  if (!after.held) return [[before, after, "createJobs"]]
  const at = now - after.waitedMs
  const replaced = {
    ...after,
    ...applyEvent(before, { event: "replaced", limits: after, at }, now),
    ...requestOf(after),
  }
  return [
    [before, replaced, "createJobs"],
    [replaced, after, "claimJobs"],
  ]
}

const requestOf = ({
  fingerprint,
  idempotencyKey,
  kindVersion,
  metadata,
  price,
  priority,
  request,
  uploadId,
}: Job): Partial<Job> => ({ fingerprint, idempotencyKey, kindVersion, metadata, price, priority, request, uploadId })

const expectMoves = (name: string, history: History, present: ReadonlyMap<JobId, Job>, now: number): void => {
  for (const { jobId } of history.jobs) {
    const [before, after] = [history.present.get(jobId), present.get(jobId)]
    for (const [from, to, verb] of stepsOf(name, before, after, now)) {
      const change = jobChange(from, to, now, verb)
      if (change._tag === "Illegal") refuse(`${name} at ${now}: ${change.reason}`)
      if (change._tag === "Moved") history.sighted(change.event)
    }
  }
}

const expectUniqueKeys = (present: ReadonlyMap<JobId, Job>): void => {
  const owners = new Map<string, JobId>()
  for (const { id, idempotencyKey, keyId } of present.values()) {
    const index = `${keyId} ${idempotencyKey}`
    const other = owners.get(index)
    if (other !== undefined) refuse(`${other} and ${id} have one idempotency key`)
    owners.set(index, id)
  }
}

const expectUploadsUsedOnce = (history: History, { uploads }: Observation, present: ReadonlyMap<JobId, Job>): void => {
  // A job that waits lets go of its upload when its request is replaced.
  for (const [id, before] of history.present)
    if (before.status === "queued" && before.uploadId !== null && present.get(id)?.uploadId !== before.uploadId)
      history.fed.delete(before.uploadId)
  for (const { id, uploadId } of present.values()) if (uploadId !== null) noteUse(history, uploadId, id)
  for (const upload of uploads) {
    if (upload === undefined || upload.jobId === history.fed.get(upload.id)) continue
    if (upload.jobId !== null || history.fed.has(upload.id)) refuse(`${upload.id} and its job do not agree`)
  }
}

const noteUse = ({ fed, retries }: History, uploadId: UploadId, jobId: JobId): void => {
  const other = fed.get(uploadId)
  // A retry takes over what the job it tries again had consumed.
  if (other !== undefined && other !== jobId && retries.get(jobId) !== other)
    refuse(`${uploadId} fed ${other} and ${jobId}`)
  fed.set(uploadId, jobId)
}

const expectUniqueFiles = (present: ReadonlyMap<JobId, Job>): void => {
  const seen = new Set<string>()
  for (const { files } of present.values())
    for (const { blobKey, id } of files) {
      if (seen.has(id) || seen.has(blobKey)) refuse(`two jobs name the file ${id}`)
      seen.add(id).add(blobKey)
    }
}

/** An entry for each done live job, as the job says; it stays as it is, also when the job's record is gone. */
const expectLedger = (
  history: History,
  { charges: { entries: charges, until } }: Observation,
  present: ReadonlyMap<JobId, Job>,
): void => {
  const entries = new Map(charges.map((entry) => [entry.jobId, entry]))
  if (entries.size < charges.length) refuse("a job has one ledger entry")
  for (const [jobId, before] of history.ledger)
    if (!sameValue(before, entries.get(jobId))) refuse(`the ledger's entry for ${jobId} changed`)
  for (const [jobId, entry] of entries) {
    const job = present.get(jobId)
    if (!history.ledger.has(jobId) && entry.chargedAt < history.ledgerUntil)
      refuse(`the entry for ${jobId} has the time ${entry.chargedAt}, up to which the ledger was complete without it`)
    if (job === undefined ? !history.ledger.has(jobId) : job.charge === null) refuse(`${jobId} is charged for nothing`)
    history.ledger.set(jobId, entry)
  }
  for (const { charge, finishedAt, id } of present.values()) {
    const entry = entries.get(id)
    if (
      charge !== null &&
      !(entry !== undefined && entry.chargedAt >= (finishedAt ?? 0) && sameValue(entry.charge, charge))
    )
      refuse(`the ledger has no matching charge for ${id}`)
  }
  history.ledgerUntil = Math.max(history.ledgerUntil, until)
}

/** A claim's token is the job's, and higher than that of every claim of the job before it. */
export const expectFreshToken = (history: History, job: Job, token: number): void => {
  if (job.token !== token || !job.held) refuse(`${job.id} was claimed with ${token} and stands at ${job.token}`)
  for (const earlier of history.claims)
    if (earlier.jobId === job.id && earlier.token >= token) refuse(`${job.id} was claimed twice with ${token}`)
}

/** A claim returns no jobs beyond the limits, including jobs claimed before. */
export const expectWithinLimits = (
  history: History,
  claims: ReadonlyArray<Claim>,
  { perKind, perProject }: ConcurrencyLimits,
  ended: ReadonlyArray<JobId>,
): void => {
  const after = new Map([...history.present, ...claims.map(({ job }) => [job.id, job] as const)])
  for (const id of ended) after.delete(id)
  for (const { job } of claims) {
    const now = job.phaseStartedAt ?? 0
    const inProgress = [...after.values()].filter(
      ({ claimableAt, held, mode }) => held && (claimableAt ?? 0) > now && mode === job.mode,
    )
    const ofKind = inProgress.filter(({ kind }) => kind === job.kind).length
    const ofProject = inProgress.filter(({ projectId }) => projectId === job.projectId).length
    if (ofKind > (perKind[job.kind] ?? ofKind)) refuse(`${ofKind} jobs of ${job.kind} are claimed`)
    if (perProject > 0 && ofProject > perProject) refuse(`${ofProject} jobs of ${job.projectId} are claimed`)
  }
}

/** A claim returns no jobs beyond the worker's free slots. */
export const expectWithinSlots = (claims: ReadonlyArray<Claim>, worker: ClaimRequest["worker"]): void => {
  if (worker === undefined) return
  for (const { job } of claims) {
    const ofMode = claims.filter((other) => other.job.mode === job.mode)
    if (ofMode.length > worker.free[job.mode]) refuse(`${ofMode.length} ${job.mode} jobs are claimed at once`)
    const before = worker.held.filter(({ mode, projectId }) => mode === job.mode && projectId === job.projectId)
    const held = before.reduce((sum, { count }) => sum + count, 0)
    const ofProject = ofMode.filter((other) => other.job.projectId === job.projectId).length
    if (worker.perProject > 0 && held + ofProject > worker.perProject)
      refuse(`${job.projectId} holds ${held + ofProject} slots`)
  }
}
