import type { JobMode } from "../domain/Access.ts"
import type { LineItem } from "../domain/Billing.ts"
import type { Board, SwitchName } from "../domain/Gate.ts"
import type { JobId, KeyId, ProjectId } from "../domain/Ids.ts"
import type { JobStatus } from "../domain/JobState.ts"
import type { Kind } from "../kinds/KindTypes.ts"
import type { JobCount, JobSummary } from "../ports/JobListing.ts"
import type { JobReference, JobResult } from "./JobResult.ts"

/** Which jobs. Everything that is given must hold. */
export interface ListQuery {
  /** A name as given to `submit`, or an identifier, `prj_…`. */
  readonly project?: string
  readonly kind?: string
  readonly mode?: JobMode
  readonly status?: JobStatus
  /** Inclusive. */
  readonly createdFrom?: Date
  /** Exclusive. */
  readonly createdTo?: Date
  /** Where the page before ended: its `next`. */
  readonly after?: string
  /** Jobs at most, default 100. */
  readonly limit?: number
}

type Times = "createdAt" | "claimableAt" | "finishedAt"

/** A job in a list: no request, no output, nothing a caller may have erased. */
export interface ListedJob extends Omit<JobSummary, Times> {
  readonly createdAt: Date
  /** When it may next be claimed, or its lease ends; `null` when finished. */
  readonly claimableAt: Date | null
  readonly finishedAt: Date | null
}

/** A page of jobs, newest first. It may be short and not the last: `next` says so. */
export interface ListPage {
  readonly jobs: ReadonlyArray<ListedJob>
  readonly next: string | undefined
}

/** How many jobs of one kind, mode and status there are. */
export type JobTally = JobCount

/** What holds at present, for all processes: paused kinds, switches, active prices, and the kinds that a worker can serve live. */
export type OperatorBoard = Board

/** What one done live job cost. */
export interface ListedCharge {
  readonly jobId: JobId
  readonly projectId: ProjectId
  readonly keyId: KeyId
  readonly kind: string
  readonly currency: string
  /** A decimal, exactly. */
  readonly amount: string
  readonly lineItems: ReadonlyArray<LineItem>
  readonly chargedAt: Date
}

/** The charges of a period. */
export interface ListedCharges extends AsyncIterableIterator<ListedCharge> {
  /**
   * Where the listing ends, exclusive: `to`, or the time up to which the ledger was complete when the listing began. No charge
   * before it is missing or appears later, so the next period begins here. Never before `from`.
   */
  readonly until: () => Promise<Date>
}

/** What an operator may ask, about the jobs of all projects. */
export interface OperatorVerbs<K extends Kind> {
  readonly list: (query?: ListQuery) => Promise<ListPage>
  /** All jobs that match, page by page. */
  readonly listAll: (query?: Omit<ListQuery, "after">) => AsyncIterableIterator<ListedJob>
  /** All unfinished jobs, and those finished within `finishedWithinMs` (a day), counted by kind, mode and status. */
  readonly count: (question?: {
    readonly finishedWithinMs?: number
    readonly project?: string
  }) => Promise<ReadonlyArray<JobTally>>
  /**
   * Fails an unfinished job (`canceled_by_operator`), wherever it is. An attempt that is under way is interrupted: in this
   * process at once, in others within a second. What a provider has begun may still be paid for.
   */
  readonly cancel: (job: JobReference<string>) => Promise<void>
  /**
   * Tries a failed job again, as a new one with the same request, at the present price. What it consumed goes over to the new
   * one. Done twice it is one new job.
   */
  readonly retry: <Name extends K["name"] = K["name"]>(
    job: JobReference<Name>,
  ) => Promise<JobResult<Extract<K, { readonly name: Name }>>>
  /** Jobs of the kind are accepted and wait; those in hand go on. In this process at once, in others within a second. */
  readonly pause: (kind: string) => Promise<void>
  readonly resume: (kind: string) => Promise<void>
  /** What is paused, switched on and priced. A switch that this process's settings force off is off. */
  readonly board: () => Promise<OperatorBoard>
  /** Live jobs need the switches of their kind on. A new installation has all of them off. */
  readonly setSwitch: (name: SwitchName, on: boolean) => Promise<void>
  /**
   * Sets a price, by unit and meter as exact decimals, for new live jobs: `{ name: "svc-image", currency: "usd", unitAmounts:
   * { images: "0.011" } }`. Active at once, unless `active` is `false`. Rejects with a `TypeError` for a name or a meter that
   * no job kind of this engine uses. Live jobs of a kind with a meter the price does not name are refused: give `"0"` for a
   * free one.
   */
  readonly setPrice: (price: {
    readonly name: string
    /** Lower-case ISO 4217. */
    readonly currency: string
    readonly unitAmounts: Readonly<Record<string, string>>
    readonly active?: boolean
  }) => Promise<void>
  /**
   * What was charged between two moments, from inclusive, to exclusive, in the order of time. It ends earlier if charges of
   * the period may still appear, for instance because the period is not over: `until` says where.
   */
  readonly charges: (period: { readonly from: Date; readonly to: Date }) => ListedCharges
}
