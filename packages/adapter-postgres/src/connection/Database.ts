import { setTimeout as pause } from "node:timers/promises"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Semaphore from "effect/Semaphore"
import { StoreUnavailable } from "@kiln/core/domain"
import { ShortLockWait } from "@kiln/core/ports"
import { isContention, meaningOf, sqlState, withPoolerHint } from "./postgresErrors.ts"
import {
  begin,
  type ConnectionSource,
  type Fate,
  type Mark,
  type PooledConnection,
  readFate,
  Session,
  Transaction,
  type Wire,
} from "./Session.ts"

/** Milliseconds between two tries; short at first, because most conflicts end with another commit. */
const firstPauseMs = 5
const longestPauseMs = 250

/** A migration may rewrite whole tables, so only one that hangs is cut. */
const longestMigrationMs = 86_400_000

interface DatabaseOptions {
  readonly wire: Wire
  /** Begins a transaction. */
  readonly begin: string
  /** Begins a transaction that waits only briefly for row locks. */
  readonly beginBrief: string
  /** Whether a single statement runs with the settings of `begin`, without a transaction. */
  readonly ownSessions: boolean
  /** Milliseconds for which a step that conflicts is retried. */
  readonly retryForMs: number
  /** Milliseconds for which an unreachable server is retried before the verb fails. */
  readonly reconnectForMs: number
  /** Maximum number of steps that retry lock conflicts at the same time. */
  readonly contenders: number
  /** Milliseconds one try may take in total; then its connection is cut. */
  readonly tryForMs: number
}

/** The outcome of one try of a transaction. */
type Try<A> =
  | { readonly _tag: "Done"; readonly value: A }
  /** Nothing was written. */
  | { readonly _tag: "Undone"; readonly error: unknown }
  /** The answer to its COMMIT was lost. */
  | { readonly _tag: "Unknown"; readonly error: unknown; readonly mark: Mark; readonly value: A }

/**
 * Runs the steps of the verbs. A step that has begun is not interrupted: a shutdown waits for it, up to its time limits, so
 * nothing is written after the caller has gone. Timers are the machine's own: they limit sockets, not leases.
 */
export class Database {
  readonly #source: ConnectionSource
  readonly #options: DatabaseOptions
  readonly #contending: Semaphore.Semaphore

  constructor(source: ConnectionSource, options: DatabaseOptions) {
    this.#source = source
    this.#options = options
    this.#contending = Semaphore.makeUnsafe(options.contenders)
  }

  /** Runs statements that each have their own snapshot and commit. A statement that writes may run twice. */
  read<A>(operation: string, work: (session: Session) => Promise<A>): Effect.Effect<A, StoreUnavailable> {
    return this.#step(operation, async () => {
      const client = await this.#source.connect()
      const session = new Session(client, this.#options.wire)
      return this.#guarded(client, async () => ({ _tag: "Done", value: await ending(session, work(session)) }))
    })
  }

  /** Runs `work` in a transaction (READ COMMITTED). It may run more than once. If it throws, nothing is written. */
  write<A>(operation: string, work: (tx: Transaction) => Promise<A>): Effect.Effect<A, StoreUnavailable> {
    return this.writeAfter(operation, () => Promise.resolve(), work)
  }

  /**
   * The same, but `opening` travels with BEGIN and costs no round trip. It must not write, because it is sent before the
   * transaction is known to have begun.
   */
  writeAfter<A, B>(
    operation: string,
    opening: (session: Session) => Promise<B>,
    work: (tx: Transaction, opened: B) => Promise<A>,
  ): Effect.Effect<A, StoreUnavailable> {
    return this.#step(operation, () => this.#transact(this.#options.begin, opening, work))
  }

  /**
   * The same for a batch of `size` items, possibly of many callers, with a short lock timeout. A single item is retried like
   * any conflict. Several fail as `contended` with nothing written, so that the caller can retry them one by one; so does a
   * single one under `ShortLockWait`.
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
   * The same for one statement, in one round trip. If the connection is lost before the answer, `work` runs again although it
   * may have committed: `repeated` is then true, and the statement must recognize what it wrote before.
   */
  writeAtOnce<A>(
    operation: string,
    size: number,
    work: (session: Session, repeated: boolean) => Promise<A>,
  ): Effect.Effect<A, StoreUnavailable> {
    const { beginBrief, ownSessions } = this.#options
    return Effect.flatMap(ShortLockWait, (briefly) => {
      let repeated = false
      const attempt = async () => {
        const client = await this.#source.connect()
        return this.#guarded(client, async (): Promise<Try<A>> => {
          const session = new Session(client, this.#options.wire)
          try {
            const send = () => work(session, repeated)
            const sent = ownSessions ? send() : withSettings(client, beginBrief, send)
            return { _tag: "Done", value: await ending(session, sent) }
          } catch (error) {
            repeated ||= meaningOf(error) === "connection"
            throw error
          }
        })
      }
      return this.#step(operation, attempt, size > 1 || briefly)
    })
  }

  /**
   * The same, but only if `look` finds something to do. Every process sweeps and seldom finds anything: that costs one statement.
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

  /** The same without store time, for creating the schema that contains it. */
  bare<A>(operation: string, work: (session: Session) => Promise<A>): Effect.Effect<A, StoreUnavailable> {
    return this.#step(operation, async () => {
      const client = await this.#source.connect()
      const make = async () => {
        const { mark } = await begin(client, this.#options.begin, "0")
        const session = new Session(client, this.#options.wire)
        const value = await ending(session, work(session))
        return this.#committed(client.command("COMMIT"), mark, value)
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
        // However many steps want the same lock, connections are left for others.
        if (isContention(outcome.error)) once = this.#contending.withPermit(Effect.promise(() => settle(attempt)))
        const jitter = yield* Random.nextBetween(0.5, 1)
        yield* Effect.promise(() => pause(pauseMs * jitter))
      }
    })
    return Effect.uninterruptible(tries)
  }

  /**
   * The transaction may have committed although the answer was lost. Asks the server, which remembers it by its number, for
   * as long as a conflict is retried. The work runs again only if it certainly did not commit.
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

  async #askFate(mark: Mark, limitMs: number): Promise<Fate> {
    const client = await this.#source.connect()
    const asked = await this.#guarded(
      client,
      async () => ({ _tag: "Done", value: await readFate(client, mark) }),
      limitMs,
    )
    if (asked._tag === "Done") return asked.value
    // The server has not given out this number: a crash lost the transaction. A commit would have kept it.
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
    const client = await this.#source.connect()
    return this.#guarded(client, async () => {
      const first = new Session(client, wire)
      const [{ mark, now }, opened] = await ending(
        first,
        Promise.all([begin(client, statement, `"${wire.schema}".store_time()`), opening(first)]),
      )
      const tx = new Transaction(client, wire, now)
      const value = await ending(tx, work(tx, opened))
      return this.#committed(client.command("COMMIT"), mark, value, tx.lastAnswers())
    })
  }

  /** `last`: the answers to statements that were sent before COMMIT and not awaited. */
  async #committed<A>(
    commit: Promise<{ readonly command: string }>,
    mark: Mark,
    value: A,
    last: Promise<void> = Promise.resolve(),
  ): Promise<Try<A>> {
    try {
      const [{ command }] = await Promise.all([commit, last])
      // The server answers COMMIT of a failed transaction with ROLLBACK.
      if (command !== "COMMIT") throw new TypeError("a transaction failed, and its verb ignored the error")
      return { _tag: "Done", value }
    } catch (error) {
      if (meaningOf(error) !== "connection") throw error
      return { _tag: "Unknown", error, mark, value }
    }
  }

  /** Returns the connection to the pool: clean, or cut if its state is unknown. */
  async #guarded<A>(
    client: PooledConnection,
    work: () => Promise<Try<A>>,
    limitMs: number = this.#options.tryForMs,
  ): Promise<Try<A>> {
    let cut = false
    // A frozen server or a network that drops everything never answers.
    const watchdog = setTimeout(() => {
      cut = true
      client.cutOff()
    }, limitMs)
    try {
      const outcome = await work()
      if (outcome._tag === "Unknown") cut = true
      return outcome
    } catch (error) {
      const lost = cut || meaningOf(error) === "connection"
      cut =
        lost ||
        (await client
          .command("ROLLBACK")
          .then(() => false)
          .catch(() => true))
      return { _tag: "Undone", error }
    } finally {
      clearTimeout(watchdog)
      client.release(cut)
    }
  }
}

/** Ends the session with the work, so that branches that are no longer awaited send nothing afterwards. */
const ending = <A>(session: Session, work: Promise<A>): Promise<A> => work.finally(() => session.end())

/** Sends BEGIN with the store's settings, one statement and COMMIT together. */
const withSettings = async <A>(client: PooledConnection, beginning: string, send: () => Promise<A>): Promise<A> => {
  const [, value, { command }] = await Promise.all([client.command(beginning), send(), client.command("COMMIT")])
  if (command !== "COMMIT") throw new TypeError("a transaction failed and its statement did not")
  return value
}

/** A connection that cannot be made counts as an undone try. */
const settle = <A>(attempt: () => Promise<Try<A>>): Promise<Try<A>> =>
  attempt().catch((error: unknown): Try<A> => ({ _tag: "Undone", error: withPoolerHint(error) }))
