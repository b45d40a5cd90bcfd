import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { authorize, isFinished, type Job, type JobStatus, submittedOf } from "../../domain/index.ts"
import { askedFingerprint } from "../../domain/JobMetadata.ts"
import { childKey, foreignPauseMs, type ParentStep, stepLabel } from "../../domain/Child.ts"
import { KindUnknown } from "../../domain/Errors.ts"
import { cancelLeftChildren } from "../../engine/cancelJob.ts"
import { type Engine, type Fingerprint, type JobRequest, retriedBy } from "../../engine/index.ts"
import { type AttemptError, AttemptFailed, AttemptParked, type Child } from "../../kinds/AttemptContext.ts"
import type { JobKind } from "../../kinds/JobKind.ts"
import { KindBug } from "../../kinds/KindBug.ts"
import type { JobDirectory } from "../../ports/index.ts"
import type { AttemptServices } from "./AttemptServices.ts"
import { type ChildOutcomes, readChildrenOf, submitChildren } from "./retriedChildren.ts"
import { refused } from "./refused.ts"
import { shownCall } from "./Attempt.ts"

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

/** A finished child or prerequisite, as the job that waited for it sees it. */
export const childOf = ({ errorCode, files, id, output, status }: Job): Child =>
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

/** Reads finished children again, which may have been found before they had finished. */
const readAgain = Effect.fnUntraced(function* (directory: Directory, jobs: ReadonlyArray<Job>) {
  const read: Array<Job> = []
  for (let from = 0; from < jobs.length; from += pageSize) {
    const page = jobs.slice(from, from + pageSize)
    const found = yield* directory.readJobs(page.map(({ id }) => id))
    read.push(...page.map((job, index) => found[index] ?? job))
  }
  return read
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
  if (Result.isFailure(read)) return true
  return fingerprint.of(name, read.success.stored, read.success.canonical) === askedFingerprint(job)
}

const otherRequest = (step: string, index: number) =>
  new KindBug(
    `child ${index} of ${shownCall("children", step)} was another request in an earlier attempt; give a step the same requests each time`,
  )

/** Turns the first refusal of a child into the end of its parent's attempt. */
const refusal = (
  outcomes: ChildOutcomes,
  requests: ReadonlyArray<unknown>,
  step: string,
  job: Job,
  now: () => number,
): Effect.Effect<void, AttemptError> => {
  const [index, outcome] = [...outcomes].find((entry) => Result.isFailure(entry[1])) ?? []
  if (index === undefined || outcome === undefined || Result.isSuccess(outcome)) return Effect.void
  const waiting = `the children of step "${step}"`
  return refused(outcome.failure, job, now, {
    request: requests[index],
    name: `child ${index} of ${shownCall("children", step)}`,
    waiting,
    reused: () => otherRequest(step, index),
  })
}

/** The number of children of a step. */
export interface KeptCount {
  /** As an earlier attempt kept it, once it had submitted all of them. */
  readonly known: number | undefined
  /** Keeps it, unless it is known. */
  readonly keep: (count: number) => Effect.Effect<void, AttemptError>
}

/**
 * Fails if children are missing that an earlier attempt submitted. None is made again, except by a retry, which has those of the failed
 * job too.
 */
const checkMissing = (
  step: string,
  known: number | undefined,
  missing: number,
  job: Job,
): Effect.Effect<void, AttemptError> => {
  if (known === undefined || retriedBy(job.idempotencyKey) !== undefined) return Effect.void
  const detail = `${missing} of ${known} children of step "${step}" were deleted before their parent had finished`
  return Effect.fail(new AttemptFailed({ errorCode: "internal_error", retry: false, detail }))
}

/** The arguments for creating children. */
export type ChildServices = Pick<AttemptServices, "engine" | "directory" | "fingerprint" | "store" | "context" | "fork">

/**
 * A parent that is canceled while it submits leaves children that its cancellation did not find. Cancels them in the background. If that
 * fails, each is canceled when it begins.
 */
const cancelLeft = ({ context, fork }: ChildServices, { id }: Job): void => {
  fork(Effect.provideContext(Effect.ignore(cancelLeftChildren(id)), context))
}

/** What a parent needs when it is parked. */
export interface Parked {
  /** Returns the store time. */
  readonly now: () => number
  /** Keeps that callers see how many of the children have finished, unless the attempt reports its progress itself. */
  readonly tell: (total: number) => Effect.Effect<void, AttemptError>
}

/** Returns the kind of the children of a step. Throws `KindBug` for arguments of `children` that JavaScript code got wrong. */
const kindOfChildren = (engine: Engine["Service"], step: string, kindName: unknown, requests: unknown): JobKind => {
  const call = shownCall("children", step)
  if (!Array.isArray(requests)) throw new KindBug(`${call} expects an array of requests as its third argument`)
  return kindNamed(engine, call, kindName)
}

/** Returns the kind of this name. Throws `KindBug` for a wrong one. */
export const kindNamed = ({ kinds }: Engine["Service"], call: string, kindName: unknown): JobKind => {
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
    placement: {
      priority,
      submitted: { ...(context !== undefined && { context }), parent: { ...parent, index } },
      uncapped: true,
    },
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
  const total = requests.length
  if (count.known !== undefined && count.known !== total)
    return yield* Effect.die(
      new KindBug(
        `step "${step}" had ${count.known} children in an earlier attempt; give it the same requests each time`,
      ),
    )
  const before = yield* countChildren(directory, parent)
  // All were submitted, so none has to be read before they have finished.
  if (count.known !== undefined && before.unfinished > 0) {
    yield* tell(total)
    return yield* parkedOn(step)
  }
  const children = before.all === 0 ? new Map<number, Job>() : yield* readChildrenOf(directory, parent)
  const asked = [...children.keys()].reduce((most, index) => Math.max(most, index + 1), 0)
  if (asked > total)
    return yield* Effect.die(
      new KindBug(
        `${shownCall("children", step)} had ${asked} requests in an earlier attempt and has ${total} now; give a step the same requests each time`,
      ),
    )
  const isShort = children.size < total
  const submitting = Effect.gen(function* () {
    if (isShort) {
      yield* checkMissing(step, count.known, total - children.size, job)
      const missing = askedFor(job, parent, kind, requests).flatMap((request, index) =>
        children.has(index) ? [] : { index, request },
      )
      const outcomes = yield* submitChildren(services, job, parent, missing)
      yield* refusal(outcomes, requests, step, job, now)
      for (const [index, outcome] of outcomes) if (Result.isSuccess(outcome)) children.set(index, outcome.success.job)
    }
    // Refused if the parent was canceled meanwhile.
    yield* count.keep(total)
  })
  yield* Effect.onError(submitting, () => Effect.sync(() => cancelLeft(services, job)))
  const inOrder = requests.flatMap((_, index) => children.get(index) ?? [])
  const unfinished = inOrder.filter((child) => !isFinished(child))
  if (unfinished.length > 0) {
    const areOwn = unfinished.some((child) => submittedOf(child).parent?.jobId === job.id)
    yield* tell(total)
    return yield* parkedOn(step, areOwn ? undefined : now() + foreignPauseMs)
  }
  const finished = isShort ? yield* readAgain(directory, inOrder) : inOrder
  const other = finished.findIndex((child, index) => !isRequestOf(child, kind, requests[index], services.fingerprint))
  return other === -1 ? finished.map(childOf) : yield* Effect.die(otherRequest(step, other))
})
