import { Effect, Semaphore } from "effect"
import { StoreUnavailable } from "@kiln/core/domain"
import { CallerTransactions, type CreateOutcome, type NewJob } from "@kiln/core/ports"
import { CallerConnection } from "./CallerHandle.ts"
import { workChannel } from "./channels.ts"
import type { Database } from "./Database.ts"
import { meaningOf } from "./postgresErrors.ts"
import { sqlState } from "./sqlState.ts"
import { notify } from "./PostgresWakeUp.ts"
import { Session, Superseded, type Wire } from "./Session.ts"
import { createInCallers, LaneNotSeen } from "./sql/createInCallers.ts"
import { anyLaneIsLater, findLanes, laneName, makeLanes, mayBeClaimableAt, type MayBeClaimable } from "./sql/lanes.ts"

const operation = "CallerTransactions.createJobs"

/** No process's mark: this one hears of it as well, and at the caller's commit. */
const fromCaller = "caller"

/** What happens after it is undone together, and what the caller did before is not. */
const savepoint = "kiln_create_jobs"

/** How often a step begins again because another transaction, which has committed, bound a key first. */
const mostTries = 20

/**
 * Jobs inside transactions of callers'. Until it commits, such a one holds the job's own rows, and a KEY SHARE lock on its
 * lane, which no other addition meets. Whatever another would wait for is done on a connection of our own and committed before
 * the verb returns: the lane is made, and told that it may have something. Nobody takes that back meanwhile (see
 * `settle_lanes`), so a claim after the commit finds the job; until then the lane is found empty now and then.
 */
export const makePostgresCallerTransactions = (
  db: Database,
  wire: Wire,
  notifications: boolean,
): CallerTransactions["Service"] => {
  const turns = new WeakMap<object, Semaphore.Semaphore>()
  return CallerTransactions.of({
    createJobs: (transaction, jobs) =>
      Effect.suspend(() => {
        const connection = new CallerConnection(transaction)
        const steps = new CallerSteps(connection, db, wire, notifications)
        return jobs.length === 0
          ? Effect.succeed([])
          : turnOf(turns, connection.handle).withPermit(steps.createJobs(jobs))
      }).pipe(Effect.uninterruptible),
    synchronous: undefined,
  })
}

/** Of one handle one at a time: their savepoints would be each other's. */
const turnOf = (turns: WeakMap<object, Semaphore.Semaphore>, handle: object): Semaphore.Semaphore => {
  const turn = turns.get(handle) ?? Semaphore.makeUnsafe(1)
  turns.set(handle, turn)
  return turn
}

/** The steps on one handle. */
class CallerSteps {
  readonly #connection: CallerConnection
  readonly #db: Database
  readonly #wire: Wire
  readonly #notifications: boolean

  constructor(connection: CallerConnection, db: Database, wire: Wire, notifications: boolean) {
    this.#connection = connection
    this.#db = db
    this.#wire = { ...wire, prepared: false }
    this.#notifications = notifications
  }

  createJobs(jobs: ReadonlyArray<NewJob>): Effect.Effect<ReadonlyArray<CreateOutcome>, StoreUnavailable> {
    return Effect.gen({ self: this }, function* () {
      yield* this.#makeLanes(jobs)
      yield* this.#command(`SAVEPOINT ${savepoint}`)
      const outcomes = yield* this.#tryInside(jobs, mostTries).pipe(Effect.onError(() => Effect.ignore(this.#undo())))
      yield* this.#command(`RELEASE SAVEPOINT ${savepoint}`)
      return outcomes
    })
  }

  #tryInside(
    jobs: ReadonlyArray<NewJob>,
    triesLeft: number,
  ): Effect.Effect<ReadonlyArray<CreateOutcome>, StoreUnavailable> {
    return Effect.suspend(() => {
      const session = new Session(this.#connection, this.#wire)
      return this.#send(() => this.#create(session, jobs).finally(() => session.end())).pipe(
        Effect.catch((error) =>
          error.cause instanceof Superseded && triesLeft > 0
            ? Effect.andThen(this.#command(`ROLLBACK TO SAVEPOINT ${savepoint}`), this.#tryInside(jobs, triesLeft - 1))
            : Effect.fail(error),
        ),
      )
    })
  }

  async #create(session: Session, jobs: ReadonlyArray<NewJob>): Promise<ReadonlyArray<CreateOutcome>> {
    const outcomes = await createInCallers(session, jobs, (rows) => Effect.runPromise(this.#lowerLanes(rows)))
    if (this.#notifications && outcomes.some(({ _tag }) => _tag === "Created"))
      await notify(session, workChannel(this.#wire), fromCaller)
    return outcomes
  }

  /** Before anything is sent on the caller's connection: a transaction that goes by one snapshot takes it with its first statement. */
  #makeLanes(jobs: ReadonlyArray<NewJob>): Effect.Effect<void, StoreUnavailable> {
    return Effect.flatMap(
      this.#db.read(operation, (session) => findLanes(session, jobs)),
      (known) =>
        jobs.every((job) => known.has(laneName(job)))
          ? Effect.void
          : this.#db.write(operation, (tx) => makeLanes(tx, jobs, known)),
    )
  }

  #lowerLanes(rows: ReadonlyArray<MayBeClaimable>): Effect.Effect<void, StoreUnavailable> {
    return this.#db.writeIf(
      operation,
      (session) => anyLaneIsLater(session, rows),
      (tx) => mayBeClaimableAt(tx, rows),
      undefined,
    )
  }

  #command(text: string): Effect.Effect<void, StoreUnavailable> {
    return this.#send(() => this.#connection.command(text))
  }

  #undo(): Effect.Effect<void, StoreUnavailable> {
    return Effect.andThen(
      this.#command(`ROLLBACK TO SAVEPOINT ${savepoint}`),
      this.#command(`RELEASE SAVEPOINT ${savepoint}`),
    )
  }

  /** What the server refuses is the caller's to try again, with the whole transaction; what is wrong is a defect. */
  #send<A>(work: () => Promise<A>): Effect.Effect<A, StoreUnavailable> {
    return Effect.tryPromise({ try: work, catch: (error) => error }).pipe(
      Effect.catch((error) => {
        if (sqlState(error) === "25P01") return Effect.die(new TypeError("no transaction was begun on this connection"))
        const isRefusal = error instanceof LaneNotSeen || error instanceof StoreUnavailable
        return !isRefusal && meaningOf(error) === "defect"
          ? Effect.die(error)
          : Effect.fail(new StoreUnavailable({ operation, cause: error }))
      }),
    )
  }
}
