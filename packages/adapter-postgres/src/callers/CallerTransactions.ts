import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"
import { sql } from "kysely"
import { StoreUnavailable } from "@kiln/core/domain"
import { CallerTransactions, type CreateOutcome, type NewJob } from "@kiln/core/ports"
import { Session, type Wire } from "../Session.ts"
import { query, statement } from "../Statement.ts"
import { CallerConnection } from "./CallerConnection.ts"
import { workChannel } from "../wakeUp/Listener.ts"
import type { Database } from "../Database.ts"
import { meaningOf, sqlState } from "../postgresErrors.ts"
import { notify } from "../wakeUp/WakeUp.ts"
import { createInCallers, LaneNotSeen } from "./createInCallers.ts"
import { anyLaneIsLater, findLanes, laneName, makeLanes, type MayBeClaimable, mayBeClaimableAt } from "../jobs/lanes.ts"

interface Turn {
  readonly semaphore: Semaphore.Semaphore
  users: number
}

/** Semaphores in use in this process, by name. */
const turns = new Map<unknown, Turn>()

/** Serializes work with the same name. */
const serialized = <A, E>(name: unknown, work: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.suspend(() => {
    const turn = turns.get(name) ?? { semaphore: Semaphore.makeUnsafe(1), users: 0 }
    turns.set(name, turn)
    turn.users += 1
    return Effect.ensuring(
      turn.semaphore.withPermit(work),
      Effect.sync(() => {
        turn.users -= 1
        if (turn.users === 0) turns.delete(name)
      }),
    )
  })

/** The database that a session uses. */
interface Location {
  /**
   * Identifies the tables: the server by its start time, the database and the table by their oids. Distinguishes a copy of the
   * database on another server.
   */
  readonly tables: string
  /** The id of the server process. */
  readonly backend: number
}

/** Needs no privileges and never fails, which would abort the caller's transaction. Without such a table it returns a different value. */
const presentLocation = statement(() =>
  query.selectNoFrom([
    sql<string>`concat_ws(' ',
      extract(epoch from pg_catalog.pg_postmaster_start_time()),
      (select oid from pg_catalog.pg_database where datname = current_database()),
      (select oid from pg_catalog.pg_class where relname = 'jobs' and relnamespace =
        (select oid from pg_catalog.pg_namespace where concat('"', nspname, '".') = '"kiln".')))`.as("tables"),
    sql<number>`pg_backend_pid()`.as("backend"),
  ]),
)

const readLocation = async (session: Session): Promise<Location> => {
  const place = await session.get(presentLocation, {})
  if (place === undefined) throw new TypeError("a SELECT without FROM has a row")
  return place
}

const operation = "CallerTransactions.createJobs"

/** Not the mark of any process, so that this one receives the notification too, when the caller commits. */
const fromCaller = "caller"

/** A rollback to it undoes kiln's statements, but not the caller's earlier ones. */
const savepoint = "kiln_create_jobs"

/**
 * Creates jobs in transactions of callers. Until the caller commits, the transaction holds only the jobs' own rows and a shared
 * advisory lock for each lane, which does not block other additions. Changes that others would wait for are made on a
 * separate connection and committed before the verb returns: the lane is created and its `next_at` lowered. `settle_lanes`
 * skips the lane meanwhile, so a claim after the commit finds the job; until then claims may find the lane empty.
 *
 * Send nothing else on the transaction until a call has returned: if it fails, it rolls back to a savepoint, and with it any
 * statement that the caller sent in between. Nothing is rolled back if the call succeeds.
 *
 * After a call the transaction cannot be prepared for a two-phase commit (`PREPARE TRANSACTION`), which the server refuses after
 * NOTIFY; with `notifications: false` it can. At SERIALIZABLE, most concurrent transactions of one project fail and have to be
 * retried; READ COMMITTED is sufficient.
 */
export const makePostgresCallerTransactions = (
  db: Database,
  wire: Wire,
  notifications: boolean,
): CallerTransactions["Service"] =>
  CallerTransactions.of({
    createJobs: (transaction, jobs) =>
      Effect.suspend(() => {
        const connection = new CallerConnection(transaction)
        const steps = new CallerSteps(connection, db, wire, notifications)
        return jobs.length === 0 ? Effect.succeed([]) : serialized(connection.handle, steps.createJobs(jobs))
      }).pipe(Effect.uninterruptible),
    synchronous: undefined,
  })

/** Errors of the server that are mistakes of the calling program. */
const callerMistakes: Readonly<Record<string, string>> = {
  "25P01": "no transaction was begun on this connection",
  "25P02": "the transaction is aborted because a statement failed; roll it back",
  "25006": "the transaction is read-only; begin it READ WRITE",
  "3B001": "the transaction was rolled back before this call returned",
}

const elsewhere = "the transaction must be on the store's server and database"

/** The steps on a caller's handle. */
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
      const own = yield* this.#makeLanes(jobs)
      const { backend, tables } = yield* this.#inSession(readLocation)
      if (tables !== own.tables) return yield* Effect.die(new TypeError(elsewhere))
      // Two handles of the same transaction would use each other's savepoints.
      return yield* serialized(`${tables} ${backend}`, this.#tryInside(jobs))
    })
  }

  #tryInside(jobs: ReadonlyArray<NewJob>): Effect.Effect<ReadonlyArray<CreateOutcome>, StoreUnavailable> {
    return Effect.gen({ self: this }, function* () {
      yield* this.#command(`SAVEPOINT ${savepoint}`)
      const outcomes = yield* this.#inSession((session) => this.#create(session, jobs)).pipe(
        Effect.onError(() => Effect.ignore(this.#undo())),
      )
      yield* this.#command(`RELEASE SAVEPOINT ${savepoint}`)
      return outcomes
    })
  }

  #inSession<A>(work: (session: Session) => Promise<A>): Effect.Effect<A, StoreUnavailable> {
    const session = new Session(this.#connection, this.#wire)
    return this.#send(() => work(session).finally(() => session.end()))
  }

  async #create(session: Session, jobs: ReadonlyArray<NewJob>): Promise<ReadonlyArray<CreateOutcome>> {
    const outcomes = await createInCallers(session, jobs, (rows) => Effect.runPromise(this.#lowerLanes(rows)))
    if (this.#notifications && outcomes.some(({ _tag }) => _tag === "Created"))
      await notify(session, workChannel(this.#wire), fromCaller)
    return outcomes
  }

  /**
   * Creates lanes before anything is sent on the caller's connection, whose snapshot may be taken with its first statement.
   * Returns where the lanes are.
   */
  #makeLanes(jobs: ReadonlyArray<NewJob>): Effect.Effect<Location, StoreUnavailable> {
    return Effect.gen({ self: this }, function* () {
      const [known, place] = yield* this.#db.read(operation, (session) =>
        Promise.all([findLanes(session, jobs), readLocation(session)]),
      )
      if (!jobs.every((job) => known.has(laneName(job))))
        yield* this.#db.write(operation, (tx) => makeLanes(tx, jobs, known))
      return place
    })
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

  /** Refusals of the server fail, so that the caller can retry the whole transaction; anything else is a defect. */
  #send<A>(work: () => Promise<A>): Effect.Effect<A, StoreUnavailable> {
    return Effect.tryPromise({ try: work, catch: (error) => error }).pipe(
      Effect.catch((error) => {
        const misuse = callerMistakes[sqlState(error) ?? ""]
        if (misuse !== undefined) return Effect.die(new TypeError(misuse, { cause: error }))
        const isRefusal = error instanceof LaneNotSeen || error instanceof StoreUnavailable
        return !isRefusal && meaningOf(error) === "defect"
          ? Effect.die(error)
          : Effect.fail(new StoreUnavailable({ operation, cause: error }))
      }),
    )
  }
}
