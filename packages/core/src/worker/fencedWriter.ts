import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type { StoreUnavailable } from "../domain/index.ts"
import { GroupCommit, type GroupedVerb } from "../engine/GroupCommit.ts"
import { type FencedOutcome, JobStore } from "../ports/index.ts"
import type { Attempt } from "./Attempt.ts"
import type { HeldLease } from "./HeldLease.ts"
import type { LeaseWatch } from "./LeaseWatch.ts"
import { retrying } from "./retrying.ts"

type EndVerb = "completeJobs" | "failJobs" | "deferJobs" | "releaseJobs"
type ItemOf<Verb extends EndVerb> = Parameters<JobStore["Service"][Verb]>[0][number]

type Outcomes = ReadonlyArray<FencedOutcome>
type Write = Effect.Effect<Outcomes, StoreUnavailable>

/** The result of one attempt to write an end. */
export type Tried = Exit.Exit<Outcomes, StoreUnavailable>

export const isWritten = (tried: Tried): boolean => Exit.isSuccess(tried) && tried.value[0] === "Written"

/** A try that the store refused, or whose answer no longer matters. */
export const leaseLost: Tried = Exit.succeed(["LeaseLost"])

/**
 * Returns the function that writes one end of an attempt. If the lease is lost, it returns `lapsed` instead. `tried` is what a first
 * try came to, if the caller has made it.
 */
export const fencedWriter = Effect.fnUntraced(function* (watch: LeaseWatch) {
  const store = yield* JobStore
  const grouped = Option.getOrUndefined(Context.getOption(yield* Effect.context<JobStore>(), GroupCommit))

  // The first try joins the next shared call of the store, without a fiber.
  return <Verb extends EndVerb>(
    { lease }: Attempt,
    verb: Verb,
    item: ItemOf<Verb>,
    tried?: Tried,
  ): Effect.Effect<"written" | "lapsed"> =>
    Effect.withFiber((fiber) => {
      if (tried === undefined && !lease.holdsAt(watch.now())) return lapsed
      const call = store[verb] as (items: ReadonlyArray<ItemOf<Verb>>) => Write
      // A traced call has a span under its attempt, which a call without a fiber cannot have.
      if (grouped === undefined || fiber.cache.tracer !== undefined) return insist(lease, call([item]))
      const first = tried ?? pushed(lease, grouped[verb] as GroupedVerb<ItemOf<Verb>, FencedOutcome>, item)
      return Effect.flatMap(first, outcomeOf).pipe(
        Effect.catchTag("StoreUnavailable", (error) => insist(lease, startingWith(Effect.fail(error), call([item])))),
      )
    })
})

const lapsed = Effect.succeed("lapsed" as const)
const written = Effect.succeed("written" as const)

const outcomeOf = ([outcome]: Outcomes) => (outcome === "Written" ? written : lapsed)

/** Adds the item to the next shared call, and waits for its outcome or until the lease is lost. */
const pushed = <Item>(lease: HeldLease, verb: GroupedVerb<Item, FencedOutcome>, item: Item): Write =>
  Effect.callback((resume) => {
    lease.whenLost(() => resume(leaseLost))
    verb.push([item], resume)
  })

/** The first run has the outcome of `first`; every repetition runs `then`. */
const startingWith = (first: Write, then: Write): Write => {
  let isFirst = true
  return Effect.suspend(() => {
    const next = isFirst ? first : then
    isFirst = false
    return next
  })
}

/**
 * Retries a write while the store is unavailable and the lease holds. A try whose answer was lost may have succeeded; the
 * store recognizes the repetition, so only the last answer counts. The write runs in its own fiber, which losing the lease interrupts.
 */
const insist = (lease: HeldLease, write: Write): Effect.Effect<"written" | "lapsed"> =>
  Effect.withFiber((parent) =>
    Effect.callback<"written" | "lapsed", StoreUnavailable>((resume) => {
      const fiber = Effect.runForkWith(parent.context)(Effect.retry(write, retrying))
      lease.whenLost(() => {
        resume(lapsed)
        fiber.interruptUnsafe()
      })
      fiber.addObserver((exit) => resume(Exit.isSuccess(exit) ? outcomeOf(exit.value) : Exit.failCause(exit.cause)))
    }),
  ).pipe(Effect.catch(() => lapsed))
