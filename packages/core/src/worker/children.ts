import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { authorize, type Job, type JobStatus, submittedOf } from "../domain/index.ts"
import { childIndex, childKey, type ParentStep, stepLabel } from "../domain/Child.ts"
import { KindUnknown } from "../domain/Errors.ts"
import { idsOfLabel } from "../engine/childrenOf.ts"
import type { Asked, Engine, JobOutcomes } from "../engine/index.ts"
import { type AttemptError, AttemptFailed, type Child, ChildrenUnfinished } from "../kinds/AttemptContext.ts"
import { KindBug } from "../kinds/KindBug.ts"
import type { JobDirectory } from "../ports/index.ts"

/** Jobs in one page of a list, or in one call that reads them. */
const pageSize = 500

type Directory = JobDirectory["Service"]

const unfinished: ReadonlySet<string> = new Set<JobStatus | "delayed">(["queued", "delayed", "processing"])

/** Counts the children of a step. */
const countChildren = (directory: Directory, parent: ParentStep) =>
  Effect.map(
    directory.countJobs({ finishedWithinMs: Number.MAX_SAFE_INTEGER, labels: [stepLabel(parent)] }),
    (counts) => {
      const sum = (of: typeof counts) => of.reduce((total, { count }) => total + count, 0)
      return { all: sum(counts), unfinished: sum(counts.filter(({ status }) => unfinished.has(status))) }
    },
  )

/** What a parent is told about a finished child. */
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

/** Reads the finished children of a step, in the order of their requests. */
const readChildren = Effect.fnUntraced(function* (directory: Directory, parent: ParentStep) {
  const ids = yield* idsOfLabel(directory, stepLabel(parent))
  const children: Array<Child> = []
  for (let from = 0; from < ids.length; from += pageSize)
    for (const job of yield* directory.readJobs(ids.slice(from, from + pageSize)))
      if (job !== undefined) children[childIndex(job.idempotencyKey)] = childOf(job)
  return children
})

/** Turns the first refusal of a child into the end of its parent's attempt. */
const refusal = (outcomes: JobOutcomes, step: string): Effect.Effect<void, AttemptError> => {
  const index = outcomes.findIndex(Result.isFailure)
  const outcome = outcomes[index]
  if (outcome === undefined || Result.isSuccess(outcome)) return Effect.void
  const error = outcome.failure
  if (error._tag === "StoreUnavailable") return Effect.fail(error)
  if (error._tag === "LiveNotActive") return Effect.fail(new ChildrenUnfinished({ missing: error.missing }))
  const detail =
    error._tag === "IdempotencyKeyReused"
      ? `child ${index} of step "${step}" was another request in an earlier attempt; give a step the same requests each time`
      : `child ${index} of step "${step}" was refused: ${error._tag}`
  return Effect.fail(new AttemptFailed({ errorCode: "internal_error", retry: false, detail, cause: error }))
}

/** What children are made with. */
export interface ChildServices {
  readonly engine: Engine["Service"]
  readonly directory: Directory
}

/** The requests for the children of a step. They belong to the parent's project and key, and have its mode, priority and context. */
const askedFor = (
  { kinds }: Engine["Service"],
  job: Job,
  parent: ParentStep,
  kindName: string,
  requests: ReadonlyArray<unknown>,
): ReadonlyArray<Asked> => {
  const kind = kinds.find(({ name }) => name === kindName)
  if (kind === undefined)
    throw new KindBug(new KindUnknown({ kind: kindName, known: kinds.map(({ name }) => name) }).message)
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
 * `ChildrenUnfinished`, and the attempt ends without holding a slot.
 */
export const awaitChildren = Effect.fnUntraced(function* (
  { directory, engine }: ChildServices,
  job: Job,
  step: string,
  kindName: string,
  requests: ReadonlyArray<unknown>,
): Effect.fn.Return<ReadonlyArray<Child>, AttemptError> {
  const parent: ParentStep = { jobId: job.id, step }
  const before = yield* countChildren(directory, parent)
  if (before.all < requests.length) {
    const outcomes = yield* Effect.suspend(() => engine.createJobs(askedFor(engine, job, parent, kindName, requests)))
    yield* refusal(outcomes, step)
    if (requests.length > 0) return yield* new ChildrenUnfinished({ areNew: true })
  }
  if (before.all > requests.length)
    return yield* Effect.die(
      new KindBug(
        `step "${step}" had ${before.all} children in an earlier attempt; give it the same requests each time`,
      ),
    )
  if (before.unfinished > 0) return yield* new ChildrenUnfinished({})
  return yield* readChildren(directory, parent)
})
