import type { JobMode } from "./Access.ts"

/** The kinds a worker runs, and its limits, as it publishes them for operators. */
export type WorkerScope = {
  /** Its slots. Live and sandbox jobs have as many each. */
  readonly slots: number
  /** The maximum number of its slots of a mode that one project may hold; 0 means no limit. */
  readonly share: number
  /** The maximum number of running jobs, in all processes and for each mode, of a project without its own limit; 0 means no limit. */
  readonly perProject: number
  /** Switches that its settings force off. */
  readonly forcedOff: ReadonlyArray<string>
  readonly kinds: ReadonlyArray<ServedKind>
  /** Its state when it published this; missing for a worker of an earlier version. */
  readonly state?: WorkerState
}

/** The state of a worker's process, as it publishes it for operators. */
export type WorkerState = {
  /** Its host and process id, such as `web-1:4242`; missing for a worker of an earlier version. */
  readonly name?: string
  /** The version of the program; `null` if the program does not tell. */
  readonly version: string | null
  /** It shuts down: it claims no more jobs, and finishes those that run. */
  readonly draining: boolean
  /** When the store last answered one of its claims, in unix milliseconds; `null` before the first answer. */
  readonly lastClaimAt: number | null
  /** Free slots of each mode. */
  readonly free: { readonly live: number; readonly sandbox: number }
  /** The lag of its event loop since the previous publication (p99), in milliseconds; `null` if it is not measured. */
  readonly loopLagMs: number | null
}

/** A kind that a worker runs. */
export type ServedKind = {
  readonly kind: string
  /** The oldest and the newest version of requests that it runs. */
  readonly fromVersion: number
  readonly toVersion: number
  readonly modes: ReadonlyArray<JobMode>
  /** The providers of its live jobs. */
  readonly providers: ReadonlyArray<string>
  /** The switches that its live jobs need. */
  readonly switches: ReadonlyArray<string>
  /** The maximum number of its running jobs in all processes, for each mode; `null` means no limit. */
  readonly limit: number | null
  /** The rates at which its jobs may start, or may call their providers. */
  readonly rates: ReadonlyArray<ServedRate>
}

/** A rate of a kind, or of a provider. */
export type ServedRate = {
  /** The provider; `null` for the kind itself. */
  readonly provider: string | null
  readonly limit: number
  readonly perMs: number
}
