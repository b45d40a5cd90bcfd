import type { Store } from "../engines/engines.ts"

/** A kind of submission besides the plain one, which only kiln is measured with. */
export type Submission = "live with a price" | "under a spend cap" | "with a tag" | "unique" | "under a cap" | "traced"

/** The limit of a drain, which only kiln is measured with. None holds back a job, except the number of slots. */
export type Drain =
  | "200 projects"
  | "limit 10 a project"
  | "limit of a kind"
  | "a rate"
  | "8 slots"
  | "8 slots, 200 projects"

/** What an engine does besides while jobs are submitted and run. */
export type Beside = "a sweep"

/** Slots of a worker whose jobs wait, as those of a provider do. */
export type Slots = 8 | 32

/** A measurement that one process makes with one engine. Times in seconds, rates per second. */
export type Task =
  /** Adds jobs one by one for `seconds`, by this many callers. Result: `rate`. */
  | { readonly do: "create"; readonly callers: number; readonly seconds: number; readonly as?: Submission }
  /** Adds `count` jobs at once. Result: `rate`. */
  | { readonly do: "bulk"; readonly count: number; readonly as?: Drain }
  /** Adds `size` jobs in each of `count` transactions of the caller, after some that are not measured. Result: `waitedMs` of each call. */
  | { readonly do: "inTransaction"; readonly count: number; readonly size: number }
  /** Waits for `go`, runs jobs, and reports how many it has run as it goes. */
  | { readonly do: "drain"; readonly report: number; readonly as?: Drain; readonly waiting?: Slots }
  /** Adds `count` jobs at `rate`, or if that is 0, each when the one before has started. `worker` runs them here as well. */
  | {
      readonly do: "pace"
      readonly count: number
      readonly rate: number
      readonly worker: boolean
      readonly as?: Beside
    }
  /** Runs jobs of another process and reports how long each waited. */
  | { readonly do: "serve" }

export interface ChildOptions {
  readonly store: Store
  readonly engine: string
  readonly place: string
  readonly kiln: string
  readonly task: Task
}

/** A message of the parent to a child. */
export type Order = "go" | "isEmpty" | "end" | "started"

/** A message of a child to the parent. */
export type Message =
  | { readonly type: "ready" }
  | { readonly type: "ran"; readonly ran: number }
  | { readonly type: "isEmpty"; readonly isEmpty: boolean }
  | { readonly type: "started"; readonly waitedMs: number }
  | { readonly type: "result"; readonly result: Result }

export interface Result {
  readonly rate?: number
  /** How long each job waited from its submission to its start, or each call took. */
  readonly waitedMs?: ReadonlyArray<number>
  /** The largest resident set of this process, in MB. */
  readonly peakMb: number
}
