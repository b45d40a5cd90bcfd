import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { StoreUnavailable } from "../domain/index.ts"
import {
  Audited,
  type ClaimRequest,
  type ClaimResult,
  type Completion,
  type CreateOutcome,
  type FencedOutcome,
  type JobDirectory,
  type JobStore,
  type NewJob,
  ShortLockWait,
  type WakeUp,
} from "../ports/index.ts"
import { type JobEvents, refOf } from "./JobEvents.ts"

/** A claim of a worker that the store makes together with a write. */
export interface JointClaim {
  readonly request: ClaimRequest
  /** Called once, after the store has answered: with the claimed jobs, or with `undefined` if none are known to be claimed. */
  readonly end: (claimed: ClaimResult | undefined) => void
}

/** A worker of this process, which never waits for its answer. */
export interface ClaimingWorker {
  /** Returns the claim to make together with the creation of these jobs; `undefined` if it is busy or cannot run them now. */
  readonly claimWithCreation: (jobs: ReadonlyArray<NewJob>) => JointClaim | undefined
  /** Returns the claim to make together with these completions; `undefined` unless it waits for the slots of these jobs. */
  readonly claimWithCompletion: (items: ReadonlyArray<Completion>) => JointClaim | undefined
}

/** A write that waits long for a lock does not claim: the worker would wait with it for the answer, and claim nothing meanwhile. */
const claimBy = (
  workers: Iterable<ClaimingWorker>,
  ask: (worker: ClaimingWorker) => JointClaim | undefined,
): Effect.Effect<JointClaim | undefined> =>
  Effect.map(ShortLockWait, (briefly) => {
    if (!briefly) return undefined
    for (const worker of workers) {
      const claim = ask(worker)
      if (claim !== undefined) return claim
    }
    return undefined
  })

/** Maximum number of jobs that one call creates with results: the call is one transaction. */
const maxFollowUps = 1_000

/** Divides completions into calls that each create a bounded number of jobs. If a later call fails, the earlier ones are repeated without effect. */
const inPortions = (items: ReadonlyArray<Completion>): ReadonlyArray<ReadonlyArray<Completion>> => {
  const portions: Array<Array<Completion>> = []
  let room = 0
  for (const item of items) {
    const size = item.followUps?.length ?? 0
    const last = portions.at(-1)
    if (last === undefined || size > room) {
      portions.push([item])
      room = maxFollowUps - size
    } else {
      last.push(item)
      room -= size
    }
  }
  return portions
}

/** What tells of created jobs. */
interface Telling {
  readonly wakeUp: WakeUp["Service"]
  readonly events: JobEvents["Service"]
  readonly directory: JobDirectory["Service"]
}

/** Completes jobs, and tells of the jobs that were created with their results. A claim of the same call may have taken some of them. */
const completingWith =
  (complete: JointWrites["completeJobs"]) =>
  ({ directory, events, wakeUp }: Telling): JointWrites["completeJobs"] => {
    // Stores return no outcome for these jobs. Only one with a price can have been refused. Best effort, like all events.
    const emitRefused = (created: ReadonlyArray<NewJob>) => {
      const ids = created.flatMap(({ gate, id }) => (gate !== null && gate.price !== null ? [id] : []))
      if (ids.length === 0) return Effect.void
      return Effect.map(
        Effect.orElseSucceed(directory.readJobs(ids), () => []),
        (jobs) => {
          for (const job of jobs)
            if (job?.errorCode === "not_accepted")
              events.emit({ type: "failed", ...refOf(job), errorCode: job.errorCode })
        },
      )
    }
    const announce = (items: ReadonlyArray<Completion>, outcomes: ReadonlyArray<FencedOutcome>) =>
      Effect.suspend(() => {
        const created = items.flatMap(({ followUps = [] }, index) => (outcomes[index] === "Written" ? followUps : []))
        for (const { id: jobId, kind, mode, projectId } of created)
          events.emit({ type: "queued", jobId, kind, mode, projectId })
        return created.length === 0 ? Effect.void : Effect.andThen(wakeUp.notify, emitRefused(created))
      })
    return (items) =>
      items.some(({ followUps }) => followUps !== undefined)
        ? Effect.forEach(inPortions(items), (portion) =>
            Effect.tap(complete(portion), (outcomes) => announce(portion, outcomes)),
          ).pipe(Effect.map((outcomes) => outcomes.flat()))
        : complete(items)
  }

/** Writes together with which workers of this process can claim. */
export interface JointWrites {
  readonly createJobs: (jobs: ReadonlyArray<NewJob>) => Effect.Effect<ReadonlyArray<CreateOutcome>, StoreUnavailable>
  readonly completeJobs: (
    items: ReadonlyArray<Completion>,
  ) => Effect.Effect<ReadonlyArray<FencedOutcome>, StoreUnavailable>
  /** Lets writes claim for a worker. Returns the function that ends this. */
  readonly claimFor: (worker: ClaimingWorker) => () => void
}

/**
 * Creates jobs, emits their `queued` events and wakes workers; completes jobs. If a worker of this process is idle, or waits for the
 * slots of the completed jobs, the store claims for it in the same transaction. Other workers are then notified only of created
 * jobs that this claim left.
 */
export const makeJointWrites = (store: JobStore["Service"], telling: Telling): JointWrites => {
  const { events, wakeUp } = telling
  const workers = new Set<ClaimingWorker>()

  const announce = (outcomes: ReadonlyArray<CreateOutcome>, claimed: ClaimResult | undefined) =>
    Effect.suspend(() => {
      // A replaced job may start sooner than before.
      const waiting = outcomes.flatMap((each) => (each._tag === "Created" || each._tag === "Replaced" ? [each] : []))
      for (const { _tag, job } of waiting) if (_tag === "Created") events.emit({ type: "queued", ...refOf(job) })
      const taken = new Set(claimed?.claims.map(({ job }) => job.id))
      return waiting.every(({ job }) => taken.has(job.id)) ? Effect.void : wakeUp.notify
    })

  const createAlone = (jobs: ReadonlyArray<NewJob>) =>
    Effect.tap(store.createJobs(jobs), (outcomes) => announce(outcomes, undefined))

  const createAndClaim = (jobs: ReadonlyArray<NewJob>, { end, request }: JointClaim) =>
    Effect.matchCauseEffect(
      Effect.suspend(() => store.createAndClaimJobs(jobs, request)),
      {
        onSuccess: ({ claimed, created }) =>
          Effect.map(announce(created, claimed), () => {
            end(claimed)
            return created
          }),
        onFailure: (cause) => {
          end(undefined)
          // A defect may be the fault of the claim, by a job whose record is damaged. Creations must not depend on that.
          return Option.isNone(Cause.findErrorOption(cause)) ? createAlone(jobs) : Effect.failCause(cause)
        },
      },
    )

  const completeAndClaim = (items: ReadonlyArray<Completion>, { end, request }: JointClaim) =>
    Effect.matchCauseEffect(
      Effect.suspend(() => store.completeAndClaimJobs(items, request)),
      {
        onSuccess: ({ claimed, completed }) => {
          end(claimed)
          return Effect.succeed(completed)
        },
        onFailure: (cause) => {
          end(undefined)
          const error = Option.getOrUndefined(Cause.findErrorOption(cause))
          if (error?.contended === true) return Effect.fail(error)
          // A result is never refused for the sake of a claim: on a full disk, there is room for results only.
          return store.completeJobs(items)
        },
      },
    )

  const completeJobs = completingWith((items) =>
    Effect.flatMap(
      claimBy(workers, (worker) => worker.claimWithCompletion(items)),
      (claim) => (claim === undefined ? store.completeJobs(items) : completeAndClaim(items, claim)),
    ),
  )(telling)

  return {
    createJobs: (jobs) =>
      // Stores record an operator's change with `createJobs`.
      Effect.flatMap(Audited, (verb) =>
        verb === undefined
          ? Effect.flatMap(
              claimBy(workers, (worker) => worker.claimWithCreation(jobs)),
              (claim) => (claim === undefined ? createAlone(jobs) : createAndClaim(jobs, claim)),
            )
          : createAlone(jobs),
      ),
    completeJobs,
    claimFor: (worker) => {
      workers.add(worker)
      return () => void workers.delete(worker)
    },
  }
}
