import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import {
  IdempotencyKeyReused,
  type InvalidRequest,
  LiveNotActive,
  type PrerequisiteNotFound,
  QueueFull,
  SpendCapReached,
  StorageFull,
  UploadAlreadyUsed,
  UploadExpired,
  UploadNotFound,
  UploadNotReady,
} from "../domain/Errors.ts"
import type { Job, KeptBytes } from "../domain/index.ts"
import type { JobTrace } from "../domain/JobMetadata.ts"
import type { StoreUnavailable } from "../domain/PortErrors.ts"
import type { UploadRefusal } from "../domain/Upload.ts"
import { type CreateOutcome, type IdGenerator, JobStore, type NewJob, WakeUp } from "../ports/index.ts"
import { GroupCommit } from "./GroupCommit.ts"
import { type Draft, type Fingerprint, type JobRequest, makePrepareJob, readDraft, traceIn } from "./prepareJob.ts"
import { makeCheckPrerequisites } from "./prerequisites.ts"
import { JobReader } from "./waitForJob.ts"

/** The error of a project that keeps this much. */
export const storageFull = (maxBytes: number, { files, uploads }: KeptBytes): StorageFull =>
  new StorageFull({ maxBytes, uploadBytes: uploads, resultBytes: files })

/** An accepted job: a new one, the one this idempotency key already made, or the one that has the scope of `unique`. */
export interface AcceptedJob {
  readonly job: Job
  readonly replayed: boolean
  readonly deduplicated?: boolean
}

/** Why a store did not accept a job, in order of precedence. */
export type Refused =
  | IdempotencyKeyReused
  | LiveNotActive
  | UploadNotFound
  | UploadNotReady
  | UploadAlreadyUsed
  | UploadExpired
  | SpendCapReached
  | StorageFull
  | QueueFull

/** Why a job was not accepted, in order of precedence. */
export type CreateJobError = InvalidRequest | PrerequisiteNotFound | Refused | StoreUnavailable

const uploadRefused: Record<UploadRefusal, () => UploadNotFound | UploadNotReady | UploadAlreadyUsed | UploadExpired> =
  {
    not_found: () => new UploadNotFound(),
    not_ready: () => new UploadNotReady(),
    already_used: () => new UploadAlreadyUsed(),
    expired: () => new UploadExpired(),
  }

/** Returns the accepted job, or why the store refused it. Throws `TypeError` for an outcome that only a retry or the job of a tick can have. */
export const acceptedOf = (outcome: CreateOutcome | undefined): Result.Result<AcceptedJob, Refused> => {
  switch (outcome?._tag) {
    case "Created":
      return Result.succeed({ job: outcome.job, replayed: false })
    case "Replayed":
      return Result.succeed({ job: outcome.job, replayed: true })
    case "Duplicate":
    case "Replaced":
      return Result.succeed({ job: outcome.job, replayed: false, deduplicated: true })
    case "KeyReused":
      return Result.fail(new IdempotencyKeyReused({ jobId: outcome.job.id, kind: outcome.job.kind }))
    case "GateClosed":
      return Result.fail(new LiveNotActive({ missing: outcome.missing }))
    case "UploadRefused":
      return Result.fail(uploadRefused[outcome.reason]())
    case "SpendCapReached":
      return Result.fail(new SpendCapReached(outcome.refusal))
    case "StorageFull":
      return Result.fail(storageFull(outcome.capBytes, outcome.kept))
    case "QueueFull":
      return Result.fail(new QueueFull(outcome))
    case "NotRetryable":
    case "TickTaken":
    case undefined:
      throw new TypeError(`createJobs returned ${outcome === undefined ? "no outcome" : outcome._tag} for a new job`)
  }
}

/** Receives the outcome of one job, or the failure of the store. */
export type SettleJob = (exit: Exit.Exit<CreateOutcome | undefined, StoreUnavailable>) => void

/** The outcome of each job of a list, in its order. */
export type JobOutcomes = ReadonlyArray<Result.Result<AcceptedJob, CreateJobError>>

/**
 * Jobs of one list that may wait for the store at once: two batches in progress and the next one. Jobs of other callers get in
 * between, and a long list is not held in memory twice.
 */
export const maxWaiting = 1_500

/** One list on its way to the store. */
class JobList {
  readonly #drafts: ReadonlyArray<Result.Result<Draft, CreateJobError>>
  readonly #push: (draft: Draft, settle: SettleJob) => void
  readonly #done: (exit: Exit.Exit<JobOutcomes>) => void
  readonly #outcomes: Array<Result.Result<AcceptedJob, CreateJobError>> = []
  #defect: Exit.Exit<never> | undefined
  #next = 0
  #waiting = 0
  #pushing = false
  #over = false

  /** `done` is called once, with all outcomes or with the first defect. */
  constructor(
    drafts: ReadonlyArray<Result.Result<Draft, CreateJobError>>,
    push: (draft: Draft, settle: SettleJob) => void,
    done: (exit: Exit.Exit<JobOutcomes>) => void,
  ) {
    this.#drafts = drafts
    this.#push = push
    this.#done = done
  }

  /** Pushes as many drafts as may wait, in order. */
  pushMore(): void {
    // A closed engine settles each job while it is pushed: the loop goes on by itself, without a deeper stack.
    if (this.#pushing) return
    this.#pushing = true
    while (this.#next < this.#drafts.length && this.#waiting < maxWaiting && !this.#over) this.#pushNext()
    this.#pushing = false
    if (this.#waiting > 0 || this.#over) return
    this.#over = true
    this.#done(this.#defect ?? Exit.succeed(this.#outcomes))
  }

  /** Drops what was not pushed yet. `done` is not called any more. */
  stop(): void {
    this.#over = true
  }

  #pushNext(): void {
    const index = this.#next
    this.#next += 1
    const draft = this.#drafts[index]
    if (draft === undefined) return
    if (Result.isFailure(draft)) {
      this.#outcomes[index] = Result.fail(draft.failure)
      return
    }
    this.#waiting += 1
    try {
      this.#push(draft.success, (exit) => {
        this.#waiting -= 1
        this.#record(index, exit)
        this.pushMore()
      })
    } catch (error) {
      this.#waiting -= 1
      this.#fail(Exit.die(error))
    }
  }

  #record(index: number, exit: Parameters<SettleJob>[0]): void {
    try {
      if (Exit.isSuccess(exit)) {
        this.#outcomes[index] = acceptedOf(exit.value)
        return
      }
      const error = Option.getOrUndefined(Exit.findErrorOption(exit))
      if (error === undefined) this.#fail(exit as Exit.Exit<never>)
      else this.#outcomes[index] = Result.fail(error)
    } catch (error) {
      this.#fail(Exit.die(error))
    }
  }

  /** A defect ends the list, once the jobs that wait are settled. */
  #fail(defect: Exit.Exit<never>): void {
    this.#defect ??= defect
    this.#next = this.#drafts.length
  }
}

const hasPrerequisites = ({ placement }: JobRequest): boolean => placement?.submitted?.after !== undefined

const unread = (): never => {
  throw new TypeError("a request was not read")
}

/** The ways to have jobs accepted outside a transaction of the caller. */
export interface CreateJobs {
  /**
   * Accepts a job, exactly once per key record and idempotency key. When it returns, the job survives any crash. Fields are
   * checked here; everything after them, in the order replay, live prerequisites, upload, queue cap, in one step of the store.
   */
  readonly createJob: (asked: JobRequest) => Effect.Effect<AcceptedJob, CreateJobError>
  /** `createJob` for the tick of a schedule, which `placement` names. Returns the store's outcome, for `acceptedOf`. */
  readonly createTickJob: (
    asked: JobRequest,
  ) => Effect.Effect<CreateOutcome | undefined, InvalidRequest | StoreUnavailable>
  /**
   * Accepts a list of jobs, in order, each with its own outcome. All requests are read before the first job is stored. The jobs
   * share store calls of up to 500 with each other and with other callers. A store that fails is an outcome of the jobs it
   * affects; those can be repeated with their idempotency keys. An interrupted call stores no further jobs of its list.
   */
  readonly createJobs: (asked: ReadonlyArray<JobRequest>) => Effect.Effect<JobOutcomes>
  /**
   * `createJob` without a fiber, for callers with promises: calls `settle` once, with an outcome for `acceptedOf`. Throws
   * `InvalidRequest`, and the defects of `createJob`, and for a job with prerequisites, which it cannot check. It has no span.
   */
  readonly pushJob: (asked: JobRequest, settle: SettleJob) => void
}

export const makeCreateJobs: Effect.Effect<
  CreateJobs,
  never,
  JobStore | JobReader | GroupCommit | IdGenerator | Fingerprint | WakeUp
> = Effect.gen(function* () {
  const store = yield* JobStore
  const checkPrerequisites = makeCheckPrerequisites(store, yield* JobReader)
  const grouped = yield* GroupCommit
  const prepare = yield* makePrepareJob
  const afterDuplicate = yield* makeAfterDuplicate
  const fork = Effect.runForkWith(yield* Effect.context())
  const pushIn = (trace: JobTrace | undefined) => (draft: Draft, settle: SettleJob) => {
    const job = prepare(draft, trace)
    grouped.createJobs.push([job], (exit) => {
      const outcome = Exit.map(exit, ([first]) => first)
      if (Exit.isFailure(outcome) || !asksForMore(draft, outcome.value)) return settle(outcome)
      fork(afterDuplicate(draft, job, outcome.value)).addObserver(settle)
    })
  }
  const push = pushIn(undefined)
  const create = (asked: JobRequest) =>
    Effect.withFiber((fiber): ReturnType<CreateJobs["createTickJob"]> => {
      const draft = readDraft(asked)
      if (Result.isFailure(draft)) return Effect.fail(draft.failure)
      // Uninterruptible: a caller that is interrupted learns of it once its job is stored.
      return Effect.uninterruptible(
        Effect.suspend(() => {
          const job = prepare(draft.success, traceIn(fiber))
          return Effect.flatMap(store.createJobs([job]), ([outcome]) =>
            asksForMore(draft.success, outcome) ? afterDuplicate(draft.success, job, outcome) : Effect.succeed(outcome),
          )
        }),
      )
    })
  return {
    createJob: (asked) => {
      const created = Effect.flatMap(create(asked), (outcome) => Effect.fromResult(acceptedOf(outcome)))
      return hasPrerequisites(asked) ? Effect.andThen(checkPrerequisites(asked), created) : created
    },
    createTickJob: create,
    createJobs: (asked) =>
      Effect.withFiber((fiber) => {
        const createAll = (drafts: ReadonlyArray<Result.Result<Draft, CreateJobError>>) =>
          Effect.callback<JobOutcomes>((resume) => {
            const list = new JobList(drafts, pushIn(traceIn(fiber)), resume)
            list.pushMore()
            return Effect.sync(() => list.stop())
          })
        const drafts = asked.map(readDraft)
        if (!asked.some(hasPrerequisites)) return createAll(drafts)
        const checked = Effect.forEach(
          asked,
          (each, index) =>
            Effect.map(Effect.result(checkPrerequisites(each)), (check) =>
              Result.flatMap(drafts[index] ?? unread(), (draft) => Result.map(check, () => draft)),
            ),
          // Those of several jobs are read together.
          { concurrency: 100 },
        )
        return Effect.flatMap(checked, createAll)
      }),
    pushJob: (asked, settle) => {
      if (hasPrerequisites(asked)) throw new TypeError("pushJob does not check prerequisites: use createJob")
      push(Result.getOrThrow(readDraft(asked)), settle)
    },
  }
})

/** Whether the outcome is that of a job that waits, with which more is to be done. A store replaces its request by itself. */
const asksForMore = ({ placement }: Draft, outcome: CreateOutcome | undefined): boolean =>
  placement.unique?.onDuplicate === "extend" && outcome?._tag === "Duplicate"

/**
 * Begins the delay of the job that has the scope again, as `unique.onDuplicate` asks for, as long as it waits for its first attempt. Once that has begun,
 * the scope is free, and the job is submitted again: it may find another one in its place.
 */
const makeAfterDuplicate = Effect.gen(function* () {
  const store = yield* JobStore
  const wakeUp = yield* WakeUp
  return Effect.fnUntraced(function* (draft: Draft, job: NewJob, first: CreateOutcome | undefined) {
    let outcome = first
    while (asksForMore(draft, outcome) && outcome?._tag === "Duplicate") {
      const jobId = outcome.job.id
      const [changed] = yield* store.rescheduleJobs([{ jobId, delayMs: job.delayMs, queuedOnly: true }])
      if (changed === "Ready") return outcome
      if (changed === "Rescheduled") {
        // The new time may be sooner.
        yield* wakeUp.notify
        return outcome
      }
      ;[outcome] = yield* store.createJobs([job])
    }
    return outcome
  })
})
