import type {
  AnyProvider,
  BuiltInKind,
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
 * How jobs come to be run.
 *
 * - `inline`: `submit` resolves with the finished job. Time passes by itself between its attempts, while a fake hangs or is
 *   late, and until a delayed job may begin.
 * - `manual`: nothing runs until the test says so, with `runNext` or `drain`, and no time passes but by `advance`.
 * - `live`: a worker runs jobs by itself, as in production, in real time.
 */
export type RunMode = "inline" | "manual" | "live"

/** Exact decimals, by meter. */
export interface TestPrice {
  /** Lower-case ISO 4217. */
  readonly currency: string
  readonly unitAmounts: Readonly<Record<string, string>>
}

export interface TestEngineOptions<K extends Kind = BuiltInKind> {
  /** The kinds of job it knows; the built-in four by default. */
  readonly kinds?: ReadonlyArray<K>
  /** How jobs come to be run, default `inline`: then nothing a test waits for can hang, and no test has to know of workers. */
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
   * Prices by name, over those there are by default: one cent (usd) for each unit of every meter, for each price that a kind
   * names. `false` leaves all prices and switches as a new installation has them: off.
   */
  readonly prices?: false | Readonly<Record<string, TestPrice>>
  /** Measures uploaded audio. Without one, the declared duration counts. */
  readonly probe?: ProbeAdapter
  /** Outside of `live`, jobs run one at a time whatever `concurrency` says. */
  readonly settings?: GivenSettings
  /** Where virtual time begins, default 2030-01-01T00:00:00Z. Not in `live`. */
  readonly startAt?: Date
  /** Where the log goes; nowhere by default. */
  readonly log?: (entry: LogEntry) => void
}

/** The provider ports that these kinds declare, apart from the built-in ones. */
export type CustomPort<K extends Kind> = Declared<Extract<TypesOf<K>["needs"]["all" | "or"], ProviderPort>>
type Declared<Port> = Port extends ProviderPort<infer Name> ? (string extends Name ? never : Port) : never

/** A job that was accepted. */
export type SubmittedJob<K extends Kind = Kind> = K extends Kind
  ? {
      readonly id: JobId
      readonly kind: K["name"]
      /** As it is stored: what was submitted. `null` once its data is gone. */
      readonly request: InputOf<K> | null
      readonly mode: JobMode
      /** `embedded` where none was named. */
      readonly project: string
      readonly priority: Priority
      /** How it stands now. */
      readonly status: JobStatus
    }
  : never

/** A whole engine in memory, for tests: everything an engine has, time that passes when it is told to, and fakes. */
export interface TestEngine<K extends Kind = Kind> extends EmbeddedEngine<K> {
  /** The fakes: their verbs set what they answer, `calls` lists what they were asked. A fake that was replaced is never called. */
  readonly providers: ProgrammableProviders<CustomPort<K>>
  /** The time inside the engine. */
  readonly now: () => Date
  /**
   * Lets so much time pass: leases, delays, backoff and retention come due in their order, and what is overdue has been
   * swept when it resolves. In `inline` mode the jobs that may run by then are run. Rejects in `live` mode.
   */
  readonly advance: (span: TimeSpan) => Promise<void>
  /** Makes one attempt of the next job that may run now; `undefined` where there is none. Rejects in `live` mode. */
  readonly runNext: () => Promise<JobResult<K> | undefined>
  /**
   * Makes attempts until no job may run now and says how many it made; with `throughRetries`, until none will: time passes
   * by itself up to the next retry, or the beginning of a delayed job. Rejects after 1,000 attempts, and in `live` mode.
   */
  readonly drain: (options?: { readonly throughRetries?: boolean }) => Promise<number>
  /** The jobs accepted so far, oldest first. Replays of an idempotency key are none. */
  readonly submitted: () => Promise<ReadonlyArray<SubmittedJob<K>>>
}
