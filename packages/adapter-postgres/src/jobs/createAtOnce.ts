import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { StoreUnavailable } from "@kiln/core/domain"
import { keylessKey } from "@kiln/core/rules"
import {
  type ClaimRequest,
  type CreatedAndClaimed,
  type CreateOutcome,
  type NewJob,
  ShortLockWait,
} from "@kiln/core/ports"
import { sql } from "kysely"
import { recorded } from "../transactionsOf.ts"
import type { Database } from "../connection/Database.ts"
import { createJobs, readBatch } from "./createJobs.ts"
import { isCorrupt, isReplacedKey } from "../connection/postgresErrors.ts"
import type { Carrier } from "../wakeUp/WakeUp.ts"
import { type Claims, nextClaim } from "./Claims.ts"
import {
  type Added,
  addedOf,
  type AddedOne,
  type Adding,
  addJobs,
  type CreateJob,
  createJobCall,
  type CreateJobs,
  createJobsCall,
  type NewRow,
  parametersOf,
} from "./insertJobs.ts"
import type { Lanes } from "./lanes.ts"
import type { Addable, RememberedFacts } from "./RememberedFacts.ts"
import type { Session } from "../connection/Session.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { LanePositions } from "./LanePositions.ts"
import {
  type AnswerRow,
  type Asked,
  askedOf,
  type ClaimCall,
  takeCall,
  type Taken,
  takenOf,
  usually,
} from "./takeJobs.ts"

const operation = "JobStore.createJobs"

type Outcomes = Effect.Effect<ReadonlyArray<CreateOutcome>, StoreUnavailable>

/** Reads the facts about each item under locks, judges them all, and writes. */
const createByFacts = (db: Database, facts: RememberedFacts, items: ReadonlyArray<NewJob>): Outcomes =>
  // An operator's retry passes here, because it depends on the job that failed.
  recorded((record) =>
    db.writeBatch(
      operation,
      items.length,
      (session) => readBatch(session, items),
      async (tx, read) => {
        const outcomes = await createJobs(tx, items, read)
        facts.remember(items, read)
        return record(tx, outcomes)
      },
    ),
  )

/** The same for items that were refused while others of their batch were added. The batch cannot fail as contended any more, so this waits for locks. */
const createRefused = (db: Database, facts: RememberedFacts, items: ReadonlyArray<NewJob>): Outcomes =>
  Effect.catchIf(
    createByFacts(db, facts, items),
    ({ contended }) => contended && items.length > 1,
    () =>
      Effect.map(
        Effect.forEach(items, (item) => createByFacts(db, facts, [item])),
        (each) => each.flat(),
      ),
  ).pipe(Effect.provideService(ShortLockWait, false))

/** Maximum number of times that jobs are judged from memory before they are judged by the facts. */
const mostRounds = 2

/** The state of a batch before a try. */
interface Progress {
  readonly rounds: number
  /** Whether the connection was lost before an earlier try was answered. A job with the id of an item is then the job of that try. */
  readonly isRepeated: boolean
}

/** The key that a job has whose caller gave none. No other submission can have bound it. */
const ownKey = (item: NewJob | undefined): string | undefined => item && keylessKey(item.id)

const begun: Progress = { rounds: 0, isRepeated: false }

/** Reports jobs that an earlier try has created as created, and those whose request it has replaced as replaced. */
const asOurs = (items: ReadonlyArray<NewJob>, { isRepeated }: Progress, outcomes: Outcomes): Outcomes =>
  isRepeated
    ? Effect.map(outcomes, (all) =>
        all.map((outcome, index): CreateOutcome =>
          outcome._tag === "Replayed" && outcome.job.id === items[index]?.id
            ? { _tag: "Created", job: outcome.job }
            : outcome._tag === "Replayed" && outcome.job.idempotencyKey === ownKey(items[index])
              ? { _tag: "Replaced", job: outcome.job }
              : outcome,
        ),
      )
    : outcomes

/**
 * Creates jobs. The process decides from facts that it remembers, and one statement compares them and writes. Jobs whose facts differ
 * are judged under locks, and so are jobs that the process would refuse.
 */
export class Creations {
  readonly #db: Database
  readonly #facts: RememberedFacts
  readonly #claims: Claims
  readonly #carrier: Carrier | undefined

  constructor(db: Database, facts: RememberedFacts, claims: Claims, carrier: Carrier | undefined) {
    this.#db = db
    this.#facts = facts
    this.#claims = claims
    this.#carrier = carrier
  }

  create(items: ReadonlyArray<NewJob>): Outcomes {
    return Effect.uninterruptible(this.#create(items, begun))
  }

  #create(items: ReadonlyArray<NewJob>, progress: Progress): Outcomes {
    return Effect.flatMap(this.#facts.addable(items), (jobs) =>
      jobs === undefined
        ? asOurs(items, progress, createByFacts(this.#db, this.#facts, items))
        : this.#add(jobs, progress),
    )
  }

  /** Claims nothing where more than one statement is needed to create, where it is not its turn, or where a page is damaged: then the worker claims by itself. */
  createAndClaim(
    items: ReadonlyArray<NewJob>,
    request: ClaimRequest,
  ): Effect.Effect<CreatedAndClaimed, StoreUnavailable> {
    const onlyCreated = Effect.map(this.create(items), (created) => ({ created, claimed: undefined }))
    return Effect.flatMap(request.limit > 0 ? this.#facts.addable(items) : Effect.undefined, (jobs) =>
      jobs === undefined
        ? onlyCreated
        : Effect.catchIf(
            this.#addAndClaim(jobs, request),
            ({ cause }) => isCorrupt(cause) || isReplacedKey(cause),
            () => onlyCreated,
          ),
    ).pipe(Effect.uninterruptible)
  }

  #add(jobs: Addable, before: Progress): Outcomes {
    const { compared, items, lanes, rows } = jobs
    let { isRepeated } = before
    const hint = this.#carrier?.take()
    const adding = this.#db.writeAtOnce(operation, items.length, (session, repeated) => {
      isRepeated ||= repeated
      return addJobs(session, rows, lanes, { own: true, compared, hint })
    })
    return adding.pipe(
      Effect.flatMap((added) => {
        if (hint !== undefined && added.accepted !== null && (added.refused?.length ?? 0) < items.length)
          this.#carrier?.sent()
        return this.#outcomesOf(jobs, added, { rounds: before.rounds + 1, isRepeated })
      }),
      Effect.catchIf(
        ({ cause }) => isReplacedKey(cause),
        () => asOurs(items, { ...before, isRepeated }, createByFacts(this.#db, this.#facts, items)),
      ),
    )
  }

  #addAndClaim(jobs: Addable, request: ClaimRequest) {
    return Effect.gen({ self: this }, function* () {
      const { compared, items, lanes, rows } = jobs
      const claim = yield* nextClaim
      let isRepeated = false
      const adding = this.#db.writeAtOnce("JobStore.createAndClaimJobs", items.length, (session, repeated) => {
        isRepeated = repeated
        const how = { own: true, compared }
        return addAndClaim(session, { rows, lanes, how }, this.#claims.positions, request, { claim, repeated })
      })
      const { claimed, ...added } = yield* adding
      const isAny =
        claimed !== undefined && claimed.claims.length + claimed.unreadable.length + claimed.abandoned.length > 0
      const finished = isAny ? yield* Effect.option(this.#claims.finish(request, claimed)) : Option.none()
      const created = yield* this.#outcomesOf(jobs, added, { rounds: 1, isRepeated })
      return { created, claimed: Option.getOrUndefined(finished) }
    })
  }

  /** The outcomes of jobs that were added, and of the others. */
  #outcomesOf(jobs: Addable, added: Added, progress: Progress): Outcomes {
    const outcomes = this.#judgedOf(jobs, added, progress)
    return added.counts === null ? outcomes : Effect.andThen(this.#facts.rememberCounts(added.counts), outcomes)
  }

  #judgedOf({ items, jobAt }: Addable, { accepted: now, reason, refused }: Added, progress: Progress): Outcomes {
    if (now === null) {
      if (reason === "lanes") this.#facts.lanes.forget()
      return reason === "board" && progress.rounds < mostRounds
        ? Effect.andThen(this.#facts.reloadBoard, this.#create(items, progress))
        : asOurs(items, progress, createByFacts(this.#db, this.#facts, items))
    }
    const outcomeAt = (item: NewJob): CreateOutcome => ({ _tag: "Created", job: jobAt(item, now) })
    if (refused === null) return Effect.succeed(items.map(outcomeAt))
    const left = items.filter((_, index) => refused.includes(index + 1))
    return Effect.map(asOurs(left, progress, createRefused(this.#db, this.#facts, left)), (judged) =>
      items.map((item, index) => judged[refused.indexOf(index + 1)] ?? outcomeAt(item)),
    )
  }
}

/**
 * Adds jobs and then claims, in one transaction. Nothing is claimed if some jobs were not added, except by a repeated call, whose
 * own jobs are there already. The claim refers to the result of `accept_jobs`, so it runs second and sees what that wrote.
 */
const createJobsAndClaim = statement((given: Given<CreateJobs & Asked>) => {
  const most = sql<number>`CASE WHEN (added.accepted IS NOT NULL AND added.refused IS NULL) OR ${given.repeated}::boolean
    THEN ${given.most}::bigint ELSE 0 END`
  return query
    .selectFrom(createJobsCall(given))
    .innerJoinLateral(takeCall(given, most), (join) => join.onTrue())
    .selectAll("claimed")
    .select(["added.accepted", "added.refused", "added.reason", "added.counts"])
    .$castTo<AnswerRow & Added>()
})

const createJobAndClaim = statement((given: Given<CreateJob & Asked>) => {
  const most = sql<number>`CASE WHEN added.accepted >= 0 OR ${given.repeated}::boolean
    THEN ${given.most}::bigint ELSE 0 END`
  return query
    .selectFrom(createJobCall(given))
    .innerJoinLateral(takeCall(given, most), (join) => join.onTrue())
    .selectAll("claimed")
    .select(["added.accepted", "added.unfinished", "added.unfinished_to"])
    .$castTo<AnswerRow & AddedOne>()
})

/** Jobs that were added, and the claim after it; `undefined` if it was not the claim's turn among claims with limits. */
export interface AddedAndClaimed extends Added {
  readonly claimed: Taken | undefined
}

/** Jobs to be added, and how. */
interface Addition {
  readonly rows: ReadonlyArray<NewRow>
  readonly lanes: Lanes
  readonly how: Adding
}

/** Adds jobs and claims, in one statement. Nobody waits with it for claims of others: the worker can claim later. */
const addAndClaim = async (
  session: Session,
  { how, lanes, rows }: Addition,
  positions: LanePositions,
  request: ClaimRequest,
  call: ClaimCall,
): Promise<AddedAndClaimed> => {
  const asked = { ...askedOf(session, request, positions, { ...usually, waits: false }), ...call }
  const given = parametersOf(session, rows, lanes, how)
  if ("one" in given) {
    const answer = await session.all(createJobAndClaim, { ...given.one, ...asked })
    return { ...addedOf(given.one.project_id, answer[0]), claimed: takenOf(request, answer) }
  }
  const answer = await session.all(createJobsAndClaim, { ...given.list, ...asked })
  const [added] = answer
  if (added === undefined) throw new TypeError("accept_jobs returned no row")
  const { accepted, counts, reason, refused } = added
  return { accepted, refused, reason, counts, claimed: takenOf(request, answer) }
}
