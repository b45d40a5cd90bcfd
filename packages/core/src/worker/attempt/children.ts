import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { authorize, isFinished, type Job, type JobStatus, submittedOf } from "../../domain/index.ts"
import { childIndex, childKey, foreignPauseMs, gatePauseMs, type ParentStep, stepLabel } from "../../domain/Child.ts"
import { KindUnknown, type SpendCapReached } from "../../domain/Errors.ts"
import { idsOfLabel } from "../../engine/childrenOf.ts"
import type { JobRequest, Engine, Fingerprint, JobOutcomes } from "../../engine/index.ts"
import { type AttemptError, AttemptFailed, AttemptParked, type Child } from "../../kinds/AttemptContext.ts"
import type { JobKind } from "../../kinds/JobKind.ts"
import { KindBug } from "../../kinds/KindBug.ts"
import type { JobDirectory, JobStore } from "../../ports/index.ts"
import { countEarlierChildren, submitChildren } from "./retriedChildren.ts"
import { shownCall } from "./UsedNames.ts"

/** Jobs in one page of a list, or in one call that reads them. */
const pageSize = 500

type Directory = JobDirectory["Service"]

const parkedOn = (step: string, until?: number) =>
  new AttemptParked({ park: { reason: "children", subject: step, until } })

const unfinishedStatuses: ReadonlySet<string> = new Set<JobStatus | "delayed">(["queued", "delayed", "processing"])

/** Counts the children of a step. */
const countChildren = (directory: Directory, parent: ParentStep) =>
  Effect.map(
    directory.countJobs({ finishedWithinMs: Number.MAX_SAFE_INTEGER, labels: [stepLabel(parent)] }),
    (counts) => {
      const sum = (of: typeof counts) => of.reduce((total, { count }) => total + count, 0)
      return { all: sum(counts), unfinished: sum(counts.filter(({ status }) => unfinishedStatuses.has(status))) }
    },
  )

/** A finished child, as its parent sees it. */
const childOf = ({ errorCode, files, id, output, status }: Job): Child =>
  status === "done"
    ? {
        id,
        status,
        output: output && {
          ...output,
          ...Object.fromEntries(
            files.map(({ bytes, id: fileId, mediaType, name, sha256 }) => [
              name,
              { id: fileId, mediaType, bytes, sha256 },
            ]),
          ),
        },
      }
    : { id, status: "failed", errorCode: errorCode ?? "internal_error" }

/** Reads the finished children of a step, in the order of their requests. Each must be the job of the request at its place. */
const readChildren = Effect.fnUntraced(function* (
  { directory, fingerprint }: ChildServices,
  parent: ParentStep,
  kind: JobKind,
  requests: ReadonlyArray<unknown>,
) {
  const ids = yield* idsOfLabel(directory, stepLabel(parent))
  const children: Array<Child> = []
  for (let from = 0; from < ids.length; from += pageSize)
    for (const job of yield* directory.readJobs(ids.slice(from, from + pageSize)))
      if (job !== undefined) {
        const index = childIndex(job.idempotencyKey)
        if (!isRequestOf(job, kind, requests[index], fingerprint))
          return yield* Effect.die(otherRequest(parent.step, index))
        children[index] = childOf(job)
      }
  return children
})

/** Reads finished children, whose order is known. */
const readInOrder = Effect.fnUntraced(function* (directory: Directory, jobs: ReadonlyArray<Job>) {
  const children: Array<Child> = []
  for (let from = 0; from < jobs.length; from += pageSize) {
    const page = jobs.slice(from, from + pageSize)
    const found = yield* directory.readJobs(page.map(({ id }) => id))
    children.push(...page.map((job, index) => childOf(found[index] ?? job)))
  }
  return children
})

/** Returns whether a child has this kind and request. True for a request that the kind, which may be newer, no longer accepts. */
const isRequestOf = (
  job: Job,
  { name, reader }: JobKind,
  request: unknown,
  fingerprint: Fingerprint["Service"],
): boolean => {
  if (job.kind !== name) return false
  const read = reader.read(request)
  return Result.isFailure(read) || fingerprint.of(name, read.success.stored, read.success.canonical) === job.fingerprint
}

const otherRequest = (step: string, index: number) =>
  new KindBug(
    `child ${index} of ${shownCall("children", step)} was another request in an earlier attempt; give a step the same requests each time`,
  )

/** Turns the first refusal of a child into the end of its parent's attempt. */
const refusal = (
  outcomes: JobOutcomes,
  step: string,
  job: Job,
  now: () => number,
): Effect.Effect<void, AttemptError> => {
  const index = outcomes.findIndex(Result.isFailure)
  const outcome = outcomes[index]
  if (outcome === undefined || Result.isSuccess(outcome)) return Effect.void
  const error = outcome.failure
  if (error._tag === "StoreUnavailable") return Effect.fail(error)
  const parkOn = (missing: ReadonlyArray<string>) =>
    Effect.fail(
      new AttemptParked({ park: { reason: "gate", subject: missing.join(", "), until: now() + gatePauseMs } }),
    )
  if (error._tag === "LiveNotActive") return parkOn(error.missing)
  // Until the cap is raised or its period ends, but no longer than the parent may wait.
  if (error._tag === "SpendCapReached")
    return Effect.andThen(tellOfCap(error, step, job), parkOn([`spend_cap:${error.owner}`]))
  if (error._tag === "IdempotencyKeyReused") return Effect.die(otherRequest(step, index))
  const detail = `child ${index} of ${shownCall("children", step)} was refused: ${error._tag}`
  return Effect.fail(new AttemptFailed({ errorCode: "internal_error", retry: false, detail, cause: error }))
}

/** Logs ever more rarely: the parent looks again every second. */
const tellOfCap = ({ message }: SpendCapReached, step: string, { token }: Job): Effect.Effect<void> =>
  (token & (token - 1)) === 0 ? Effect.logWarning(`the children of step "${step}" wait: ${message}`) : Effect.void

/** The number of children of a step. */
export interface KeptCount {
  /** As an earlier attempt kept it, once it had submitted all of them. */
  readonly known: number | undefined
  /** Keeps it, unless it is known. */
  readonly keep: (count: number) => Effect.Effect<void, AttemptError>
}

/** Fails if the children that an earlier attempt submitted are not those that this one asks for, or not all there. None is made again. */
const checkCount = (
  step: string,
  known: number | undefined,
  asked: number,
  found: number,
): Effect.Effect<void, AttemptError> => {
  if (known === undefined) return Effect.void
  if (known !== asked)
    return Effect.die(
      new KindBug(`step "${step}" had ${known} children in an earlier attempt; give it the same requests each time`),
    )
  if (found >= known) return Effect.void
  const detail = `${known - found} of ${known} children of step "${step}" were deleted before their parent had finished`
  return Effect.fail(new AttemptFailed({ errorCode: "internal_error", retry: false, detail }))
}

/** The arguments for creating children. */
export interface ChildServices {
  readonly engine: Engine["Service"]
  readonly directory: Directory
  readonly fingerprint: Fingerprint["Service"]
  readonly store: JobStore["Service"]
}

/** What a parent needs when it is parked. */
export interface Parked {
  /** Returns the store time. */
  readonly now: () => number
  /** Keeps that callers see how many of the children have finished, unless the attempt reports its progress itself. */
  readonly tell: (total: number) => Effect.Effect<void, AttemptError>
}

/** Returns the kind of the children of a step. Throws `KindBug` for arguments of `children` that JavaScript code got wrong. */
const kindOfChildren = ({ kinds }: Engine["Service"], step: string, kindName: unknown, requests: unknown): JobKind => {
  const call = shownCall("children", step)
  if (!Array.isArray(requests)) throw new KindBug(`${call} expects an array of requests as its third argument`)
  if (typeof kindName !== "string") throw new KindBug(`${call} expects a kind or its name as its second argument`)
  const kind = kinds.find(({ name }) => name === kindName)
  if (kind !== undefined) return kind
  throw new KindBug(`${call}: ${new KindUnknown({ kind: kindName, known: kinds.map(({ name }) => name) }).message}`)
}

/** The requests for the children of a step. They belong to the parent's project and key, and have its mode, priority and context. */
const askedFor = (
  job: Job,
  parent: ParentStep,
  kind: JobKind,
  requests: ReadonlyArray<unknown>,
): ReadonlyArray<JobRequest> => {
  const { keyId, mode, priority, projectId } = job
  const { context } = submittedOf(job)
  const grant = authorize({ keyId, mode, projectId, scopes: [kind.keyScope] }, kind.keyScope)
  if (grant === undefined) throw new Error("authorize() refused a scope that the principal has")
  return requests.map((request, index) => ({
    grant,
    kind,
    request,
    idempotencyKey: childKey(parent, index),
    placement: { priority, submitted: { ...(context !== undefined && { context }), parent }, uncapped: true },
  }))
}

/**
 * Submits the children of a step that do not exist yet, and returns all of them once they are finished. Until then it fails with
 * `AttemptParked`, and the attempt ends without holding a slot.
 */
export const awaitChildren = Effect.fnUntraced(function* (
  services: ChildServices,
  job: Job,
  step: string,
  kindName: string,
  requests: ReadonlyArray<unknown>,
  count: KeptCount,
  { now, tell }: Parked,
): Effect.fn.Return<ReadonlyArray<Child>, AttemptError> {
  const { directory, engine } = services
  const parent: ParentStep = { jobId: job.id, step }
  const kind = kindOfChildren(engine, step, kindName, requests)
  const before = yield* countChildren(directory, parent)
  const asked = before.all < requests.length ? askedFor(job, parent, kind, requests) : []
  const isShort = count.known !== undefined && before.all < count.known
  const earlier = isShort ? yield* countEarlierChildren(services, job, parent, asked) : 0
  yield* checkCount(step, count.known, requests.length, before.all + earlier)
  if (before.all < requests.length) {
    const outcomes = yield* submitChildren(services, job, parent, asked)
    yield* refusal(outcomes, step, job, now)
    yield* count.keep(requests.length)
    const submitted = outcomes.flatMap((outcome) => (Result.isSuccess(outcome) ? [outcome.success.job] : []))
    const unfinished = submitted.filter((child) => !isFinished(child))
    if (unfinished.length > 0) {
      const areOwn = unfinished.some((child) => submittedOf(child).parent?.jobId === job.id)
      yield* tell(requests.length)
      return yield* parkedOn(step, areOwn ? undefined : now() + foreignPauseMs)
    }
    return yield* readInOrder(directory, submitted)
  }
  if (before.all > requests.length)
    return yield* Effect.die(
      new KindBug(
        `${shownCall("children", step)} had ${before.all} requests in an earlier attempt and has ${requests.length} now; give a step the same requests each time`,
      ),
    )
  yield* count.keep(requests.length)
  if (before.unfinished > 0) {
    yield* tell(requests.length)
    return yield* parkedOn(step)
  }
  return yield* readChildren(services, parent, kind, requests)
})
