import * as Schema from "effect/Schema"

const { Array: List, Boolean: Flag, Finite, Int, Literals, NullOr, Record, String: Text, Struct } = Schema

const time = Text.annotate({ description: "RFC 3339, UTC." })
const mode = Literals(["sandbox", "live"])
const status = Literals(["queued", "processing", "done", "failed"])

/** The rights of a caller. */
const Role = Literals(["view", "operate", "content"])

export const Session = Struct({
  actor: Text.annotate({ description: "The caller's name, as in the audit log." }),
  roles: List(Role),
  version: NullOr(Text).annotate({ description: "The version of the program that serves the page." }),
}).annotate({ identifier: "Session" })

const WaitingReason = Struct({
  reason: Text,
  subject: NullOr(Text),
  cause: NullOr(Text),
  until: NullOr(time),
  count: NullOr(Int),
  limit: NullOr(Int),
}).annotate({ identifier: "WaitingReason", description: "One thing that an unfinished job waits for." })

const Finding = Struct({
  check: Text,
  status: Literals(["warning", "problem"]),
  summary: Text,
  remedy: NullOr(Text),
  findings: List(Struct({ message: Text, remedy: NullOr(Text) })),
}).annotate({ identifier: "Finding", description: "A result of `kiln doctor` that calls for action." })

const Queue = Struct({
  type: Text,
  mode,
  paused: Flag,
  ready: Int,
  running: Int,
  retrying: Int,
  delayed: Int,
  oldest_ready_seconds: Finite,
  held_back: List(WaitingReason),
}).annotate({ identifier: "Queue", description: "The unfinished jobs of one type and mode." })

const Percentiles = Struct({ p50: Finite, p95: Finite, p99: Finite }).annotate({
  identifier: "Percentiles",
  description: "Seconds.",
})

const Recent = Struct({
  since: time.annotate({ description: "The jobs that finished after this time are counted." }),
  jobs: Int,
  complete: Flag.annotate({ description: "False if there were too many jobs for the whole hour." }),
  types: List(
    Struct({ type: Text, mode, done: Int, failed: Int, waited: Percentiles, ran: Percentiles }).annotate({
      identifier: "RecentType",
    }),
  ),
  failures: List(Struct({ type: Text, error_code: Text, count: Int })),
  projects: List(
    Struct({
      project_id: Text,
      name: NullOr(Text),
      jobs: Int,
      ran_seconds: Finite,
      share: Finite.annotate({ description: "The project's share of the time of all slots, from 0 to 1." }),
      waited_p95_seconds: Finite,
    }).annotate({ identifier: "ProjectShare" }),
  ),
}).annotate({ identifier: "Recent", description: "The jobs that finished within the last hour." })

const Spending = Struct({
  owner: Text,
  name: NullOr(Text),
  currency: Text,
  day_cap: NullOr(Text),
  day_spent: Text,
  month_cap: NullOr(Text),
  month_spent: Text,
  reserved: Text,
}).annotate({ identifier: "Spending" })

const Provider = Struct({
  provider: Text,
  status: Literals(["ready", "paused"]),
  reason: NullOr(Text),
  workers: Int,
  paused_workers: Int,
  paused_since: NullOr(time),
  next_try_at: NullOr(time),
}).annotate({ identifier: "Provider" })

const Worker = Struct({
  worker_id: Text,
  name: NullOr(Text).annotate({
    description: "Its host and process id, such as `web-1:4242`; `null` for a worker of an earlier version.",
  }),
  slots: NullOr(Int),
  live_types: List(Text),
  types: List(Text),
  paused_providers: List(Text),
  forced_off: List(Text),
  version: NullOr(Text).annotate({ description: "The version of its program; `null` if that is not told." }),
  draining: Flag.annotate({ description: "It shuts down: it claims no more jobs, and finishes those that run." }),
  free: NullOr(Struct({ live: Int, sandbox: Int })).annotate({ description: "Free slots of each mode." }),
  last_claim_at: NullOr(time).annotate({
    description: "When the store last answered one of its claims. It makes none while all of its slots are full.",
  }),
  loop_lag_ms: NullOr(Finite).annotate({ description: "The p99 of its event loop's lag over about ten seconds." }),
}).annotate({ identifier: "Worker", description: "A worker that has published its state within the last half minute." })

const PendingDeliveries = Struct({
  type: Text,
  count: Int,
  repeated: Int,
  oldest_due_seconds: Finite,
}).annotate({ identifier: "PendingDeliveries" })

export const Overview = Struct({
  at: time,
  queue_is_partial: Flag.annotate({ description: "True if more jobs are unfinished than are counted." }),
  queues: List(Queue),
  recent: Recent,
  spending: List(Spending),
  providers: List(Provider),
  workers: List(Worker),
  deliveries: List(PendingDeliveries),
  schedules: Struct({
    count: Int,
    paused: Int,
    due: Int,
    refused: List(Struct({ name: Text, refusal: Text })),
  }),
  switches: Record(Text, Flag),
  paused_types: List(Text),
  findings: NullOr(List(Finding)).annotate({ description: "`null` until the doctor has looked, or without one." }),
}).annotate({ identifier: "Overview" })

export const History = Struct({
  step_seconds: Int,
  deploys: List(Struct({ at: Int, version: Text })).annotate({
    description: "The steps (unix seconds) in which workers of a version appear for the first time within the span.",
  }),
  points: List(
    Struct({
      at: Int.annotate({ description: "Unix seconds." }),
      ready: Int,
      running: Int,
      waiting: Int.annotate({ description: "Delayed and parked jobs, and those between two attempts." }),
      oldest_ready_seconds: Finite,
      done: Int,
      failed: Int,
    }).annotate({ identifier: "HistoryPoint" }),
  ),
  types: Record(
    Text,
    Struct({
      ready: List(Int),
      running: List(Int),
      oldest_ready_seconds: List(Finite),
      done: List(Int),
      failed: List(Int),
    }),
  ).annotate({ description: "The same by type and mode, with a value for each point." }),
}).annotate({ identifier: "History" })

const Job = Struct({
  job_id: Text,
  project_id: Text,
  project_name: NullOr(Text),
  key_id: Text,
  type: Text,
  mode,
  status,
  priority: Schema.Union([Text, Int]),
  attempts: Int,
  failures: Int,
  lost_workers: Int,
  error_code: NullOr(Text),
  warning_code: NullOr(Text),
  data: Literals(["kept", "deleted", "expired"]),
  created_at: time,
  claimable_at: NullOr(time),
  finished_at: NullOr(time),
}).annotate({ identifier: "ListedJob" })

export const JobList = Struct({
  jobs: List(Job),
  next: NullOr(Text).annotate({
    description: "The cursor of the next page. A page may be short, or empty, without being the last.",
  }),
  looked_at: NullOr(Struct({ jobs: Int, back_to: NullOr(time) })).annotate({
    description:
      "With `waiting_for` or `id`, which are decided job by job within a bounded time: how many jobs this response looked at, and how old the last of them is. Go on with `next`.",
  }),
}).annotate({ identifier: "JobList" })

/** Filters of jobs. All given ones must hold. */
export const filterFields = {
  type: Schema.optionalKey(Text),
  status: Schema.optionalKey(status),
  mode: Schema.optionalKey(mode),
  project: Schema.optionalKey(Text.annotate({ description: "A name or an id." })),
  key: Schema.optionalKey(Text),
  tag: Schema.optionalKey(Text),
  error_code: Schema.optionalKey(Text),
  waiting_for: Schema.optionalKey(
    Text.annotate({
      description: "A reason that an unfinished job waits for, such as `switch_off`: queued jobs first.",
    }),
  ),
  id: Schema.optionalKey(
    Text.annotate({
      description:
        "4 or more characters of the job's id. With `job_` in front, they are its beginning, which is found without looking at jobs of other times.",
    }),
  ),
  from: Schema.optionalKey(time.annotate({ description: "Created at this time or later." })),
  to: Schema.optionalKey(time.annotate({ description: "Created before this time." })),
}

export const BulkRequest = Struct({
  filter: Schema.optionalKey(Struct(filterFields)),
  job_ids: Schema.optionalKey(List(Text)),
  dry_run: Flag.annotate({ description: "Only counts the jobs that would be changed." }),
  after: Schema.optionalKey(Text.annotate({ description: "The `next` of the response before." })),
}).annotate({ identifier: "BulkRequest", description: "Selects jobs by ids or by a filter that is not empty." })

export const BulkResult = Struct({
  matched: Int,
  complete: Flag.annotate({ description: "False if a dry run stopped counting." }),
  changed: Int,
  skipped: Int.annotate({ description: "Jobs that another caller, or their own end, was first to change." }),
  refused: List(Struct({ message: Text, count: Int })),
  to: time.annotate({ description: "Only jobs created before this time are selected: pass it on in the filter." }),
  next: NullOr(Text).annotate({ description: "Repeat the request with this as `after` for the rest." }),
}).annotate({ identifier: "BulkResult" })

const Attempt = Struct({
  attempt: Int,
  started_at: time,
  duration_seconds: Finite,
  error_code: Text,
  worker: Text,
}).annotate({ identifier: "FailedAttempt" })

const Wait = Struct({
  first_attempt: Int,
  last_attempt: Int,
  count: Int,
  reason: Text,
  subject: NullOr(Text),
  cause: NullOr(Text),
  first_at: time,
  last_at: time,
}).annotate({ identifier: "Wait" })

const Relative = Struct({
  job_id: Text,
  type: Text,
  status,
  error_code: NullOr(Text),
  step: NullOr(Text),
}).annotate({ identifier: "RelatedJob" })

export const JobDetails = Struct({
  ...Job.fields,
  held: Flag,
  deadline_at: NullOr(time),
  phase_started_at: NullOr(time),
  waited_seconds: Finite,
  ran_seconds: Finite,
  upload_id: NullOr(Text),
  steps: List(Text).annotate({ description: "The finished steps that a retry does not repeat." }),
  progress: NullOr(Finite),
  tags: List(Text),
  files: List(Struct({ name: Text, media_type: Text, bytes: Int })),
  failed_attempts: List(Attempt),
  waits: List(Wait),
  waiting_for: List(WaitingReason),
  charge: NullOr(
    Struct({
      currency: Text,
      amount: Text,
      line_items: List(Struct({ meter: Text, quantity: Finite, unit_amount: Text, amount: Text })),
    }),
  ),
  parent: NullOr(Relative),
  children: List(Relative),
  children_complete: Flag,
}).annotate({ identifier: "JobDetails" })

export const JobContent = Struct({
  request: Schema.Json.annotate({ description: "`null` once its data is gone." }),
  output: Schema.Json.annotate({ description: "`null` before the end, and once its data is gone." }),
  attempts: List(Struct({ attempt: Int, message: Text, stack: NullOr(Text) })),
}).annotate({ identifier: "JobContent", description: "What belongs to the caller, or may quote it." })

const FailureGroup = Struct({
  type: Text,
  error_code: Text,
  message: NullOr(Text).annotate({
    description: "The first line, for callers with the role `content` who ask for it.",
  }),
  count: Int,
  created_from: time.annotate({
    description: "When the first of these jobs was created: a filter from here selects all of them.",
  }),
  first_at: time,
  last_at: time,
  example_job_id: Text,
}).annotate({ identifier: "FailureGroup" })

export const Failures = Struct({
  since: time,
  complete: Flag.annotate({ description: "False if there were more failures than were read: the newest are counted." }),
  groups: List(FailureGroup),
}).annotate({ identifier: "Failures" })

export const Project = Struct({
  project_id: Text,
  name: Text,
  created_at: time,
  disabled_at: NullOr(time),
  concurrency: NullOr(Int).annotate({ description: "Its own limit of running jobs; 0 is none, `null` the settings'." }),
  spending: NullOr(Spending),
}).annotate({ identifier: "Project" })

export const Key = Struct({
  key_id: Text,
  project_id: Text,
  project_name: NullOr(Text),
  name: NullOr(Text),
  mode: Literals(["test", "live"]),
  scopes: List(Text),
  status: Literals(["active", "revoked", "expired"]),
  created_at: time,
  expires_at: NullOr(time),
  last_used_at: NullOr(time),
}).annotate({ identifier: "Key" })

export const Deliveries = Struct({
  pending: List(PendingDeliveries),
  deliveries: List(Struct({ job_id: Text, type: Text, calls: Int, due_at: time })),
}).annotate({ identifier: "Deliveries" })

export const Switch = Struct({ name: Text, on: Flag, forced_off: Flag }).annotate({ identifier: "Switch" })

export const Price = Struct({
  name: Text,
  version: Int,
  active: Flag,
  currency: Text,
  unit_amounts: Record(Text, Text),
  created_at: time,
}).annotate({ identifier: "Price" })

export const AuditEntries = Struct({
  changes: List(
    Struct({
      number: Int,
      at: time,
      actor: Text,
      origin: Text,
      action: Text,
      subject: NullOr(Text),
      details: Schema.Json,
    }).annotate({ identifier: "AuditEntry" }),
  ),
  next: NullOr(Int),
}).annotate({ identifier: "AuditEntries" })

export const Kind = Struct({
  type: Text,
  paused: Flag,
  queues: List(Queue),
  workers: Int,
  limit: NullOr(Int),
  switches: List(Text),
  providers: List(Text),
}).annotate({ identifier: "Kind" })

export const Changed = Struct({ changed: Flag }).annotate({ identifier: "Changed" })

export const Impact = Struct({
  waiting: Int.annotate({ description: "Unfinished jobs that would not start." }),
  is_partial: Flag,
}).annotate({ identifier: "Impact" })
