import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { StoreUnavailable } from "@kiln/core/domain"
import {
  CallerTransactions,
  type CreateOutcome,
  type NewJob,
  type SignalOutcome,
  type SignalRequest,
  type WakeUp,
} from "@kiln/core/ports"
import type { Stores } from "../Check.ts"

/** A transaction of the embedding program, on a connection of its own. */
export interface CallerTransaction {
  /** The handle that the program passes to kiln. */
  readonly transaction: unknown
  readonly commit: () => Promise<void>
  readonly rollback: () => Promise<void>
}

export type CallerPorts = Stores | CallerTransactions | WakeUp

/** An empty place, and the two ways into it: kiln's and the embedding program's. */
export interface CallerPlace {
  readonly layer: Layer.Layer<CallerPorts, unknown>
  readonly begin: () => Promise<CallerTransaction>
}

/** The verb to be examined, or its synchronous twin. */
export type Through = "effect" | "synchronous"

/** An open transaction, as the checks use it. */
export interface OpenTransaction {
  readonly createJobs: (
    ...jobs: ReadonlyArray<NewJob>
  ) => Effect.Effect<ReadonlyArray<CreateOutcome>, StoreUnavailable, CallerTransactions>
  readonly signalJobs: (
    ...items: ReadonlyArray<SignalRequest>
  ) => Effect.Effect<ReadonlyArray<SignalOutcome>, StoreUnavailable, CallerTransactions>
  readonly commit: Effect.Effect<void>
  readonly rollback: Effect.Effect<void>
}

/** Opens transactions for one check; whatever is still open at its end is rolled back, all at once: one may wait for another. */
export type Begin = Effect.Effect<OpenTransaction>

/** One requirement for creating jobs in transactions, checked in real time. */
export interface CallerCheck {
  readonly name: string
  /** Whether it needs two transactions that write at the same time. */
  readonly concurrent: boolean
  /** Whether it needs that others see the keys and reservations that an open transaction holds. False by default. */
  readonly seesOpen?: boolean
  readonly run: (begin: Begin, through: Through) => Effect.Effect<void, unknown, CallerPorts | Scope.Scope>
}

/** Creates jobs with this handle, which may be any value. */
export const createIn = (
  through: Through,
  transaction: unknown,
  jobs: ReadonlyArray<NewJob>,
): Effect.Effect<ReadonlyArray<CreateOutcome>, StoreUnavailable, CallerTransactions> =>
  Effect.flatMap(CallerTransactions, ({ createJobs, synchronous }) => {
    if (through === "effect") return createJobs(transaction, jobs)
    if (synchronous === undefined) return Effect.die(new Error("this adapter has no synchronous verbs"))
    return Effect.suspend(() => {
      try {
        return Effect.succeed(synchronous.createJobs(transaction, jobs))
      } catch (cause) {
        return cause instanceof StoreUnavailable ? Effect.fail(cause) : Effect.die(cause)
      }
    })
  })

const signalIn = (
  through: Through,
  transaction: unknown,
  items: ReadonlyArray<SignalRequest>,
): Effect.Effect<ReadonlyArray<SignalOutcome>, StoreUnavailable, CallerTransactions> =>
  Effect.flatMap(CallerTransactions, ({ signalJobs, synchronous }) =>
    through === "effect" || synchronous === undefined
      ? signalJobs(transaction, items)
      : Effect.sync(() => synchronous.signalJobs(transaction, items)),
  )

export const makeBegin = (
  { begin }: Pick<CallerPlace, "begin">,
  through: Through,
): Effect.Effect<Begin, never, Scope.Scope> =>
  Effect.gen(function* () {
    const open = new Set<CallerTransaction>()
    yield* Effect.addFinalizer(() =>
      Effect.promise(() => Promise.allSettled([...open].map((transaction) => transaction.rollback()))),
    )
    const end = (transaction: CallerTransaction, how: "commit" | "rollback"): Effect.Effect<void> =>
      Effect.promise(async () => {
        open.delete(transaction)
        await transaction[how]()
      })
    return Effect.map(Effect.promise(begin), (transaction): OpenTransaction => {
      open.add(transaction)
      return {
        createJobs: (...jobs) => createIn(through, transaction.transaction, jobs),
        signalJobs: (...items) => signalIn(through, transaction.transaction, items),
        commit: end(transaction, "commit"),
        rollback: end(transaction, "rollback"),
      }
    })
  })

/** Timeout after which an operation counts as waiting forever, even on a slow machine. */
const patienceMs = 10_000

/** Fails if the effect is still waiting after the timeout, and leaves it there. */
export const withoutWaiting = <A, E, R>(what: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(effect, { startImmediately: true })
    const exit = yield* Effect.timeoutOption(Fiber.await(fiber), patienceMs)
    if (Option.isNone(exit)) return yield* Effect.die(new Error(`${what} waits`))
    return yield* exit.value
  })
