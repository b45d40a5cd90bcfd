import type { AttemptLimits } from "../domain/Attempt.ts"
import type { CircuitLimits } from "../domain/Circuit.ts"
import type { UploadCap, StorageCap } from "../domain/Upload.ts"
import type { EngineLimits } from "../domain/JobsInProgress.ts"
import type { ProviderName } from "../providers/builtInPorts.ts"
import type { ProviderBounds } from "../providers/ProviderPort.ts"

/** Limits of live providers by the name of their port. A custom port without an entry has the limits it was declared with. */
export type ProviderSettings = { readonly [Name in ProviderName]: ProviderBounds } & {
  readonly [custom: string]: ProviderBounds | undefined
}

/** All limits and intervals of the engine. Durations are in milliseconds. */
export interface EngineSettings {
  readonly upload: {
    /** Inclusive. */
    readonly maxBytes: number
    /** The time after the announcement in which a transfer may start. */
    readonly transferWindowMs: number
    /** The time in which a job can use a received file. */
    readonly usableForMs: number
    readonly maxTransfers: number
    /** Lease of a running transfer; it is extended during the transfer. */
    readonly leaseDurationMs: number
    /** Maximum pause between two chunks of a transfer. */
    readonly stallLimitMs: number
    /** Maximum duration of a transfer. */
    readonly transferLimitMs: number
  }
  /** Lease of a claim. Heartbeats extend it every third of this. */
  readonly leaseDurationMs: number
  /** The interval at which a worker checks its claims. It notices within this time that another process canceled a job. */
  readonly claimCheckIntervalMs: number
  /** Live jobs that a worker runs at the same time. Sandbox jobs have as many separate slots, so neither waits for the other. */
  readonly concurrency: number
  /** Limits of running jobs by kind and by project. By default, kinds have no limit and a project has a share of each worker's slots. */
  readonly limits: EngineLimits
  /** Interval between two claims when nothing wakes the worker. It is also the maximum if wake-ups do not reach every process. */
  readonly pollIntervalMs: number
  /**
   * The maximum of that interval while a worker is idle and wake-ups reach every process. Limited to the duration of a lease: a
   * worker that claims once per lease knows every running job, and takes it over as soon as its lease ends.
   */
  readonly idlePollIntervalMs: number
  /** The time for which running jobs may continue after the worker began to stop. Then they are released. */
  readonly drainMs: number
  /** Maximum total waiting time of a job; then it fails with `queue_timeout`. */
  readonly queueLimitMs: number
  /** Maximum total running time of a job; then it fails with `job_timeout`. */
  readonly runLimitMs: number
  readonly attempts: AttemptLimits
  /** Limits of the live providers in each process. */
  readonly providers: ProviderSettings
  /** When a live provider is paused. */
  readonly circuit: CircuitLimits
  /** Unfinished jobs per project; 0 is no cap. */
  readonly queueCap: number
  /** Maximum number and total bytes of a project's uploads that wait for jobs; 0 is no cap. Used, expired and erased uploads do not count. */
  readonly uploadCap: UploadCap
  /**
   * Maximum bytes that a project keeps in each mode, uploads and files of finished jobs together; 0 is no cap. At the cap, new uploads,
   * transfers, and jobs whose kinds write files are refused (`StorageFull`). Jobs that were accepted before may pass it with their files.
   */
  readonly storageCap: StorageCap
  /**
   * Refuses a live job of a kind that no worker has served live within its queue limit, naming `provider:<kind>`. Off by
   * default: the queue is the buffer. The HTTP service always checks it, unless it is mounted with `requireLiveWorker: false`.
   */
  readonly requireLiveWorker: boolean
  /**
   * Whether operators can read the requests of jobs: `operator.getRequest`, `kiln job show --request` and the operator's page. Each look
   * is recorded in the audit log. False refuses (`RequestsHidden`).
   */
  readonly operatorSeesRequests: boolean
  /** Retention of the data of finished jobs; 0 keeps it until it is erased. */
  readonly dataRetentionMs: number
  /** Retention of the records of finished jobs; 0 keeps them. */
  readonly jobRetentionMs: number
  /** The interval at which a process looks for overdue jobs while it has running jobs, or finds overdue ones. */
  readonly sweepIntervalMs: number
  /** The maximum of that interval otherwise; limited to a sixtieth of the shorter of `queueLimitMs` and `runLimitMs`. */
  readonly idleSweepIntervalMs: number
  /** The interval at which a process looks for expired data and unfinished purges while there are any. */
  readonly pruneIntervalMs: number
  /** The maximum of that interval otherwise; limited to a sixtieth of the shortest retention. */
  readonly idlePruneIntervalMs: number
  /** The interval at which all blobs are checked for orphans, which belong to no record. */
  readonly orphanIntervalMs: number
  /**
   * The time for which a blob without a record is kept, counted from the time in its owner's id. The clocks of two machines may differ by
   * up to this.
   */
  readonly orphanGraceMs: number
  /**
   * The interval at which a process checks whether another copy of its store uses the same blobs; a third of `orphanIntervalMs` if that is
   * less. Must be the same in all processes: a process that has just started waits three of these intervals before it collects
   * orphans, so that others can object.
   */
  readonly blobWatchIntervalMs: number
  /** The currency of jobs without a price; lower-case ISO 4217. */
  readonly defaultCurrency: string
  /** Switches that this process forces off, regardless of the store. */
  readonly forcedOff: ReadonlyArray<string>
}

/** Settings with defaults for all that are left out, in nested groups too. */
export type GivenSettings = {
  readonly [Name in keyof EngineSettings]?: GivenSetting<EngineSettings[Name]> | undefined
}
type GivenSetting<Value> = Value extends string | number | ReadonlyArray<unknown>
  ? Value
  : { readonly [Name in keyof Value]?: GivenSetting<Value[Name]> | undefined }
