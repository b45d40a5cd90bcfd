import { Context, Effect, Layer } from "effect"
import {
  isStorableText,
  type Job,
  priceProblem,
  type PriceSnapshot,
  type StoreUnavailable,
  type SwitchName,
  switchNames,
} from "../domain/index.ts"
import { JobKinds } from "../kinds/JobKinds.ts"
import { closedKinds, unusedProblem } from "../kinds/pricing.ts"
import {
  type IdGenerator,
  type JobCount,
  JobDirectory,
  type JobList,
  type JobPage,
  type JobQuery,
  JobStore,
  type LedgerPage,
  type LedgerPart,
  type PriceVersion,
  Switchboard,
  WakeUp,
} from "../ports/index.ts"
import type { Accepted, Refused } from "./createJob.ts"
import { cancelJob } from "./cancelJob.ts"
import type * as Errors from "../domain/Errors.ts"
import type { Fingerprint } from "./Fingerprint.ts"
import { JobEvents } from "./JobEvents.ts"
import { readJob } from "./readJob.ts"
import { retryJob } from "./retryJob.ts"

/** Jobs a page has where nothing else is asked for. */
const defaultPageSize = 100
const day = 24 * 3_600_000

/** Everything an operator can ask of kiln, about the jobs of all projects. */
export class Operator extends Context.Service<
  Operator,
  {
    /** A page of jobs, newest first: 100 where no `limit` is given. */
    readonly listJobs: (page?: JobQuery & Partial<JobPage>) => Effect.Effect<JobList, StoreUnavailable>
    /** All unfinished jobs, and those finished within `finishedWithinMs` (a day), counted by kind, mode and status. */
    readonly countJobs: (question?: {
      readonly finishedWithinMs?: number | undefined
      readonly projectId?: JobQuery["projectId"]
    }) => Effect.Effect<ReadonlyArray<JobCount>, StoreUnavailable>
    /** Any job. */
    readonly readJob: (jobId: string) => Effect.Effect<Job, Errors.JobNotFound | StoreUnavailable>
    /**
     * Fails an unfinished job (`canceled_by_operator`), wherever it is. An attempt that is under way is interrupted: in this
     * process at once, in others within a second. A call a provider has begun may still be paid for.
     */
    readonly cancelJob: (
      jobId: string,
    ) => Effect.Effect<void, Errors.JobNotFound | Errors.JobFinished | StoreUnavailable>
    /**
     * Tries a failed job again, as a new one with the same request, key and mode, at the present price. What it consumed goes
     * over to the new one. Done twice it is one new job.
     */
    readonly retryJob: (
      jobId: string,
    ) => Effect.Effect<Accepted, Errors.JobNotFound | Errors.KindUnknown | Refused | StoreUnavailable>
    /** Its jobs are accepted and wait; those in hand go on. In this process at once, in others within a second. */
    readonly pauseKind: (kind: string) => Effect.Effect<void, StoreUnavailable>
    readonly resumeKind: (kind: string) => Effect.Effect<void, StoreUnavailable>
    readonly setSwitch: (name: SwitchName, on: boolean) => Effect.Effect<void, StoreUnavailable>
    /**
     * Adds a version, for new jobs. A price that was not active before stays so: `activatePrice`. Dies with a `TypeError` for
     * what is no price, and for a name or a meter that no job kind of this engine uses. Warns about kinds with a meter that
     * the price does not name: their live jobs are refused until it does. A free meter is named with `"0"`.
     */
    readonly setPrice: (price: Omit<PriceSnapshot, "version">) => Effect.Effect<PriceVersion, StoreUnavailable>
    /** `false` when no such price was ever set. */
    readonly activatePrice: (name: string, active: boolean) => Effect.Effect<boolean, StoreUnavailable>
    /** What was charged, by time, and how far that is complete: the next period begins at its `until`. */
    readonly listCharges: (page: LedgerPage) => Effect.Effect<LedgerPart, StoreUnavailable>
  }
>()("@kiln/core/engine/Operator") {
  static readonly layer: Layer.Layer<
    Operator,
    never,
    JobStore | JobDirectory | Switchboard | IdGenerator | WakeUp | JobEvents | Fingerprint
  > = Layer.effect(
    Operator,
    Effect.gen(function* () {
      const store = yield* JobStore
      const directory = yield* JobDirectory
      const switchboard = yield* Switchboard
      const kinds = yield* JobKinds
      const context = yield* Effect.context<JobStore | JobDirectory | IdGenerator | WakeUp | JobEvents | Fingerprint>()
      const provide = Effect.provide(context)
      const events = yield* JobEvents
      const wakeUp = yield* WakeUp
      /** Holds in this process at once; what may go on now is looked for. */
      const changing = <A, E>(change: Effect.Effect<A, E>): Effect.Effect<A, E> =>
        Effect.tap(change, () =>
          Effect.andThen(
            Effect.sync(() => events.emit({ type: "board_changed" })),
            wakeUp.notify,
          ),
        )
      return Operator.of({
        listJobs: ({ limit = defaultPageSize, ...page } = {}) => {
          if (!Number.isSafeInteger(limit) || limit < 1)
            return Effect.die(new TypeError(`a page has 1 job or more, not ${limit}`))
          // No store has a job of such a kind.
          if (page.kind !== undefined && !isStorableText(page.kind))
            return Effect.succeed({ jobs: [], next: undefined })
          return directory.listJobs({ ...page, limit })
        },
        countJobs: ({ finishedWithinMs = day, projectId } = {}) => directory.countJobs({ finishedWithinMs, projectId }),
        readJob: (jobId) => provide(readJob(jobId)),
        cancelJob: (jobId) => provide(cancelJob(jobId)),
        retryJob: (jobId) => provide(retryJob(kinds, jobId)),
        pauseKind: (kind) =>
          isStorableText(kind)
            ? changing(switchboard.pauseKind(kind, true))
            : Effect.die(new TypeError("the name of a job kind has no U+0000 and no unpaired surrogates")),
        resumeKind: (kind) => (isStorableText(kind) ? changing(switchboard.pauseKind(kind, false)) : Effect.void),
        setSwitch: (name, on) =>
          switchNames.includes(name)
            ? changing(switchboard.setSwitch(name, on))
            : Effect.die(new TypeError(`a switch is one of ${switchNames.join(", ")}, not ${name}`)),
        setPrice: (price) => {
          const problem = priceProblem(price) ?? unusedProblem(kinds, price)
          if (problem !== undefined) return Effect.die(new TypeError(`the price cannot be set: ${problem}`))
          const closed = closedKinds(kinds, price).map(({ kind, lacking }) => `${kind} (lacks ${lacking.join(", ")})`)
          const warning = `the price ${price.name} does not name every meter; live jobs are refused of: ${closed.join(", ")}`
          return changing(switchboard.setPrice(price)).pipe(
            Effect.tap(() => (closed.length === 0 ? Effect.void : Effect.logWarning(warning))),
          )
        },
        activatePrice: (name, active) =>
          isStorableText(name) ? changing(switchboard.activatePrice(name, active)) : Effect.succeed(false),
        listCharges: store.listCharges,
      })
    }),
  )
}
