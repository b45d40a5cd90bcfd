import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"
import { sql } from "kysely"
import { StoreUnavailable } from "@kiln/core/domain"
import {
  CallerTransactions,
  type CreateOutcome,
  type NewJob,
  type SignalOutcome,
  type SignalRequest,
} from "@kiln/core/ports"
import { addUp, anyCap, lockSpending, noSpending, reserve, unreserveJobs } from "../spending.ts"
import { Session, type Wire } from "../connection/Session.ts"
import { query, statement } from "../Statement.ts"
import { CallerConnection, insideTransaction, type Steps } from "./CallerConnection.ts"
import { workChannel } from "../wakeUp/Listener.ts"
import type { Database } from "../connection/Database.ts"
import { meaningOf, sqlState } from "../connection/postgresErrors.ts"
import { notify } from "../wakeUp/WakeUp.ts"
import { loadBoard } from "../board.ts"
import { signaledPayload, signalJobs } from "../jobs/waitingJobs.ts"
import { RememberedFacts } from "../jobs/RememberedFacts.ts"
import { anyLaneIsLater, findLanes, laneName, makeLanes, type MayBeClaimable, mayBeClaimableAt } from "../jobs/lanes.ts"
import {
  addInOneStatement,
  claimableRows,
  createInCallers,
  fromCaller,
  LaneNotSeen,
  type Meanwhile,
  tablesOfSession,
} from "./createInCallers.ts"
import { changeSettings, ourSettings, sessionProblem, type SessionSettings } from "../connection/sessionChecks.ts"

interface Turn {
  readonly semaphore: Semaphore.Semaphore
  users: number
}

/** Semaphores in use in this process, by name. */
const turns = new Map<unknown, Turn>()

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

/** The database that a session uses, and the settings that are not changed for a call. */
interface Location extends SessionSettings {
  readonly tables: string
  /** The id of the server process. */
  readonly backend: number
}

/** Never fails, which would abort the caller's transaction. */
const presentLocation = statement(() =>
  query.selectNoFrom([
    tablesOfSession.as("tables"),
    sql<number>`pg_backend_pid()`.as("backend"),
    sql<string>`current_setting('client_encoding')`.as("encoding"),
    sql<string>`current_setting('session_replication_role')`.as("role"),
  ]),
)

const readLocation = async (session: Session): Promise<Location> => {
  const place = await session.get(presentLocation, {})
  if (place === undefined) throw new TypeError("a SELECT without FROM has a row")
  return place
}

const operation = "CallerTransactions.createJobs"

/** A rollback to it undoes kiln's statements, but not the caller's earlier ones. */
const savepoint = "kiln_create_jobs"

/**
 * Creates jobs in transactions of callers. Until the caller commits, the transaction holds only the jobs' own rows and shared
 * advisory locks of their lanes, 256 at most, which do not block other additions. Changes that others would wait for are made on a
 * separate connection and committed before the verb returns: the lane is created and its `next_at` lowered. `settle_lanes`
 * skips the lane meanwhile, so a claim after the commit finds the job; until then claims may find the lane empty. So are reservations
 * under spend caps.
 *
 * Where the process can accept the jobs from memory, one statement compares that and adds them. Everything else is decided by the facts,
 * under a savepoint.
 *
 * `alone`: the database has one connection, which the caller holds, so that every step is part of its transaction. It is called when jobs were
 * added.
 *
 * Send nothing else on the transaction until a call has returned: if it fails, it may roll back to a savepoint, and with it any
 * statement that the caller sent in between. Nothing is rolled back if the call succeeds.
 *
 * After a call the transaction cannot be prepared for a two-phase commit (`PREPARE TRANSACTION`), which the server refuses after
 * NOTIFY; with `notifications: false` it can. At SERIALIZABLE, most concurrent transactions of one project fail and have to be
 * retried; READ COMMITTED is sufficient.
 */
export const makePostgresCallerTransactions = (
  db: Database,
  facts: RememberedFacts,
  wire: Wire,
  notifications: boolean,
  alone: (() => void) | undefined,
): CallerTransactions["Service"] => {
  const known: Known = { facts, tables: undefined }
  const stepsOn = (connection: CallerConnection): CallerSteps => {
    if (alone === undefined) return new CallerSteps(connection, db, wire, notifications, known)
    const inside = insideTransaction(connection, wire)
    // Facts that a rollback may undo are not remembered.
    return new CallerSteps(connection, inside, wire, notifications, {
      facts: new RememberedFacts(inside),
      tables: undefined,
    })
  }
  return CallerTransactions.of({
    createJobs: (transaction, jobs) =>
      Effect.suspend(() => {
        const connection = new CallerConnection(transaction)
        const steps = stepsOn(connection)
        return jobs.length === 0
          ? Effect.succeed([])
          : Effect.tap(serialized(connection.handle, steps.createJobs(jobs)), () => Effect.sync(() => alone?.()))
      }).pipe(Effect.uninterruptible),
    signalJobs: (transaction, items) =>
      Effect.suspend(() => {
        const connection = new CallerConnection(transaction)
        const steps = stepsOn(connection)
        return items.length === 0 ? Effect.succeed([]) : serialized(connection.handle, steps.signalJobs(items))
      }).pipe(Effect.uninterruptible),
    synchronous: undefined,
  })
}

/** Errors of the server that are mistakes of the calling program. */
const callerMistakes: Readonly<Record<string, string>> = {
  "25P01": "no transaction was begun on this connection",
  "25P02": "the transaction is aborted because a statement failed; roll it back",
  "25006": "the transaction is read-only; begin it READ WRITE",
  "3B001": "the transaction was rolled back before this call returned",
}

/** Facts that a process has learned from earlier calls. */
interface Known {
  readonly facts: RememberedFacts
  /** The place of the tables; `undefined` until a caller's transaction was there. */
  tables: string | undefined
}

/** A schema or function that does not exist: the schema of the store has both. */
const isElsewhere = (error: unknown): boolean => /^(3F000|42883)$/.test(sqlState(error) ?? "")

const elsewhere = "the transaction must be on the store's server and database"

/** The steps on a caller's handle. */
class CallerSteps {
  readonly #connection: CallerConnection
  readonly #db: Steps
  readonly #wire: Wire
  readonly #notifications: boolean
  readonly #known: Known

  constructor(connection: CallerConnection, db: Steps, wire: Wire, notifications: boolean, known: Known) {
    this.#connection = connection
    this.#db = db
    this.#wire = { ...wire, prepared: false }
    this.#notifications = notifications
    this.#known = known
  }

  createJobs(jobs: ReadonlyArray<NewJob>): Effect.Effect<ReadonlyArray<CreateOutcome>, StoreUnavailable> {
    return Effect.gen({ self: this }, function* () {
      const outcomes = yield* this.#addAtOnce(jobs, true)
      return outcomes ?? (yield* this.#createByFacts(jobs))
    })
  }

  /**
   * Adds jobs in one round trip on the caller's connection; `undefined` if that cannot decide. The first call of a process reads where
   * the transaction is instead, because calling a function in a database without it would abort the transaction.
   */
  #addAtOnce(
    jobs: ReadonlyArray<NewJob>,
    mayRepeat: boolean,
  ): Effect.Effect<ReadonlyArray<CreateOutcome> | undefined, StoreUnavailable> {
    return Effect.gen({ self: this }, function* () {
      const { facts, tables } = this.#known
      if (tables === undefined) return undefined
      if (facts.lanes.ofAll(jobs) === undefined) yield* this.#makeLanes(jobs)
      else if (facts.lacksBoard(jobs)) yield* facts.reloadBoard
      const addable = yield* facts.addable(jobs, false)
      if (addable === undefined) return undefined
      const notifications = this.#notifications
      const added = yield* this.#send(() =>
        addInOneStatement(this.#connection, this.#wire, { jobs: addable, tables, notifications }).catch(
          (error: unknown) => {
            throw isElsewhere(error) ? new TypeError(elsewhere, { cause: error }) : error
          },
        ),
      )
      if (added._tag === "Undecided") {
        if (added.why === "lanes") facts.lanes.forget()
        if (added.why !== "board" || !mayRepeat) return undefined
        yield* facts.reloadBoard
        return yield* this.#addAtOnce(jobs, false)
      }
      if (added.isLater)
        yield* this.#lowerLanes(claimableRows(addable.rows, addable.lanes, added.acceptedAt)).pipe(
          Effect.onError(() => this.#abort()),
        )
      return jobs.map((item): CreateOutcome => ({ _tag: "Created", job: addable.jobAt(item, added.acceptedAt) }))
    })
  }

  /** Keeps signals. Locks no job: whichever process finds them after the commit wakes it. */
  signalJobs(items: ReadonlyArray<SignalRequest>): Effect.Effect<ReadonlyArray<SignalOutcome>, StoreUnavailable> {
    return Effect.gen({ self: this }, function* () {
      if (this.#known.tables === undefined) {
        const own = yield* this.#db.read(operation, readLocation)
        const location = yield* this.#inSession(readLocation)
        if (location.tables !== own.tables) return yield* Effect.die(new TypeError(elsewhere))
        const problem = sessionProblem(location)
        if (problem !== undefined) return yield* Effect.die(new TypeError(problem))
        this.#known.tables = own.tables
      }
      const payload = this.#notifications ? signaledPayload : null
      return yield* this.#inSession((session) => signalJobs(session, items, { payload }))
    })
  }

  #createByFacts(jobs: ReadonlyArray<NewJob>): Effect.Effect<ReadonlyArray<CreateOutcome>, StoreUnavailable> {
    return Effect.gen({ self: this }, function* () {
      const own = yield* this.#makeLanes(jobs)
      const location = yield* this.#inSession(readLocation)
      const { backend, tables } = location
      if (tables !== own.tables) return yield* Effect.die(new TypeError(elsewhere))
      const problem = sessionProblem(location)
      if (problem !== undefined) return yield* Effect.die(new TypeError(problem))
      this.#known.tables = tables
      // Two handles of the same transaction would use each other's savepoints.
      return yield* serialized(`${tables} ${backend}`, this.#tryInside(jobs))
    })
  }

  #tryInside(jobs: ReadonlyArray<NewJob>): Effect.Effect<ReadonlyArray<CreateOutcome>, StoreUnavailable> {
    return Effect.gen({ self: this }, function* () {
      // Before the savepoint: from then on, no other handle of this transaction adds jobs that a rollback would take along.
      const before = yield* this.#inSession((session) => session.batch(changeSettings, ourSettings))
      const restore = this.#inSession((session) => session.batch(changeSettings, before))
      yield* this.#command(`SAVEPOINT ${savepoint}`)
      const outcomes = yield* this.#inSession((session) => this.#create(session, jobs)).pipe(
        Effect.onError(() => Effect.ignore(Effect.andThen(this.#undo(), restore))),
      )
      yield* this.#command(`RELEASE SAVEPOINT ${savepoint}`)
      yield* restore
      return outcomes
    })
  }

  #inSession<A>(work: (session: Session) => Promise<A>): Effect.Effect<A, StoreUnavailable> {
    const session = new Session(this.#connection, this.#wire)
    return this.#send(() => work(session).finally(() => session.end()))
  }

  async #create(session: Session, jobs: ReadonlyArray<NewJob>): Promise<ReadonlyArray<CreateOutcome>> {
    const outcomes = await createInCallers(session, jobs, {
      lower: (rows) => Effect.runPromise(this.#lowerLanes(rows)),
      ...reservingMeanwhile(this.#db),
    })
    if (this.#notifications && outcomes.some(({ _tag }) => _tag === "Created"))
      await notify(session, workChannel(this.#wire), fromCaller)
    return outcomes
  }

  /**
   * Creates lanes before anything is sent on the caller's connection, whose snapshot may be taken with its first statement. Reads the
   * board where jobs have a gate. Returns where the lanes are.
   */
  #makeLanes(jobs: ReadonlyArray<NewJob>): Effect.Effect<Location, StoreUnavailable> {
    return Effect.gen({ self: this }, function* () {
      const hasGate = jobs.some(({ gate }) => gate !== null)
      const [known, place, board] = yield* this.#db.read(operation, (session) =>
        Promise.all([findLanes(session, jobs), readLocation(session), hasGate ? loadBoard(session) : undefined]),
      )
      if (!jobs.every((job) => known.has(laneName(job))))
        yield* this.#db.write(operation, (tx) => makeLanes(tx, jobs, known))
      this.#known.facts.lanes.remember(known)
      if (board !== undefined) this.#known.facts.rememberBoard(board)
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

  /** Makes sure that the caller cannot commit jobs whose lanes are not ready. */
  #abort(): Effect.Effect<void> {
    return Effect.ignore(this.#command("DO $$ BEGIN RAISE EXCEPTION 'a job could not be submitted; roll back'; END $$"))
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

/** Reserves on a connection of kiln's, under locks of the caps that end before the call returns. */
const reservingMeanwhile = (db: Steps): Pick<Meanwhile, "reserve" | "unreserve"> => ({
  reserve: async (owners, transaction, judge) => {
    if (!(await Effect.runPromise(db.read(operation, (session) => anyCap(session, owners))))) return judge(noSpending)
    const reserving = db.write(operation, async (tx) => {
      const spending = await lockSpending(tx, owners)
      const judged = judge(spending)
      await reserve(tx, judged.reservations, transaction)
      await addUp(tx, spending)
      return judged
    })
    return Effect.runPromise(reserving)
  },
  unreserve: async (entries) => {
    await Effect.runPromise(db.write(operation, (tx) => unreserveJobs(tx, entries)))
  },
})
