import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { StoreUnavailable } from "../domain/index.ts"
import type { ClaimRequest, ClaimResult, CreateOutcome, JobStore, NewJob, WakeUp } from "../ports/index.ts"
import { type JobEvents, refOf } from "./JobEvents.ts"

/** A claim of an idle worker that the store makes together with a creation. */
export interface JointClaim {
  readonly request: ClaimRequest
  /** Called once, after the store has answered: with the claimed jobs, or with `undefined` if none are known to be claimed. */
  readonly end: (claimed: ClaimResult | undefined) => void
}

/**
 * A worker of this process. Returns the claim to make together with the creation of these jobs; `undefined` if the worker is
 * busy or cannot run them now. Never waits.
 */
export type IdleWorker = (jobs: ReadonlyArray<NewJob>) => JointClaim | undefined

/** Creations, with the workers of this process that can start the created jobs without a wake-up. */
export interface Creation {
  readonly createJobs: (jobs: ReadonlyArray<NewJob>) => Effect.Effect<ReadonlyArray<CreateOutcome>, StoreUnavailable>
  /** Lets creations claim for a worker. Returns the function that ends this. */
  readonly claimFor: (worker: IdleWorker) => () => void
}

/**
 * Creates jobs, emits their `queued` events and wakes workers. If a worker of this process is idle, the store claims for it in
 * the same transaction. Other workers are then notified only of jobs that this claim left.
 */
export const makeCreation = (
  store: JobStore["Service"],
  wakeUp: WakeUp["Service"],
  events: JobEvents["Service"],
): Creation => {
  const workers = new Set<IdleWorker>()

  const announce = (outcomes: ReadonlyArray<CreateOutcome>, claimed: ClaimResult | undefined) =>
    Effect.suspend(() => {
      const created = outcomes.flatMap((outcome) => (outcome._tag === "Created" ? [outcome.job] : []))
      for (const job of created) events.emit({ type: "queued", ...refOf(job) })
      const taken = new Set(claimed?.claims.map(({ job }) => job.id))
      return created.every(({ id }) => taken.has(id)) ? Effect.void : wakeUp.notify
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

  const jointClaim = (jobs: ReadonlyArray<NewJob>): JointClaim | undefined => {
    for (const worker of workers) {
      const claim = worker(jobs)
      if (claim !== undefined) return claim
    }
    return undefined
  }

  return {
    createJobs: (jobs) =>
      Effect.suspend(() => {
        const claim = jointClaim(jobs)
        return claim === undefined ? createAlone(jobs) : createAndClaim(jobs, claim)
      }),
    claimFor: (worker) => {
      workers.add(worker)
      return () => void workers.delete(worker)
    },
  }
}
