import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import {
  type Board,
  type FailedAttempt,
  isId,
  type JsonObject,
  type PriceSnapshot,
  type ProjectId,
  type SpendCap,
  type Spending,
  type SpendOwner,
  type StoreUnavailable,
  type WaitingFor,
  type WaitRun,
} from "../domain/index.ts"
import { switchesWith } from "../domain/rules.ts"
import type * as Errors from "../domain/Errors.ts"
import { JobNotFound, type KindUnknown } from "../domain/Errors.ts"
import { priceProblem } from "../domain/Billing.ts"
import { withForcedOff } from "../domain/Gate.ts"
import { unknownName } from "../domain/givenValues.ts"
import { spendCapProblem } from "../domain/SpendCap.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { closedKinds, installedKinds, switchesOf, unusedProblem } from "../kinds/installedKinds.ts"
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
  type QueueDepth,
  type ScheduleStore,
  Switchboard,
  WakeUp,
} from "../ports/index.ts"
import type { AcceptedJob, CreateJobError, Refused } from "./createJob.ts"
import { cancelJob } from "./cancelJob.ts"
import type { Fingerprint } from "./prepareJob.ts"
import { JobEvents } from "./JobEvents.ts"
import { type Observer, readJob, readRequest } from "./readJob.ts"
import { type NewPlace, rescheduleJob } from "./rescheduleJob.ts"
import { retryJob, type RetryOptions } from "./retryJob.ts"
import { runScheduleNow } from "./schedules.ts"
import { requireKnownKind } from "./storedKinds.ts"
import { measureQueues, waitingForJob } from "./waitingForJob.ts"
import { EngineConfig } from "./EngineConfig.ts"
import { withSpans } from "./spans.ts"

/** Default number of jobs in a page. */
const defaultPageSize = 100
const day = 24 * 3_600_000

/** Verbs with a span of their name. */
const verbs = [
  "list",
  "count",
  "measureQueue",
  "listAttempts",
  "listWaits",
  "waitingFor",
  "getRequest",
  "cancel",
  "retry",
  "promote",
  "reschedule",
  "runSchedule",
  "pause",
  "resume",
  "board",
  "setSwitch",
  "setPrice",
  "limitProject",
  "setSpendCap",
  "listSpending",
  "listCharges",
] as const

type OperatorNeeds = JobStore | JobDirectory | Switchboard | IdGenerator | WakeUp | JobEvents | Fingerprint

/** Operations for the jobs of all projects. The verbs have the names of those for promises (`OperatorVerbs`). */
export class Operator extends Context.Service<
  Operator,
  {
    /** Lists a page of jobs, newest first: 100 by default. Fails with `KindUnknown` for a kind that neither the engine nor a job has. */
    readonly list: (page?: JobQuery & Partial<JobPage>) => Effect.Effect<JobList, StoreUnavailable | KindUnknown>
    /** Counts all unfinished jobs, and those finished within `finishedWithinMs` (a day), by kind, mode and status. */
    readonly count: (question?: {
      readonly finishedWithinMs?: number | undefined
      readonly projectId?: JobQuery["projectId"]
      readonly labels?: JobQuery["labels"]
    }) => Effect.Effect<ReadonlyArray<JobCount>, StoreUnavailable>
    /**
     * Measures the queue by kind and mode: how many jobs are ready, delayed, retrying and running, how long the oldest ready one has
     * waited, and what holds back all of them.
     */
    readonly measureQueue: (question?: {
      readonly projectId?: JobQuery["projectId"]
    }) => Effect.Effect<ReadonlyArray<QueueDepth & { readonly heldBack: ReadonlyArray<WaitingFor> }>, StoreUnavailable>
    /**
     * Lists the failed attempts of a job, oldest first: the newest 20, while its data is kept. Messages and stacks may quote the
     * request: not for callers. Attempts whose worker was lost have no record.
     */
    readonly listAttempts: (
      jobId: string,
    ) => Effect.Effect<ReadonlyArray<FailedAttempt>, Errors.JobNotFound | StoreUnavailable>
    /**
     * Lists why attempts of a job ended to wait, oldest first: the newest 20 runs of attempts with the same reason, as long as the job's
     * record exists.
     */
    readonly listWaits: (jobId: string) => Effect.Effect<ReadonlyArray<WaitRun>, Errors.JobNotFound | StoreUnavailable>
    /**
     * Returns what an unfinished job waits for: first what an operator has to change, then delays and limits that pass by themselves, or
     * its place in the line. Empty for a running or finished job.
     */
    readonly waitingFor: (
      jobId: string,
    ) => Effect.Effect<ReadonlyArray<WaitingFor>, Errors.JobNotFound | StoreUnavailable>
    /**
     * Returns the request of a job, or `null` once its data is gone. The look is recorded in the audit log first, under the observer's
     * name. Fails with `RequestsHidden` if the settings keep requests from operators.
     */
    readonly getRequest: (
      jobId: string,
      observer: Observer,
    ) => Effect.Effect<JsonObject | null, Errors.JobNotFound | Errors.RequestsHidden | StoreUnavailable>
    /**
     * Fails an unfinished job (`canceled_by_operator`). An attempt in progress is interrupted: in this process at once, in
     * others within a second. A call that a provider has begun may still be paid for.
     */
    readonly cancel: (jobId: string) => Effect.Effect<void, Errors.JobNotFound | Errors.JobFinished | StoreUnavailable>
    /**
     * Retries a failed job as a new one with the same request, key and mode, at the current price. The upload it used goes
     * over to the new job. Finished steps and children of the failed job count for the new one, which runs the failed ones again;
     * `from: "start"` runs all of them. Calling it again returns the same new job. With a changed `request`, the kind reads that one, and
     * everything runs again; a kind that this engine does not have is refused (`KindUnknown`).
     */
    readonly retry: (
      jobId: string,
      options?: RetryOptions,
    ) => Effect.Effect<
      AcceptedJob,
      | Errors.JobNotFound
      | Errors.JobNotRetryable
      | Errors.InvalidRequest
      | Errors.KindUnknown
      | Refused
      | StoreUnavailable
    >
    /**
     * Makes a job that waits for its start or its next attempt claimable now. Returns false if it was already. Fails with `JobNotWaiting`
     * for a job that runs or is parked.
     */
    readonly promote: (
      jobId: string,
    ) => Effect.Effect<boolean, Errors.JobNotFound | Errors.JobFinished | Errors.JobNotWaiting | StoreUnavailable>
    /**
     * Changes when a waiting job may start, or its priority. Otherwise like `promote`, but the priority of a parked job can be changed.
     * Dies with a `TypeError` for a delay out of range and an unknown priority.
     */
    readonly reschedule: (
      jobId: string,
      place: NewPlace,
    ) => Effect.Effect<boolean, Errors.JobNotFound | Errors.JobFinished | Errors.JobNotWaiting | StoreUnavailable>
    /**
     * Submits a job of a schedule now. An unfinished job of an earlier call is returned instead, `deduplicated`, and so is the
     * unfinished job of the last tick of a schedule whose jobs must not overlap. `undefined`: there is no schedule of this name.
     */
    readonly runSchedule: (
      name: string,
      idempotencyKey?: string,
    ) => Effect.Effect<AcceptedJob | undefined, CreateJobError | KindUnknown, ScheduleStore>
    /** Pauses a kind, also one of other processes: jobs are accepted but do not start. Takes effect in this process at once, in others within a second. */
    readonly pause: (kind: string) => Effect.Effect<void, Errors.KindUnknown | StoreUnavailable>
    /** Resumes a paused kind, also one of other processes. */
    readonly resume: (kind: string) => Effect.Effect<void, Errors.KindUnknown | StoreUnavailable>
    /** Reads paused kinds, switches (all those of this engine's kinds) and active prices. A switch that this process's settings force off is off. */
    readonly board: Effect.Effect<Board, StoreUnavailable>
    /** Turns a switch of this engine's kinds on or off. Dies with a `TypeError` for another name. */
    readonly setSwitch: (name: string, on: boolean) => Effect.Effect<void, StoreUnavailable>
    /**
     * Adds a version of a price, for new jobs, and activates it unless `active` is `false`. Dies with a `TypeError` for an
     * invalid price, and for a name or a meter that no job kind of this engine uses. Warns about kinds with a meter that the
     * price does not name: their live jobs are refused until it does. A free meter is named with `"0"`.
     */
    readonly setPrice: (
      price: Omit<PriceSnapshot, "version"> & { readonly active?: boolean },
    ) => Effect.Effect<void, StoreUnavailable>
    /**
     * Sets how many jobs of a project may run at the same time in all processes, for each mode; 0 is no limit, `null` the limit in
     * the settings. Dies with a `TypeError` for an invalid number.
     */
    readonly limitProject: (projectId: ProjectId, concurrency: number | null) => Effect.Effect<void, StoreUnavailable>
    /**
     * Sets the spend cap of a project or a key for live jobs that are accepted from now on; `null` removes it. Dies with a
     * `TypeError` for an invalid cap.
     */
    readonly setSpendCap: (owner: SpendOwner, cap: SpendCap | null) => Effect.Effect<void, StoreUnavailable>
    /** Lists all spend caps with what counts against them now, by owner. */
    readonly listSpending: Effect.Effect<ReadonlyArray<Spending>, StoreUnavailable>
    /** Lists charges by time. The list is complete up to `until`, where the next period begins. */
    readonly listCharges: (page: LedgerPage) => Effect.Effect<LedgerPart, StoreUnavailable>
  }
>()("@kiln/core/engine/Operator") {
  static readonly layer: Layer.Layer<Operator, never, OperatorNeeds> = Layer.effect(
    Operator,
    Effect.gen(function* () {
      const store = yield* JobStore
      const directory = yield* JobDirectory
      const switchboard = yield* Switchboard
      const kinds = yield* installedKinds
      const context = yield* Effect.context<OperatorNeeds>()
      const provide = Effect.provide(context)
      const events = yield* JobEvents
      const wakeUp = yield* WakeUp
      /** This process reads the board again before its next step, and looks for jobs that may run now. */
      const changing = <A, E>(change: Effect.Effect<A, E>): Effect.Effect<A, E> =>
        Effect.tap(change, () =>
          Effect.andThen(
            Effect.sync(() => events.emit({ type: "board_changed" })),
            wakeUp.notify,
          ),
        )
      /** A process without an engine has no other place that notifies workers of its jobs. */
      const waking = ({ deduplicated = false, replayed }: AcceptedJob) =>
        deduplicated || replayed ? Effect.void : wakeUp.notify
      const { forcedOff } = yield* EngineConfig
      const switches = switchesOf(kinds)
      const off = switches.map((name) => [name, false] as const)
      const board = Effect.map(switchboard.readBoard, (read) =>
        withForcedOff({ ...read, switches: switchesWith([...off, ...Object.entries(read.switches)]) }, forcedOff),
      )
      const known = kinds.map(({ name }) => name)
      const requireKind = (kind: string) => provide(requireKnownKind(kind, known))
      const operator = Operator.of({
        list: jobLister(directory, requireKind),
        count: ({ finishedWithinMs = day, labels, projectId } = {}) =>
          directory.countJobs({ finishedWithinMs, projectId, labels }),
        measureQueue: ({ projectId } = {}) => provide(measureQueues(projectId)),
        listAttempts: (jobId) => provide(listAttempts(jobId)),
        listWaits: (jobId) => provide(listWaits(jobId)),
        waitingFor: (jobId) => provide(Effect.flatMap(readJob(jobId), waitingForJob)),
        getRequest: (jobId, observer) => provide(readRequest(jobId, observer)),
        cancel: (jobId) => provide(cancelJob(jobId)),
        retry: (jobId, options) => Effect.tap(provide(retryJob(kinds, jobId, options)), waking),
        promote: (jobId) => provide(rescheduleJob(jobId, { delayMs: 0 })),
        reschedule: (jobId, place) => provide(rescheduleJob(jobId, place)),
        runSchedule: (name, idempotencyKey) =>
          Effect.tap(provide(runScheduleNow(kinds, name, idempotencyKey)), (accepted) =>
            accepted ? waking(accepted) : Effect.void,
          ),
        pause: (kind) => Effect.andThen(requireKind(kind), changing(switchboard.pauseKind(kind, true))),
        resume: (kind) => Effect.andThen(requireKind(kind), changing(switchboard.pauseKind(kind, false))),
        board,
        setSwitch: (name, on) =>
          switches.includes(name)
            ? changing(switchboard.setSwitch(name, on))
            : Effect.die(new TypeError(unknownName(`switch "${name}"`, name, switches))),
        setPrice: priceSetter(switchboard, kinds, changing),
        limitProject: (projectId, concurrency) =>
          concurrency === null || (Number.isSafeInteger(concurrency) && concurrency >= 0)
            ? changing(switchboard.limitProject(projectId, concurrency))
            : Effect.die(new TypeError("concurrency must be a non-negative integer; 0 means no limit")),
        setSpendCap: (owner, cap) => {
          const problem = cap === null ? undefined : spendCapProblem(cap)
          return problem === undefined
            ? switchboard.setSpendCap(owner, cap)
            : Effect.die(new TypeError(`the spend cap cannot be set: ${problem}`))
        },
        listSpending: switchboard.listSpending,
        listCharges: store.listCharges,
      })
      return withSpans("Operator", operator, verbs)
    }),
  )
}

/** Lists jobs. A program without a kind still lists the jobs of one that has it; a kind that nobody has is a mistake. */
const jobLister =
  (
    directory: JobDirectory["Service"],
    requireKind: (kind: string) => Effect.Effect<void, KindUnknown | StoreUnavailable>,
  ): Operator["Service"]["list"] =>
  ({ limit = defaultPageSize, ...page } = {}) => {
    if (!Number.isSafeInteger(limit) || limit < 1)
      return Effect.die(new TypeError(`limit must be a positive integer, not ${limit}`))
    const list = directory.listJobs({ ...page, limit })
    return page.kind === undefined ? list : Effect.andThen(requireKind(page.kind), list)
  }

/** Sets a price, and warns about the kinds that it leaves inactive. */
const priceSetter =
  (
    switchboard: Switchboard["Service"],
    kinds: ReadonlyArray<JobKind>,
    changing: <A, E>(change: Effect.Effect<A, E>) => Effect.Effect<A, E>,
  ): Operator["Service"]["setPrice"] =>
  ({ active = true, ...price }) => {
    const problem = priceProblem(price) ?? unusedProblem(kinds, price)
    if (problem !== undefined) return Effect.die(new TypeError(`the price cannot be set: ${problem}`))
    const closed = closedKinds(kinds, price).map(({ kind, lacking }) => `${kind} (lacks ${lacking.join(", ")})`)
    const warning = `the price ${price.name} does not name every meter; live jobs of these kinds are rejected: ${closed.join(", ")}`
    return Effect.gen(function* () {
      yield* changing(switchboard.setPrice(price))
      if (closed.length > 0) yield* Effect.logWarning(warning)
      yield* changing(switchboard.activatePrice(price.name, active))
    })
  }

/** Returns the failed attempts of a job of any project, for callers that may see all of them. */
const listAttempts = Effect.fnUntraced(function* (jobId: string) {
  if (!isId("job", jobId)) return yield* Effect.fail(new JobNotFound())
  const attempts = yield* (yield* JobDirectory).listAttempts(jobId)
  return attempts ?? (yield* Effect.fail(new JobNotFound()))
})

/** Returns why attempts of a job of any project ended to wait. */
const listWaits = Effect.fnUntraced(function* (jobId: string) {
  if (!isId("job", jobId)) return yield* Effect.fail(new JobNotFound())
  const [waits] = yield* (yield* JobDirectory).listWaits([jobId])
  return waits ?? (yield* Effect.fail(new JobNotFound()))
})
