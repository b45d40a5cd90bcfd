import type {
  AnyProvider,
  BuiltInKind,
  Drained,
  DrainOptions,
  EmbeddedEngine,
  InputOf,
  JobId,
  JobMode,
  JobResult,
  JobStatus,
  Kind,
  GivenSettings,
  LogEntry,
  NameOf,
  Priority,
  ProbeAdapter,
  ProviderName,
  ProviderPort,
  TypesOf,
} from "@kiln/core"
import type { ProgrammableProviders } from "../fakes/ProgrammableProviders.ts"
import type { TimeSpan } from "./TimeSpan.ts"

/**
 * When jobs run.
 *
 * - `inline`: `submit` and `submitMany` resolve with finished jobs. Time advances automatically between attempts, while a fake hangs
 *   or is late, and until a delayed job may begin.
 * - `manual`: jobs run only in `runNext` and `drain`, and time advances only with `advance`.
 * - `live`: a worker runs jobs in real time, as in production.
 */
export type RunMode = "inline" | "manual" | "live"

/** Exact decimals, by meter. */
export interface TestPrice {
  /** Lower-case ISO 4217. */
  readonly currency: string
  readonly unitAmounts: Readonly<Record<string, string>>
}

export interface TestEngineOptions<K extends Kind = BuiltInKind> {
  /** The job kinds of the engine; the four built-in ones by default. */
  readonly kinds?: ReadonlyArray<K>
  /** When jobs run; default `inline`, in which waiting for a job cannot hang and tests need no worker. */
  readonly mode?: RunMode
  /**
   * The providers of sandbox and live jobs: a fake, which is the default, a provider of the test, or none. `voiceTurn` is
   * `"none"` by default, because voice turns would prefer it to their three steps.
   */
  readonly providers?: {
    readonly [Ref in ProviderName | CustomPort<K> as NameOf<Ref>]?: AnyProvider<Ref> | "fake" | "none"
  }
  /** The mode of jobs without an explicit one; default `sandbox`. */
  readonly jobMode?: JobMode
  /**
   * Prices by name, which replace the defaults: one cent (usd) for each unit of every meter, for each price that a kind names.
   * `false` leaves all prices and switches off, as in a new installation.
   */
  readonly prices?: false | Readonly<Record<string, TestPrice>>
  /** Measures uploaded audio. Without one, the declared duration counts. */
  readonly probe?: ProbeAdapter
  /** Except in `live` mode, jobs run one at a time, regardless of `concurrency`. */
  readonly settings?: GivenSettings
  /** Start of virtual time, default 2030-01-01T00:00:00Z. Not in `live` mode. */
  readonly startAt?: Date
  /** Receives log entries; by default, the log is off. */
  readonly log?: (entry: LogEntry) => void
}

/** The provider ports that these kinds declare, apart from the built-in ones. */
export type CustomPort<K extends Kind> = Declared<Extract<TypesOf<K>["needs"]["all" | "or"], ProviderPort>>
type Declared<Port> = Port extends ProviderPort<infer Name> ? (string extends Name ? never : Port) : never

/** A submitted job. */
export type SubmittedJob<K extends Kind = Kind> = K extends Kind
  ? {
      readonly id: JobId
      readonly kind: K["name"]
      /** The submitted request, as stored. `null` once its data is gone. */
      readonly request: InputOf<K> | null
      readonly mode: JobMode
      /** `embedded` if none was given. */
      readonly project: string
      readonly priority: Priority
      /** The current status. */
      readonly status: JobStatus
    }
  : never

/** A transaction of the program under test. */
export interface TestTransaction {
  /**
   * Makes the jobs that were submitted with it exist. In `inline` mode, it resolves when they are finished. Rejects with a `TypeError`
   * if the transaction has ended.
   */
  readonly commit: () => Promise<void>
  /** Discards them. */
  readonly rollback: () => Promise<void>
}

/**
 * A complete engine in memory for tests, with virtual time and fakes. It can stand in for the engine of a program on any store: its
 * transactions are any objects.
 */
export interface TestEngine<K extends Kind = Kind> extends EmbeddedEngine<K, object, object> {
  /** The fakes: their methods set their answers, and `calls` lists their calls. A fake that was replaced is never called. */
  readonly providers: ProgrammableProviders<CustomPort<K>>
  /** Returns the time inside the engine. */
  readonly now: () => Date
  /**
   * Advances time: leases, delays, backoff and retention come due in order, and overdue records have been swept when it resolves.
   * In `inline` mode, jobs that become runnable are run. Rejects in `live` mode.
   */
  readonly advance: (span: TimeSpan) => Promise<void>
  /** Runs one attempt of the next runnable job; `undefined` if no job is runnable. Rejects in `live` mode. */
  readonly runNext: () => Promise<JobResult<K> | undefined>
  /**
   * Runs attempts until no job is runnable, and returns their number. With `throughRetries`, it also advances time to each retry
   * and delayed job, until none is left. Rejects after 1,000 attempts, and in `live` mode.
   */
  readonly drain: {
    (options: DrainOptions): Promise<Drained>
    (options?: { readonly throughRetries?: boolean }): Promise<number>
  }
  /**
   * Begins a transaction to pass to `submit`, `submitMany` and their synchronous forms. Its jobs exist once `commit` is called, and
   * never after `rollback`. `handle` is what the program under test calls its transaction, such as a fake of its database client:
   * `commit` and `rollback` are added to it.
   */
  readonly beginTransaction: <Handle extends object = object>(handle?: Handle) => Handle & TestTransaction
  /** The jobs accepted so far, oldest first. Replays of an idempotency key are not included. */
  readonly submitted: () => Promise<ReadonlyArray<SubmittedJob<K>>>
}
