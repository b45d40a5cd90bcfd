import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { judgeJob, type StoreUnavailable } from "@kiln/core/domain"
import {
  type ClaimRequest,
  type CreatedAndClaimed,
  type CreateOutcome,
  type JobStore,
  type NewJob,
  ShortLockWait,
} from "@kiln/core/ports"
import type { Database } from "../Database.ts"
import { asStored, createJobs, readBatch } from "./createJobs.ts"
import { addAndClaim, isDecidedAtOnce, needsRules, nextClaim } from "./claimAtOnce.ts"
import type { Claims } from "./Claims.ts"
import { type Accepted, type Added, addingOf, addJobs, type CapCheck, type NewRow, rowsOf } from "./insertJobs.ts"
import type { RememberedLanes } from "./lanes.ts"

const operation = "JobStore.createJobs"

/** Whether nothing but an idempotency key and a queue cap can stand in the way of a job. */
const needsNoFacts = ({ gate, retryOf, uploadId }: NewJob): boolean =>
  gate === null && retryOf === null && uploadId === null

const nothing = (): never => {
  throw new TypeError("a job that needs no facts asked for one")
}

/** The job that is accepted at this store time if its key is free and its project below the cap. */
const acceptedAt = (item: NewJob, now: number): CreateOutcome =>
  judgeJob(item, {
    now,
    existing: () => undefined,
    retried: nothing,
    board: nothing,
    upload: nothing,
    unfinished: () => 0,
  })

/** The caps of these items' projects: the lowest that one of them names, and all jobs that are added. */
const capsOf = (items: ReadonlyArray<NewJob>): ReadonlyArray<CapCheck> => {
  const caps = new Map<string, { project_id: string; cap: number; adding: number }>()
  for (const { projectId, queueCap } of items)
    if (queueCap > 0) {
      const known = caps.get(projectId)
      if (known === undefined) caps.set(projectId, { project_id: projectId, cap: queueCap, adding: 0 })
      else known.cap = Math.min(known.cap, queueCap)
    }
  if (caps.size > 0)
    for (const { projectId } of items) {
      const cap = caps.get(projectId)
      if (cap !== undefined) cap.adding += 1
    }
  return [...caps.values()]
}

const jobOfOutcome = (outcome: CreateOutcome) => {
  if (outcome._tag !== "Created") throw new TypeError("a job that needs no facts was refused")
  return outcome.job
}

/** Reads the facts about each item under locks, judges them all, and writes. */
const createByFacts = (
  db: Database,
  lanes: RememberedLanes,
  items: ReadonlyArray<NewJob>,
): Effect.Effect<ReadonlyArray<CreateOutcome>, StoreUnavailable> =>
  db.writeBatch(
    operation,
    items.length,
    (session) => readBatch(session, items),
    async (tx, read) => {
      const outcomes = await createJobs(tx, items, read)
      lanes.remember(read.lanes)
      return outcomes
    },
  )

/**
 * The outcomes of items whose keys are bound by now. `ours`: the connection was lost before an earlier try was answered, so
 * a job with an item's very id is what that try created. Others of the batch are created by now, so contention is waited for here.
 */
const createBound = (
  db: Database,
  lanes: RememberedLanes,
  items: ReadonlyArray<NewJob>,
  ours: boolean,
): Effect.Effect<ReadonlyArray<CreateOutcome>, StoreUnavailable> =>
  Effect.map(
    Effect.catchIf(
      createByFacts(db, lanes, items),
      ({ contended }) => contended && items.length > 1,
      () =>
        Effect.map(
          Effect.forEach(items, (item) => createByFacts(db, lanes, [item])),
          (each) => each.flat(),
        ),
    ),
    (outcomes) =>
      outcomes.map((outcome, index): CreateOutcome =>
        ours && outcome._tag === "Replayed" && outcome.job.id === items[index]?.id
          ? { _tag: "Created", job: outcome.job }
          : outcome,
      ),
  ).pipe(Effect.provideService(ShortLockWait, false))

/** Jobs that one statement may add. */
interface Addable {
  readonly items: ReadonlyArray<NewJob>
  readonly rows: ReadonlyArray<NewRow>
  readonly caps: ReadonlyArray<CapCheck>
}

/**
 * Creates jobs. Where nothing but keys and caps can refuse them and their lanes are known, one round trip adds those whose
 * keys are free; the others, and whatever that statement will not decide, are judged by the facts.
 */
export const makeCreations = (
  db: Database,
  lanes: RememberedLanes,
  claims: Claims,
): Pick<JobStore["Service"], "createAndClaimJobs" | "createJobs"> => {
  const addable = (items: ReadonlyArray<NewJob>): Addable | undefined => {
    const known = items.length > 0 && items.every(needsNoFacts) ? lanes.ofAll(items) : undefined
    if (known === undefined) return undefined
    const accepted = items.map((item): Accepted => {
      const job = jobOfOutcome(acceptedAt(item, 0))
      return { item, job, priceId: null, retried: undefined }
    })
    return { items, rows: rowsOf(accepted, known), caps: capsOf(items) }
  }

  /** The outcomes of items that were added, and of the others. `ours`: see `createBound`. */
  const outcomesOf = (
    items: ReadonlyArray<NewJob>,
    { accepted: now, unbound }: Added,
    ours: boolean,
  ): Effect.Effect<ReadonlyArray<CreateOutcome>, StoreUnavailable> => {
    if (now === null) {
      lanes.forget()
      return createByFacts(db, lanes, items)
    }
    const outcomeAt = (item: NewJob): CreateOutcome => ({
      _tag: "Created",
      job: asStored(jobOfOutcome(acceptedAt(item, now))),
    })
    if (unbound === null) return Effect.succeed(items.map(outcomeAt))
    const left = items.filter((_, index) => unbound.includes(index + 1))
    return Effect.map(createBound(db, lanes, left, ours), (judged) =>
      items.map((item, index) => judged[unbound.indexOf(index + 1)] ?? outcomeAt(item)),
    )
  }

  const add = ({ caps, items, rows }: Addable) => {
    let ours = false
    const adding = db.writeAtOnce(operation, items.length, (session, repeated) => {
      ours = repeated
      return addJobs(session, rows, { own: true, acceptedAt: null, caps })
    })
    return Effect.flatMap(adding, (added) => outcomesOf(items, added, ours))
  }

  const createJobs = (items: ReadonlyArray<NewJob>) =>
    Effect.suspend(() => {
      const jobs = addable(items)
      return jobs === undefined ? createByFacts(db, lanes, items) : add(jobs)
    }).pipe(Effect.uninterruptible)

  const onlyCreated = (items: ReadonlyArray<NewJob>) =>
    Effect.map(createJobs(items), (created): CreatedAndClaimed => ({ created, claimed: undefined }))

  /** Nothing is claimed where more than one statement would be needed: then the worker claims by itself. */
  const addAndClaimAtOnce = Effect.fnUntraced(function* ({ caps, items, rows }: Addable, request: ClaimRequest) {
    const claim = yield* nextClaim
    let ours = false
    const { claimed, ...added } = yield* db.writeAtOnce(
      "JobStore.createAndClaimJobs",
      items.length,
      (session, repeated) => {
        ours = repeated
        const adding = addingOf(session, rows, { own: true, acceptedAt: null, caps })
        return addAndClaim(session, adding, claims.positions, request, { claim, repeated })
      },
    )
    const isAny = claimed !== undefined && claimed.claims.length + claimed.unreadable.length > 0
    const finished = isAny ? yield* Effect.option(claims.finish(request, claimed)) : Option.none()
    const created = yield* outcomesOf(items, added, ours)
    return { created, claimed: Option.getOrUndefined(finished) }
  })

  const createAndClaimJobs = (items: ReadonlyArray<NewJob>, request: ClaimRequest) =>
    Effect.suspend(() => {
      const jobs = isDecidedAtOnce(request) ? addable(items) : undefined
      if (jobs === undefined) return onlyCreated(items)
      return Effect.catchIf(addAndClaimAtOnce(jobs, request), needsRules, () => onlyCreated(items))
    }).pipe(Effect.uninterruptible)

  return { createJobs, createAndClaimJobs }
}
