import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { judgeJob, labelsOf, type StoreUnavailable } from "@kiln/core/domain"
import {
  type ClaimRequest,
  type CreatedAndClaimed,
  type CreateOutcome,
  type NewJob,
  ShortLockWait,
} from "@kiln/core/ports"
import { recorded } from "../audit.ts"
import type { Database } from "../Database.ts"
import { asStored, createJobs, readBatch } from "./createJobs.ts"
import { addAndClaim, isDecidedAtOnce, needsRules, nextClaim } from "./claimAtOnce.ts"
import type { Carrier } from "../wakeUp/WakeUp.ts"
import type { Claims } from "./Claims.ts"
import { type Added, addJobs, type CapCheck } from "./insertJobs.ts"
import { type Accepted, type NewRow, rowsOf } from "./newRows.ts"
import type { RememberedLanes } from "./lanes.ts"
import { StorageRoom } from "../uploads/keptBytes.ts"

const operation = "JobStore.createJobs"

/** Whether nothing but an idempotency key and a queue cap can stand in the way of a job, and it has no labels to write. */
export const needsNoFacts = ({ gate, metadata, retryOf, tick, unique, uploadId }: NewJob): boolean =>
  tick === undefined &&
  gate === null &&
  retryOf === null &&
  uploadId === null &&
  unique === undefined &&
  labelsOf(metadata).length === 0

const nothing = (): never => {
  throw new TypeError("a job that needs no facts asked for one")
}

/** The job that is accepted at this store time if its key is free and its project below the cap. */
export const acceptedAt = (item: NewJob, now: number): CreateOutcome =>
  judgeJob(item, {
    now,
    scheduleVersion: nothing,
    existing: () => undefined,
    scopeHolder: nothing,
    retried: nothing,
    board: nothing,
    upload: nothing,
    spending: nothing,
    kept: () => ({ uploads: 0, files: 0 }),
    unfinished: () => 0,
  })

/** The caps of these items' projects: the lowest that one of them names, and all jobs that are added. */
export const capsOf = (items: ReadonlyArray<NewJob>): ReadonlyArray<CapCheck> => {
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

export const jobOfOutcome = (outcome: CreateOutcome) => {
  if (outcome._tag !== "Created") throw new TypeError("a job that needs no facts was refused")
  return outcome.job
}

/** Reads the facts about each item under locks, judges them all, and writes. */
const createByFacts = (
  db: Database,
  lanes: RememberedLanes,
  items: ReadonlyArray<NewJob>,
): Effect.Effect<ReadonlyArray<CreateOutcome>, StoreUnavailable> =>
  // An operator's retry passes here, because it depends on the job that failed.
  recorded((record) =>
    db.writeBatch(
      operation,
      items.length,
      (session) => readBatch(session, items),
      async (tx, read) => {
        const outcomes = await createJobs(tx, items, read)
        lanes.remember(read.lanes)
        return record(tx, outcomes)
      },
    ),
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
export class Creations {
  readonly #db: Database
  readonly #lanes: RememberedLanes
  readonly #claims: Claims
  readonly #carrier: Carrier | undefined
  readonly #room: StorageRoom

  constructor(db: Database, lanes: RememberedLanes, claims: Claims, carrier: Carrier | undefined) {
    this.#db = db
    this.#lanes = lanes
    this.#claims = claims
    this.#carrier = carrier
    this.#room = new StorageRoom(db)
  }

  create(items: ReadonlyArray<NewJob>): Effect.Effect<ReadonlyArray<CreateOutcome>, StoreUnavailable> {
    return Effect.flatMap(this.#addable(items), (jobs) =>
      jobs === undefined ? createByFacts(this.#db, this.#lanes, items) : this.#add(jobs),
    ).pipe(Effect.uninterruptible)
  }

  /** Claims nothing where more than one statement would be needed: then the worker claims by itself. */
  createAndClaim(
    items: ReadonlyArray<NewJob>,
    request: ClaimRequest,
  ): Effect.Effect<CreatedAndClaimed, StoreUnavailable> {
    const onlyCreated = Effect.map(this.create(items), (created) => ({ created, claimed: undefined }))
    return Effect.flatMap(isDecidedAtOnce(request) ? this.#addable(items) : Effect.undefined, (jobs) =>
      jobs === undefined
        ? onlyCreated
        : Effect.catchIf(this.#addAndClaim(jobs, request), needsRules, () => onlyCreated),
    ).pipe(Effect.uninterruptible)
  }

  /** Returns what one statement may add; `undefined` if the facts must decide. */
  #addable(items: ReadonlyArray<NewJob>): Effect.Effect<Addable | undefined, StoreUnavailable> {
    return Effect.suspend(() => {
      const jobs = this.#simple(items)
      if (jobs === undefined) return Effect.undefined
      return Effect.map(this.#room.has(items), (hasRoom) => (hasRoom ? jobs : undefined))
    })
  }

  #simple(items: ReadonlyArray<NewJob>): Addable | undefined {
    const known = items.length > 0 && items.every(needsNoFacts) ? this.#lanes.ofAll(items) : undefined
    if (known === undefined) return undefined
    const accepted = items.map((item): Accepted => {
      const job = jobOfOutcome(acceptedAt(item, 0))
      return { item, job, priceId: null, retried: undefined }
    })
    return { items, rows: rowsOf(accepted, known), caps: capsOf(items) }
  }

  #add({ caps, items, rows }: Addable) {
    let ours = false
    const hint = this.#carrier?.take()
    const adding = this.#db.writeAtOnce("JobStore.createJobs", items.length, (session, repeated) => {
      ours = repeated
      return addJobs(session, rows, { own: true, acceptedAt: null, caps, hint })
    })
    return Effect.flatMap(adding, (added) => {
      if (hint !== undefined && added.accepted !== null && (added.unbound?.length ?? 0) < items.length)
        this.#carrier?.sent()
      return this.#outcomesOf(items, added, ours)
    })
  }

  #addAndClaim({ caps, items, rows }: Addable, request: ClaimRequest) {
    return Effect.gen({ self: this }, function* () {
      const claim = yield* nextClaim
      let ours = false
      const adding = this.#db.writeAtOnce("JobStore.createAndClaimJobs", items.length, (session, repeated) => {
        ours = repeated
        const how = { own: true, acceptedAt: null, caps }
        return addAndClaim(session, rows, how, this.#claims.positions, request, { claim, repeated })
      })
      const { claimed, ...added } = yield* adding
      const isAny = claimed !== undefined && claimed.claims.length + claimed.unreadable.length > 0
      const finished = isAny ? yield* Effect.option(this.#claims.finish(request, claimed)) : Option.none()
      const created = yield* this.#outcomesOf(items, added, ours)
      return { created, claimed: Option.getOrUndefined(finished) }
    })
  }

  /** The outcomes of items that were added, and of the others. `ours`: see `createBound`. */
  #outcomesOf(
    items: ReadonlyArray<NewJob>,
    { accepted: now, unbound }: Added,
    ours: boolean,
  ): Effect.Effect<ReadonlyArray<CreateOutcome>, StoreUnavailable> {
    if (now === null) {
      this.#lanes.forget()
      return createByFacts(this.#db, this.#lanes, items)
    }
    const outcomeAt = (item: NewJob): CreateOutcome => ({
      _tag: "Created",
      job: asStored(jobOfOutcome(acceptedAt(item, now))),
    })
    if (unbound === null) return Effect.succeed(items.map(outcomeAt))
    const left = items.filter((_, index) => unbound.includes(index + 1))
    return Effect.map(createBound(this.#db, this.#lanes, left, ours), (judged) =>
      items.map((item, index) => judged[unbound.indexOf(index + 1)] ?? outcomeAt(item)),
    )
  }
}
