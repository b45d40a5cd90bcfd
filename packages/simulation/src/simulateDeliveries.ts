import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Random from "effect/Random"
import { fixtures } from "@kiln/conformance"
import type { JobId } from "@kiln/core/domain"
import { withDelivery } from "@kiln/core/rules"
import { FinishHandlers } from "@kiln/core/effect"
import { DeliveryStore, type JobDirectory, JobStore } from "@kiln/core/ports"
import { deliverFinished } from "@kiln/core/worker"
import { MemoryStores } from "@kiln/testing"
import { Dice } from "./Dice.ts"
import { KillableProcess } from "./KillableProcess.ts"
import { clockOf } from "./simulateSchedules.ts"

const processCount = 4
/** Far more than all retries take. */
const maxRounds = 5_000

/** The report of a simulation of deliveries. */
export interface DeliveryOutcome {
  readonly jobs: number
  readonly kills: number
  readonly calls: number
  /** Jobs without a successful call, calls of one job at once, calls after a confirmed one, and deliveries that never end. */
  readonly violations: ReadonlyArray<string>
}

type Services = DeliveryStore | JobDirectory

/** One process's look for deliveries. It may be killed before and after each call of the store, and in a call of `onFinished`. */
class Look {
  readonly #process = new KillableProcess()
  readonly #dice: Dice
  readonly #books: CallBooks

  constructor(dice: Dice, books: CallBooks) {
    this.#dice = dice
    this.#books = books
  }

  get isDead(): boolean {
    return this.#process.isDead
  }

  /** Returns whether the process was killed. */
  run(stores: Context.Context<never>, clock: Clock.Clock): Effect.Effect<boolean, unknown> {
    const wrapped = this.#process.stores(stores, this.#dice, { chance: 0.01 }, (verb) =>
      Effect.provideService(verb, Clock.Clock, clock),
    ) as Context.Context<Services>
    const handlers = new Map([["speech_synthesis", (job: { readonly id: JobId }) => this.#call(job.id)]])
    const delivering = deliverFinished.pipe(
      Effect.provideContext(wrapped),
      Effect.provideService(FinishHandlers, handlers),
      Effect.provideService(Random.Random, this.#dice.random),
      Effect.provideService(Clock.Clock, clock),
    )
    // A process that is killed closes nothing: its fiber stays where it is.
    return Effect.flatMap(Effect.forkDetach(delivering), (fiber) =>
      Effect.map(Effect.raceFirst(Fiber.join(fiber), this.#process.killed), () => this.isDead),
    )
  }

  async #call(jobId: JobId): Promise<unknown> {
    this.#books.begin(jobId, this)
    for (let turns = this.#dice.between(0, 5); turns > 0; turns--) await Promise.resolve()
    if (this.isDead || this.#dice.chance(0.03)) return Effect.runPromise(this.#process.die)
    const succeeds = !this.#dice.chance(0.2)
    this.#books.end(jobId, this, succeeds)
    if (!succeeds) throw new Error("the call failed")
    return undefined
  }
}

/** The results of calls of `onFinished`. */
class CallBooks {
  calls = 0
  readonly violations: Array<string> = []
  readonly #running = new Map<JobId, Look>()
  readonly #succeeded = new Map<JobId, Look>()

  begin(jobId: JobId, look: Look): void {
    this.calls += 1
    const other = this.#running.get(jobId)
    if (other !== undefined && !other.isDead) this.violations.push(`${jobId} is called twice at once`)
    // A process that was killed may have been before its confirmation.
    const earlier = this.#succeeded.get(jobId)
    if (earlier !== undefined && !earlier.isDead)
      this.violations.push(`${jobId} is called again after it was confirmed`)
    this.#running.set(jobId, look)
  }

  end(jobId: JobId, look: Look, succeeded: boolean): void {
    this.#running.delete(jobId)
    if (succeeded) this.#succeeded.set(jobId, look)
  }

  hasSucceeded(jobId: JobId): boolean {
    return this.#succeeded.has(jobId)
  }
}

/**
 * Lets four processes call `onFinished` for finished jobs, whose calls fail at random, while processes are killed at random: before
 * and after each call of the store, and within calls of `onFinished`.
 */
export const simulateDeliveries = (seed: number, jobCount: number): Effect.Effect<DeliveryOutcome, unknown> =>
  Effect.scoped(
    Effect.gen(function* () {
      const dice = new Dice(seed)
      let now = Date.UTC(2030, 0, 1)
      const clock = clockOf(() => now)
      const stores = yield* Effect.provideService(Layer.build(Layer.fresh(MemoryStores.layer)), Clock.Clock, clock)
      const atStore = <A, E, R>(verb: Effect.Effect<A, E, R>) => Effect.provideService(verb, Clock.Clock, clock)
      const deliveries = Context.get(stores, DeliveryStore)
      const jobs = Context.get(stores, JobStore)
      const books = new CallBooks()
      let kills = 0

      const ids = Array.from({ length: jobCount }, (_, n) => fixtures.jobId(n + 1))
      yield* atStore(jobs.createJobs(ids.map((_, n) => ({ ...fixtures.newJob(n + 1), metadata: withDelivery({}) }))))

      const look = Effect.suspend(() => new Look(dice, books).run(stores, clock)).pipe(
        Effect.tap((killed) => Effect.sync(() => (kills += killed ? 1 : 0))),
      )
      const unfinished = [...ids]
      for (let round = 0; round < maxRounds; round++) {
        const ending = unfinished.splice(0, dice.between(0, 5))
        if (ending.length > 0) yield* atStore(jobs.cancelJobs(ending))
        yield* Effect.forEach(Array.from({ length: processCount }), () => look, {
          concurrency: "unbounded",
          discard: true,
        })
        now += dice.between(1, 20) * (unfinished.length > 0 ? 1_000 : 30_000)
        if (unfinished.length === 0 && (yield* atStore(deliveries.listDeliveries(1))).length === 0) break
      }
      const left = yield* atStore(deliveries.listDeliveries(jobCount))
      return {
        jobs: jobCount,
        kills,
        calls: books.calls,
        violations: [
          ...books.violations,
          ...left.map(({ jobId }) => `the delivery of ${jobId} never ends`),
          ...ids.filter((id) => !books.hasSucceeded(id)).map((id) => `${id} was never delivered`),
        ],
      }
    }),
  ).pipe(Effect.provide(Logger.layer([])))
