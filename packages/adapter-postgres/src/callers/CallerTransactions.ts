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

/** Of this process, as long as somebody stands in line. */
const turns = new Map<unknown, Turn>()

/** One after the other of all that bear the same name. */
const inTurn = <A, E>(name: unknown, work: Effect.Effect<A, E>): Effect.Effect<A, E> =>
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

/** Where a session leads. */
export interface Place {
  /**
   * Which tables these are, of all in the world: the server by the moment it started, the database and the table by their
   * numbers. So a copy of a database on another server is told from it, too.
   */
  readonly tables: string
  /** The server's process. */
  readonly backend: number
}

/** Needs no rights, and fails nowhere, since that would end a caller's transaction: where there is no such table, it is another one's place. */
const presentPlace = statement(() =>
  query.selectNoFrom([
    sql<string>`concat_ws(' ',
      extract(epoch from pg_catalog.pg_postmaster_start_time()),
      (select oid from pg_catalog.pg_database where datname = current_database()),
      (select oid from pg_catalog.pg_class where relname = 'jobs' and relnamespace =
        (select oid from pg_catalog.pg_namespace where concat('"', nspname, '".') = '"kiln".')))`.as("tables"),
    sql<number>`pg_backend_pid()`.as("backend"),
  ]),
)

const readPlace = async (session: Session): Promise<Place> => {
  const place = await session.get(presentPlace, {})
  if (place === undefined) throw new TypeError("a SELECT without FROM has a row")
  return place
}

const operation = "CallerTransactions.createJobs"

/** No process's mark: this one hears of it as well, and at the caller's commit. */
const fromCaller = "caller"

/** What happens after it is undone together, and what the caller did before is not. */
const savepoint = "kiln_create_jobs"

/**
 * Jobs inside transactions of callers'. Until it commits, such a one holds the job's own rows, and a KEY SHARE lock on its
 * lane, which no other addition meets. Whatever another would wait for is done on a connection of our own and committed before
 * the verb returns: the lane is made, and told that it may have something. Nobody takes that back meanwhile (see
 * `settle_lanes`), so a claim after the commit finds the job; until then the lane is found empty now and then.
 *
 * Send nothing else on the transaction until a call has answered: if it fails, everything since it began is rolled back, to a
 * savepoint, and so is a statement of the caller's that was performed in between. Nothing is rolled back when it answers.
 *
 * After a call the transaction cannot be prepared for a two-phase commit (`PREPARE TRANSACTION`), which the server refuses to
 * whatever sent a NOTIFY; with `notifications: false` it can. At SERIALIZABLE most transactions that meet others of one
 * project fail and have to begin again; READ COMMITTED loses nothing by it.
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
        return jobs.length === 0 ? Effect.succeed([]) : inTurn(connection.handle, steps.createJobs(jobs))
      }).pipe(Effect.uninterruptible),
    synchronous: undefined,
  })

/** What the server says of what the calling program does wrong. */
const misuses: Readonly<Record<string, string>> = {
  "25P01": "no transaction was begun on this connection",
  "25P02": "the transaction is aborted: a statement of it failed before, and now it takes nothing but a ROLLBACK",
  "25006": "the transaction may only read: begin it READ WRITE",
  "3B001": "the transaction was rolled back before this call had answered",
}

const elsewhere = "the transaction is on another database than the store's, or on another server"

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
      const own = yield* this.#makeLanes(jobs)
      const { backend, tables } = yield* this.#inSession(readPlace)
      if (tables !== own.tables) return yield* Effect.die(new TypeError(elsewhere))
      // Another handle may be of the same transaction: their savepoints would be each other's.
      return yield* inTurn(`${tables} ${backend}`, this.#tryInside(jobs))
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
   * Before anything is sent on the caller's connection: a transaction that goes by one snapshot takes it with its first statement.
   * Answers where the lanes are.
   */
  #makeLanes(jobs: ReadonlyArray<NewJob>): Effect.Effect<Place, StoreUnavailable> {
    return Effect.gen({ self: this }, function* () {
      const [known, place] = yield* this.#db.read(operation, (session) =>
        Promise.all([findLanes(session, jobs), readPlace(session)]),
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

  /** What the server refuses is the caller's to try again, with the whole transaction; what is wrong is a defect. */
  #send<A>(work: () => Promise<A>): Effect.Effect<A, StoreUnavailable> {
    return Effect.tryPromise({ try: work, catch: (error) => error }).pipe(
      Effect.catch((error) => {
        const misuse = misuses[sqlState(error) ?? ""]
        if (misuse !== undefined) return Effect.die(new TypeError(misuse, { cause: error }))
        const isRefusal = error instanceof LaneNotSeen || error instanceof StoreUnavailable
        return !isRefusal && meaningOf(error) === "defect"
          ? Effect.die(error)
          : Effect.fail(new StoreUnavailable({ operation, cause: error }))
      }),
    )
  }
}
