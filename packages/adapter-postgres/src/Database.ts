import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Semaphore from "effect/Semaphore"
import type pg from "pg"
import { StoreUnavailable } from "@kiln/core/domain"
import { ShortLockWait } from "@kiln/core/ports"
import { cutOff } from "./Connections.ts"
import { isContention, meaningOf } from "./postgresErrors.ts"
import { sqlState } from "./sqlState.ts"
import { Session, Transaction, type Wire } from "./Session.ts"

/** Milliseconds between two tries: short at first, since most of what is in the way is another commit. */
const firstPauseMs = 5
const longestPauseMs = 250

/** A migration rewrites whole tables: a day is for what hangs for good. */
const longestMigrationMs = 86_400_000

export interface DatabaseOptions {
  readonly wire: Wire
  /** Begins a transaction. */
  readonly begin: string
  /** Begins one that waits for others' rows only briefly. */
  readonly beginBrief: string
  /** Milliseconds after which a step that conflicts again and again is given up. */
  readonly retryForMs: number
  /** Milliseconds for which a server out of reach is asked again, before the caller hears of it. */
  readonly reconnectForMs: number
  /** How many steps at most wait on connections at once for what others held when they were tried first. */
  readonly contenders: number
  /** Milliseconds one try may take in all; then its connection is cut. */
  readonly tryForMs: number
}

/** What became of one try of a transaction. */
type Try<A> =
  | { readonly _tag: "Done"; readonly value: A }
  /** Nothing was written. */
  | { readonly _tag: "Undone"; readonly error: unknown }
  /** The answer to its COMMIT was lost. */
  | { readonly _tag: "Unknown"; readonly error: unknown; readonly mark: Mark; readonly value: A }

/** By what the server knows a transaction again. */
interface Mark {
  readonly xid: string
  /** The life of the server it belongs to. A crash ends one: numbers it gave to what was not yet on disk are given out again. */
  readonly life: string
}

/** What the server says of a transaction; `null` when it is too old to tell. */
type Fate = "committed" | "aborted" | "in progress" | null

/** A server that recovers from a crash begins its statistics anew; neither a stop in good order nor a reload does. */
const life = "coalesce(extract(epoch FROM pg_stat_get_bgwriter_stat_reset_time())::text, '')"

/**
 * Runs the steps of the verbs. A step that began is not interrupted: whoever stops waits for its end, which its time
 * limits bring about, so nothing is written after its caller has gone. Timers are the machine's own: they bound
 * sockets, not leases.
 */
export class Database {
  readonly #pool: pg.Pool
  readonly #options: DatabaseOptions
  readonly #contending: Semaphore.Semaphore

  constructor(pool: pg.Pool, options: DatabaseOptions) {
    this.#pool = pool
    this.#options = options
    this.#contending = Semaphore.makeUnsafe(options.contenders)
  }

  /** One statement or several, each by itself: its own snapshot, its own commit. One that writes may be performed twice. */
  read<A>(operation: string, work: (session: Session) => Promise<A>): Effect.Effect<A, StoreUnavailable> {
    return this.#step(operation, async () => {
      const client = await this.#pool.connect()
      const session = new Session(client, this.#options.wire)
      return this.#guarded(client, async () => ({ _tag: "Done", value: await ending(session, work(session)) }))
    })
  }

  /** Runs `work` in a transaction (READ COMMITTED). It may run more than once; what it throws is a defect, and nothing is written. */
  write<A>(operation: string, work: (tx: Transaction) => Promise<A>): Effect.Effect<A, StoreUnavailable> {
    return this.writeAfter(operation, () => Promise.resolve(), work)
  }

  /**
   * The same, where what is read first does not depend on anything: it travels together with the beginning of the transaction,
   * and so costs no time of its own. It must write nothing, since it is sent before it is known that the transaction began.
   */
  writeAfter<A, B>(
    operation: string,
    opening: (session: Session) => Promise<B>,
    work: (tx: Transaction, opened: B) => Promise<A>,
  ): Effect.Effect<A, StoreUnavailable> {
    return this.#step(operation, () => this.#transact(this.#options.begin, opening, work))
  }

  /**
   * The same for a verb over `size` items, which may be those of many callers: what somebody holds that one item needs is
   * waited for only briefly, and then everything is let go of. One item goes on trying for as long as a conflict is tried again.
   * Several fail at once as `contended`, with nothing written: by themselves most of them go through. So does one that others
   * stand behind (`ShortLockWait`).
   */
  writeBatch<A, B>(
    operation: string,
    size: number,
    opening: (session: Session) => Promise<B>,
    work: (tx: Transaction, opened: B) => Promise<A>,
  ): Effect.Effect<A, StoreUnavailable> {
    return Effect.flatMap(ShortLockWait, (briefly) =>
      this.#step(operation, () => this.#transact(this.#options.beginBrief, opening, work), size > 1 || briefly),
    )
  }

  /**
   * The same, if a look says that there is anything to do. Sweeps hardly ever have, and every process sweeps: so one that
   * finds nothing is one statement.
   */
  writeIf<A>(
    operation: string,
    look: (session: Session) => Promise<boolean>,
    work: (tx: Transaction) => Promise<A>,
    nothing: A,
  ): Effect.Effect<A, StoreUnavailable> {
    return Effect.flatMap(this.read(operation, look), (any) =>
      any ? this.write(operation, work) : Effect.succeed(nothing),
    )
  }

  /** The same without store time: for making the schema, of which store time is a part. */
  bare<A>(operation: string, work: (session: Session) => Promise<A>): Effect.Effect<A, StoreUnavailable> {
    return this.#step(operation, async () => {
      const client = await this.#pool.connect()
      const make = async () => {
        const { mark } = await begin(client, this.#options.begin, "0")
        const session = new Session(client, this.#options.wire)
        return this.#commit(client, mark, await ending(session, work(session)))
      }
      return this.#guarded(client, make, longestMigrationMs)
    })
  }

  #step<A>(
    operation: string,
    attempt: () => Promise<Try<A>>,
    severable: boolean = false,
  ): Effect.Effect<A, StoreUnavailable> {
    const { reconnectForMs, retryForMs } = this.#options
    const tries = Effect.gen({ self: this }, function* () {
      const startedAt = performance.now()
      let once = Effect.promise(() => settle(attempt))
      for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
        const tried = yield* once
        const outcome = tried._tag === "Unknown" ? yield* Effect.promise(() => this.#fateOf(tried)) : tried
        if (outcome._tag === "Done") return outcome.value
        const meaning = outcome._tag === "Unknown" ? "unavailable" : meaningOf(outcome.error)
        if (meaning === "defect") return yield* Effect.die(outcome.error)
        if (severable && outcome._tag === "Undone" && isContention(outcome.error))
          return yield* Effect.fail(new StoreUnavailable({ operation, cause: outcome.error, contended: true }))
        const limitMs = meaning === "conflict" ? retryForMs : meaning === "connection" ? reconnectForMs : 0
        if (performance.now() + pauseMs - startedAt >= limitMs)
          return yield* Effect.fail(new StoreUnavailable({ operation, cause: outcome.error }))
        // However many ask for the same, there are connections left for those who want something else.
        if (isContention(outcome.error)) once = this.#contending.withPermit(Effect.promise(() => settle(attempt)))
        const jitter = yield* Random.nextBetween(0.5, 1)
        yield* Effect.promise(() => pause(pauseMs * jitter))
      }
    })
    return Effect.uninterruptible(tries)
  }

  /**
   * The transaction may have counted although nobody said so. The server remembers, by its number; the work is done again
   * only when it certainly did not. It is asked for as long as a conflict would be tried again, from when the answer was lost.
   */
  async #fateOf<A>(lost: Extract<Try<A>, { _tag: "Unknown" }>): Promise<Try<A>> {
    const givesUpAt = performance.now() + this.#options.retryForMs
    for (let leftMs; (leftMs = givesUpAt - performance.now()) > 0; await pause(firstPauseMs * 4)) {
      const fate = await this.#askFate(lost.mark, leftMs).catch(() => "unreachable" as const)
      if (fate === "committed") return { _tag: "Done", value: lost.value }
      if (fate === "aborted") return { _tag: "Undone", error: lost.error }
      if (fate === null) break
    }
    return lost
  }

  async #askFate({ life: began, xid }: Mark, limitMs: number): Promise<Fate> {
    const client = await this.#pool.connect()
    const ask = async (): Promise<Try<Fate>> => {
      const { rows } = await client.query<{ fate: Fate; now: string }>(
        `SELECT pg_xact_status($1::xid8) AS fate, ${life} AS now`,
        [xid],
      )
      const [told] = rows
      if (told === undefined) throw new TypeError("a SELECT without FROM has a row")
      if (told.now === began) return { _tag: "Done", value: told.fate }
      // After a crash this may be the number of another. Of two only one can have committed: if it did, it may be either.
      return { _tag: "Done", value: told.fate === "committed" ? null : "aborted" }
    }
    const asked = await this.#guarded(client, ask, limitMs)
    if (asked._tag === "Done") return asked.value
    // Not given out yet: so it was lost in a crash, and whatever committed would have kept it from being lost.
    if (sqlState(asked.error) === "22023") return "aborted"
    throw asked.error
  }

  /** One try of a transaction on a connection of the pool. */
  async #transact<A, B>(
    statement: string,
    opening: (session: Session) => Promise<B>,
    work: (tx: Transaction, opened: B) => Promise<A>,
  ): Promise<Try<A>> {
    const { wire } = this.#options
    const client = await this.#pool.connect()
    return this.#guarded(client, async () => {
      const first = new Session(client, wire)
      const [{ mark, now }, opened] = await ending(
        first,
        Promise.all([begin(client, statement, `"${wire.schema}".store_time()`), opening(first)]),
      )
      const tx = new Transaction(client, wire, now)
      return this.#commit(client, mark, await ending(tx, work(tx, opened)))
    })
  }

  async #commit<A>(client: pg.PoolClient, mark: Mark, value: A): Promise<Try<A>> {
    try {
      const { command } = await client.query("COMMIT")
      // The server ends a failed transaction by rolling it back, whatever it was asked.
      if (command !== "COMMIT") throw new TypeError("a transaction failed and its verb did not notice")
      return { _tag: "Done", value }
    } catch (error) {
      if (meaningOf(error) !== "connection") throw error
      return { _tag: "Unknown", error, mark, value }
    }
  }

  /** Whatever happens, the connection goes back: clean, or cut where it may be in any state. */
  async #guarded<A>(
    client: pg.PoolClient,
    work: () => Promise<Try<A>>,
    limitMs: number = this.#options.tryForMs,
  ): Promise<Try<A>> {
    let cut = false
    // A server that stands still, or a network that swallows everything, says nothing for ever.
    const watchdog = setTimeout(() => {
      cut = true
      cutOff(client)
    }, limitMs)
    try {
      const outcome = await work()
      if (outcome._tag === "Unknown") cut = true
      return outcome
    } catch (error) {
      const lost = cut || meaningOf(error) === "connection"
      if (
        !lost &&
        (await client.query("ROLLBACK").then(
          () => true,
          () => false,
        ))
      )
        return { _tag: "Undone", error }
      cut = true
      return { _tag: "Undone", error }
    } finally {
      clearTimeout(watchdog)
      client.release(cut)
    }
  }
}

/** Whatever comes of it, what was begun in this session and is not waited for any more sends nothing afterwards. */
const ending = <A>(session: Session, work: Promise<A>): Promise<A> => work.finally(() => session.end())

/** One round trip: the transaction, its time, and by what the server knows it again when the answer to its COMMIT is lost. */
const begin = async (
  client: pg.PoolClient,
  statement: string,
  now: string,
): Promise<{ readonly now: number; readonly mark: Mark }> => {
  const [, began] = await Promise.all([
    client.query(statement),
    client.query<{ now: number } & Mark>(`SELECT ${now} AS now, pg_current_xact_id()::text AS xid, ${life} AS life`),
  ])
  const [first] = began.rows
  if (first === undefined) throw new TypeError("a SELECT without FROM has a row")
  return { now: first.now, mark: first }
}

/** A connection that could not be made is a try that came to nothing. */
const settle = <A>(attempt: () => Promise<Try<A>>): Promise<Try<A>> =>
  attempt().catch((error: unknown): Try<A> => ({ _tag: "Undone", error }))

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
