import type { AttemptLimits } from "../domain/Attempt.ts"
import type { CircuitLimits } from "../domain/Circuit.ts"
import type { SwitchName } from "../domain/Gate.ts"
import type { UploadCap } from "../domain/Upload.ts"
import type { EngineLimits } from "../domain/InHand.ts"
import type { ProviderName } from "../providers/builtInPorts.ts"
import type { ProviderBounds } from "../providers/ProviderPort.ts"

/** Limits of live providers by the name of their port. A custom port that is not named has the limits of its declaration. */
export type ProviderSettings = { readonly [Name in ProviderName]: ProviderBounds } & {
  readonly [custom: string]: ProviderBounds | undefined
}

/** Every bound of the engine. Durations in milliseconds. */
export interface EngineSettings {
  readonly upload: {
    /** Inclusive. */
    readonly maxBytes: number
    /** How long a transfer may begin. */
    readonly transferWindowMs: number
    /** How long a file waits for its job. */
    readonly usableForMs: number
    readonly maxTransfers: number
    /** Lease of a running transfer, extended while it runs. */
    readonly leaseDurationMs: number
    /** Longest pause between two pieces of a transfer. */
    readonly stallLimitMs: number
    /** Longest transfer. */
    readonly transferLimitMs: number
  }
  /** Lease of a claim, extended by heartbeats every third of it. */
  readonly leaseDurationMs: number
  /** How often a worker asks whether its claims still hold: by then it notices that a job was canceled by another process. */
  readonly claimCheckIntervalMs: number
  /** Live jobs one worker runs at once. Sandbox jobs have as many slots of their own, so that neither waits for the other. */
  readonly concurrency: number
  /** Jobs in hand at once, by kind and by project. By default kinds have no limit, and a project has its share of each worker's slots. */
  readonly limits: EngineLimits
  /** Pause between two looks for work, when nothing wakes the worker; the longest where wake-ups do not reach every process. */
  readonly pollIntervalMs: number
  /**
   * What that pause grows to while there is nothing to do and wake-ups reach every process. Never longer than a lease: who
   * looks once a lease knows of every job before its worker can be lost, and takes it over as soon as the lease ends.
   */
  readonly idlePollIntervalMs: number
  /** How long running jobs may finish when the worker stops, before they are released. */
  readonly drainMs: number
  /** All waiting of a job together, then `queue_timeout`. */
  readonly queueLimitMs: number
  /** All running of a job together, then `job_timeout`. */
  readonly runLimitMs: number
  readonly attempts: AttemptLimits
  /** Limits of the live providers in each process. */
  readonly providers: ProviderSettings
  /** When a live provider is paused. */
  readonly circuit: CircuitLimits
  /** Unfinished jobs per project; 0 is no cap. */
  readonly queueCap: number
  /** Uploads of a project, and bytes of them, that may wait for jobs; 0 is no cap. Used, expired and erased ones wait no more. */
  readonly uploadCap: UploadCap
  /**
   * Refuses a live job of a kind that no worker has served live within its queue limit, naming `provider:<kind>`. Off by
   * default: the queue is the buffer. The HTTP service always checks it, unless it is mounted with `requireLiveWorker: false`.
   */
  readonly requireLiveWorker: boolean
  /** How long finished jobs keep their data; 0 keeps it until it is erased. */
  readonly dataRetentionMs: number
  /** How long records of finished jobs are kept; 0 keeps them. */
  readonly jobRetentionMs: number
  /** How often overdue jobs are looked for: while this process has jobs in hand, or finds some that are. */
  readonly sweepIntervalMs: number
  /** What that grows to otherwise; never more than a sixtieth of the shorter of the two limits of a job. */
  readonly idleSweepIntervalMs: number
  /** How often data past its retention, and purges still due, are looked for: while there are any. */
  readonly pruneIntervalMs: number
  /** What that grows to otherwise; never more than a sixtieth of the shortest time anything is kept. */
  readonly idlePruneIntervalMs: number
  /** How often all blobs are looked through for ones that belong to nothing. */
  readonly orphanIntervalMs: number
  /**
   * How long a blob whose record is missing is kept, counted from the time of its owner's id. Clocks of machines may be as far
   * apart as this.
   */
  readonly orphanGraceMs: number
  /**
   * How often a process looks whether another copy of its store works with the same blobs; a third of `orphanIntervalMs` where that
   * is less. Must be the same in all processes: one that has just started waits three of these before it collects orphans, so
   * that others can object.
   */
  readonly blobWatchIntervalMs: number
  /** Where no price says otherwise; lower-case ISO 4217. */
  readonly defaultCurrency: string
  /** Switches this process forces off, whatever the store says. */
  readonly forcedOff: ReadonlyArray<SwitchName>
}

/** Settings as a program gives them: those it leaves out have their defaults, in groups as well. */
export type GivenSettings = {
  readonly [Name in keyof EngineSettings]?: GivenSetting<EngineSettings[Name]> | undefined
}
type GivenSetting<Value> = Value extends string | number | ReadonlyArray<unknown>
  ? Value
  : { readonly [Name in keyof Value]?: GivenSetting<Value[Name]> | undefined }
