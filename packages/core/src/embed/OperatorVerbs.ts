import type { JobMode } from "../domain/Access.ts"
import type { FailedAttempt } from "../domain/AttemptRecord.ts"
import type { WaitRun } from "../domain/Parking.ts"
import type { LineItem } from "../domain/Billing.ts"
import type { Board } from "../domain/Gate.ts"
import type { JobId, KeyId, ProjectId } from "../domain/Ids.ts"
import type { Spending } from "../domain/SpendCap.ts"
import type { MetadataValue } from "../domain/JobMetadata.ts"
import type { PriorityName } from "../domain/Priority.ts"
import type { JobStatus } from "../domain/JobState.ts"
import type { JsonObject } from "../domain/givenValues.ts"
import type { WaitingFor } from "../domain/WaitingFor.ts"
import type { Kind, SwitchOf } from "../kinds/KindDefinition.ts"
import type { JobCount, JobSummary, QueueDepth } from "../ports/JobListing.ts"
import type { JobReference, JobResult } from "./JobResult.ts"

/** Selects jobs. All given conditions must hold. */
export interface JobFilter {
  /** A name as passed to `submit`, or an id, `prj_…`. */
  readonly project?: string
  readonly kind?: string
  readonly mode?: JobMode
  readonly status?: JobStatus
  /** The id of the key of the mounted API that created the jobs, `key_…`. */
  readonly keyId?: KeyId
  /** The error code of failed jobs. */
  readonly errorCode?: string
  /** Inclusive. */
  readonly createdFrom?: Date
  /** Exclusive. */
  readonly createdTo?: Date
  /** Tags that the job must all have. */
  readonly tags?: ReadonlyArray<string>
  /** Fields of the submission's metadata that the job must have with these values. */
  readonly metadata?: Readonly<Record<string, MetadataValue>>
  /** Milliseconds since the creation of the job, at least, by this process's clock. */
  readonly olderThanMs?: number
}

/** Selects a page of jobs. */
export interface ListQuery extends JobFilter {
  /** The previous page's `next`. */
  readonly after?: string
  /** Maximum number of jobs, default 100. */
  readonly limit?: number
}

/** Options of a verb that changes the jobs of a filter. */
export interface BulkOptions {
  /** Counts the jobs that match, up to about 100,000, and changes nothing. */
  readonly dryRun?: boolean
  /** Maximum number of jobs that one call changes, 1 to 10,000; default 1,000. */
  readonly limit?: number
  /** The previous call's `next`. */
  readonly after?: string
}

/** The result of a verb that changes the jobs of a filter. */
export interface BulkResult {
  /** Number of jobs that matched: in this batch, or all of them in a dry run. */
  readonly matched: number
  /** Number of jobs that were changed; 0 in a dry run. */
  readonly changed: number
  /** Number of jobs that needed no change any more: one that had ended, or had been retried before. */
  readonly skipped: number
  /** The jobs that could not be changed, by the reason. */
  readonly refused: ReadonlyArray<{ readonly message: string; readonly count: number }>
  /** False if there are more jobs: pass `next` to the next call. In a dry run, that more match than were counted. */
  readonly complete: boolean
  readonly next: string | undefined
}

type Times = "createdAt" | "claimableAt" | "finishedAt"

/** A job in a list, without request, output or anything that a caller can erase. */
export interface ListedJob extends Omit<JobSummary, Times | "metadata" | "held" | "phaseStartedAt"> {
  /** The tags of the submission. */
  readonly tags: ReadonlyArray<string>
  /** The fields of the request that its kind lists in `metadata`, and the metadata of the submission. */
  readonly metadata: JsonObject
  /** When a worker began the attempt that runs, or last took it up again; `null` unless one runs. */
  readonly startedAt: Date | null
  readonly createdAt: Date
  /** When it may next be claimed, or its lease ends; `null` when finished. */
  readonly claimableAt: Date | null
  readonly finishedAt: Date | null
}

/** A page of jobs, newest first. A page may be short without being the last; only `next` tells. */
export interface ListPage {
  readonly jobs: ReadonlyArray<ListedJob>
  readonly next: string | undefined
}

/**
 * An attempt that failed. `message` and `stack` may quote the request: for operators, never for callers. Together they are cut to
 * 8 KiB.
 */
export interface ListedAttempt extends Omit<FailedAttempt, "startedAt"> {
  readonly startedAt: Date
}

/** Consecutive attempts that ended to wait for the same reason, at no cost to the job's budget of failures. */
export interface ListedWait extends Omit<WaitRun, "firstAt" | "lastAt"> {
  readonly firstAt: Date
  readonly lastAt: Date
}

/** One thing that an unfinished job waits for. */
export interface WaitingReason extends Omit<WaitingFor, "until"> {
  /** When the job goes on by itself, or is tried again; `null` if that is unknown. */
  readonly until: Date | null
}

/** Number of jobs of one kind, mode and status. */
export type JobTally = JobCount

/** The unfinished jobs of one kind and mode, as a worker would find them now. */
export interface ListedQueue extends QueueDepth {
  /** The reasons that hold back all of them: the kind is paused, a switch is off, no worker runs it, or its providers are paused. */
  readonly heldBack: ReadonlyArray<WaitingReason>
}

/** The current state for all processes: paused kinds, switches, active prices, and the kinds that a worker can serve live. */
export type OperatorBoard = Board

/** The charge for one live job that is done. */
export interface ListedCharge {
  readonly jobId: JobId
  readonly projectId: ProjectId
  readonly keyId: KeyId
  readonly kind: string
  readonly currency: string
  /** An exact decimal. */
  readonly amount: string
  readonly lineItems: ReadonlyArray<LineItem>
  readonly chargedAt: Date
}

/** The charges of a period. */
export interface ListedCharges extends AsyncIterableIterator<ListedCharge> {
  /**
   * Returns the exclusive end of the listing: `to`, or the time up to which the ledger was complete when the listing began. No
   * charge before it is missing or appears later, so start the next period here. Never before `from`.
   */
  readonly until: () => Promise<Date>
}

/** The project or the key of the mounted API that a spend cap belongs to. */
export type SpendCapOwner =
  /** A name as passed to `submit`, or an id, `prj_…`. */
  { readonly project: string } | { readonly keyId: string }

/** The most that live jobs may cost in a calendar day and in a calendar month of UTC. At least one of the two is required. */
export interface SpendCapAmounts {
  /** Lower-case ISO 4217. Jobs whose price has another currency are refused. */
  readonly currency: string
  /** An exact decimal, like `"25"` or `"0.50"`. */
  readonly day?: string
  /** An exact decimal. */
  readonly month?: string
}

/** The limits of one project. */
export interface ProjectLimits {
  /** Jobs that run at the same time; 0 means no limit. */
  readonly concurrency: number
}

/** A spend cap, with what counts against it now. */
export type ListedSpending = Spending

/** When a job may start, as one of the two times, and its priority; at least one of the three. */
export type NewStart = { readonly priority?: PriorityName | number } & (
  | { readonly runAt: Date; readonly delayMs?: never }
  | { readonly delayMs: number; readonly runAt?: never }
  | { readonly priority: PriorityName | number; readonly runAt?: never; readonly delayMs?: never }
)

/** Options of `getRequest`. */
export interface RequestOptions {
  /** The person or program that looks, for the audit log: 1 to 100 visible ASCII characters and spaces. */
  readonly by?: string
}

/** Operator methods, for the jobs of all projects. */
export interface OperatorVerbs<K extends Kind> {
  /** Lists a page of jobs, newest first. Rejects with `KindUnknown` for a kind that neither this engine nor the installation knows. */
  readonly list: (query?: ListQuery) => Promise<ListPage>
  /** Iterates over all matching jobs, page by page. */
  readonly listAll: (query?: Omit<ListQuery, "after">) => AsyncIterableIterator<ListedJob>
  /** Counts unfinished jobs, and those finished within `finishedWithinMs` (default a day), by kind, mode and status. */
  readonly count: (question?: {
    readonly finishedWithinMs?: number
    readonly project?: string
    /** Tags that the jobs must all have. Their finished jobs are read one by one. */
    readonly tags?: ReadonlyArray<string>
    readonly metadata?: Readonly<Record<string, MetadataValue>>
  }) => Promise<ReadonlyArray<JobTally>>
  /**
   * Measures the queue by kind and mode: how many jobs are `ready`, `delayed` before their first attempt, `retrying` between two
   * attempts and `running`, how long the oldest ready one has waited, and what holds back all of them.
   */
  readonly measureQueue: (question?: { readonly project?: string }) => Promise<ReadonlyArray<ListedQueue>>
  /**
   * Lists the failed attempts of a job, oldest first: code, message, stack, start, duration and worker of the newest 20, while the
   * job's data is kept. Attempts whose worker was lost have no record. Rejects with `JobNotFound`.
   */
  readonly listAttempts: (job: JobReference<string>) => Promise<ReadonlyArray<ListedAttempt>>
  /**
   * Lists why attempts of a job ended to wait, oldest first: the newest 20 runs of attempts with the same reason, as long as the job's
   * record exists. Rejects with `JobNotFound`.
   */
  readonly listWaits: (job: JobReference<string>) => Promise<ReadonlyArray<ListedWait>>
  /**
   * Returns what an unfinished job waits for, such as `{ reason: "provider_paused", subject: "speech", cause: "quota", until }`: first
   * what an operator has to change, then delays and limits that pass by themselves, or its place in the line. Empty for a running or
   * finished job. Rejects with `JobNotFound`.
   */
  readonly waitingFor: (job: JobReference<string>) => Promise<ReadonlyArray<WaitingReason>>
  /**
   * Returns the request of a job as it is stored; `null` once its data is gone. Each call is recorded in the audit log of the
   * store, if it has one, as a look by `by` (default `program`). Rejects with `RequestsHidden` if `settings.operatorSeesRequests` is
   * `false`, and with `JobNotFound`.
   */
  readonly getRequest: (job: JobReference<string>, options?: RequestOptions) => Promise<JsonObject | null>
  /**
   * Fails an unfinished job (`canceled_by_operator`). A running attempt is interrupted, immediately in this process and within a
   * second in others. The provider may still charge for calls it has started.
   */
  readonly cancel: (job: JobReference<string>) => Promise<void>
  /**
   * Submits a new job with the request of a failed one, at the current price, and returns it. A finished status is final, so the failed
   * job keeps its id, its status and its attempts; `get` shows the new one as its `retriedAs`. The new job takes over the upload. Finished steps and
   * children of the failed job count for the new one, which runs the failed ones again; with `from: "start"`, all of them run again. The
   * retry of a child belongs to its parent while that is unfinished. Repeating the call returns the same new job.
   *
   * `request` changes the request: its kind reads it as that of a submission (`InvalidRequest`), and all steps and children run again. It
   * must name the same upload. A parent takes the result of a child that was retried so for the one it asked for.
   */
  readonly retry: <Name extends K["name"] = K["name"]>(
    job: JobReference<Name>,
    options?: { readonly from?: "start"; readonly request?: object },
  ) => Promise<JobResult<Extract<K, { readonly name: Name }>>>
  /**
   * Makes a job that waits for its delayed start, or for its next attempt, claimable now; workers look for it at once. It comes after the
   * jobs that are ready already. Rejects with `JobNotWaiting` for a job that runs, or that waits for prerequisites, children, a signal or
   * a sleep. A job that is ready keeps its place.
   */
  readonly promote: (job: JobReference<string>) => Promise<void>
  /**
   * Changes when a waiting job may start, or start its next attempt: sooner or later than before, at most 366 days from now. The time
   * until then does not count against its queue limit. Or changes its `priority`, by which the next claim goes; a job that waits for
   * prerequisites, children, a signal or a sleep can get another priority, too. Rejects like `promote`.
   */
  readonly reschedule: (job: JobReference<string>, start: NewStart) => Promise<void>
  /**
   * Calls `onFinished` again for a finished job, within seconds: after it was confirmed, after its tenth call failed, or instead of a
   * long pause; with ten calls to come. No effect if it is being called, or will be within a minute. Rejects with `JobNotDelivered` for a
   * job that is not finished, or that was accepted without an `onFinished`.
   */
  readonly redeliver: (job: JobReference<string>) => Promise<void>
  /**
   * Cancels the unfinished jobs that match, a batch at a time. `dryRun` says how many they are. Throws `TypeError` for a filter that
   * would match all jobs.
   */
  readonly cancelMany: (filter: JobFilter, options?: BulkOptions) => Promise<BulkResult>
  /** Promotes the jobs that match and wait for their start or their next attempt, a batch at a time. */
  readonly promoteMany: (filter: JobFilter, options?: BulkOptions) => Promise<BulkResult>
  /** Reschedules the jobs that match and wait, ready ones too, or changes their priority, a batch at a time. */
  readonly rescheduleMany: (filter: JobFilter, start: NewStart, options?: BulkOptions) => Promise<BulkResult>
  /** Retries the failed jobs that match, each once, a batch at a time. A job that cannot be retried is counted in `refused`. */
  readonly retryMany: (filter: JobFilter, options?: BulkOptions) => Promise<BulkResult>
  /**
   * Pauses a kind, also one of other processes: its jobs are accepted and wait, and running ones continue. Takes effect immediately in this process and within
   * a second in others.
   */
  readonly pause: (kind: string) => Promise<void>
  readonly resume: (kind: string) => Promise<void>
  /**
   * Returns which kinds are paused, which switches are on, and the prices. A switch that this process's settings force off is
   * off.
   */
  readonly board: () => Promise<OperatorBoard>
  /**
   * Turns a switch of this engine's kinds on or off. Live jobs need the switches of their kind on. In a new installation, all are
   * off. Rejects with a `TypeError` for a name that no kind of this engine has.
   */
  readonly setSwitch: (name: SwitchOf<K>, on: boolean) => Promise<void>
  /**
   * Sets a price for new live jobs, as exact decimals per unit of each meter: `{ name: "svc-image", currency: "usd", unitAmounts:
   * { images: "0.011" } }`. It becomes active immediately, unless `active` is `false`. Rejects with a `TypeError` for a name or
   * meter that no job kind of this engine uses. Live jobs of a kind are refused if the price lacks one of its meters; use `"0"`
   * for a free meter.
   */
  readonly setPrice: (price: {
    readonly name: string
    /** Lower-case ISO 4217. */
    readonly currency: string
    readonly unitAmounts: Readonly<Record<string, string>>
    readonly active?: boolean
  }) => Promise<void>
  /**
   * Limits how many jobs of a project run at the same time in all processes, for each mode and all kinds together: at least 1, or 0
   * for no limit. `null` removes the limit, so that `settings.limits.perProject` applies again. Takes effect immediately in this
   * process and within a second in others. `board` lists the limits, by id of the project.
   */
  readonly limitProject: (project: string, limits: ProjectLimits | null) => Promise<void>
  /**
   * Sets the spend cap of a project or a key; `null` removes it. A live job is refused (`SpendCapReached`) if it could pass the cap:
   * the charges of the period, what unfinished jobs may cost at most and what this one may cost at most are added up. Holds for jobs
   * that are accepted from now on, in all processes.
   */
  readonly setSpendCap: (owner: SpendCapOwner, cap: SpendCapAmounts | null) => Promise<void>
  /** Lists all spend caps with what counts against them now. */
  readonly listSpending: () => Promise<ReadonlyArray<ListedSpending>>
  /**
   * Lists the charges of a period in order of time; `from` is inclusive, `to` exclusive. `until` is earlier than `to` if charges
   * of the period may still appear, for example because it is not over.
   */
  readonly listCharges: (period: { readonly from: Date; readonly to: Date }) => ListedCharges
  /**
   * Continues with a copy of the database, on which `start` rejects with `StoreCopied`; create the engine with `autoStart: false`
   * for this. No engine may run on the original or on another copy. `unfinished: "cancel"` fails the unfinished live jobs
   * (`canceled_by_operator`) and skips due ticks of schedules, because the original may have run and charged them since; `"keep"`
   * continues all, for a database that was only moved. Resolves with `adopted: false` if the database is not a copy.
   */
  readonly adoptCopy: (options: { readonly unfinished: "cancel" | "keep" }) => Promise<{
    readonly adopted: boolean
    /** Number of jobs that were canceled. */
    readonly canceled: number
  }>
}
