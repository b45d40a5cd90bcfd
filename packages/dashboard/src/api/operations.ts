import * as Schema from "effect/Schema"
import type { OperatorRole } from "@kiln/core/ports"
import * as S from "./schemas.ts"

/** An operation of the operator's API. Routes, checks, the OpenAPI document and the page's types are derived from it. */
export interface Operation {
  readonly method: "GET" | "POST"
  /** Below `/admin/v1`, with at most one `:id`. */
  readonly path: string
  /** The role that a caller needs. */
  readonly role: OperatorRole
  readonly summary: string
  readonly query: Schema.Struct<Schema.Struct.Fields>
  readonly payload: Schema.Top
  readonly success: Schema.Top
  /** The equivalent command, where there is one. */
  readonly command?: string
}

const nothing = Schema.Struct({})
const newStart = Schema.Struct({
  run_at: Schema.optionalKey(
    Schema.String.annotate({
      description: "RFC 3339, at most 366 days from now. A time that has passed means now. Without it, the time stays.",
    }),
  ),
  priority: Schema.optionalKey(
    Schema.Union([Schema.String, Schema.Int]).annotate({
      description: "A name (low, normal, high, urgent), or an integer from -5 to 5. Without it, the priority stays.",
    }),
  ),
}).annotate({ identifier: "NewStart" })
const retry = Schema.Struct({
  request: Schema.optionalKey(
    Schema.Json.annotate({
      description:
        "The request of the new job, instead of that of the failed one, at most 64 KB. It must name the same upload. All steps and children run again.",
    }),
  ),
}).annotate({ identifier: "Retry" })
const time = Schema.String.annotate({ description: "RFC 3339, UTC." })

const schedule = Schema.Struct({
  name: Schema.String,
  type: Schema.String,
  mode: Schema.Literals(["sandbox", "live"]),
  project_id: Schema.String,
  timing: Schema.String,
  paused: Schema.Boolean,
  next_at: Schema.NullOr(time),
  last_at: Schema.NullOr(time),
  last_job_id: Schema.NullOr(Schema.String),
  refusal: Schema.NullOr(Schema.String),
  overlap: Schema.Literals(["allow", "skip", "queue"]),
  ends_at: Schema.NullOr(time),
  waits: Schema.Boolean.annotate({ description: "The job of the current tick waits until the last one has finished." }),
  skipped: Schema.Int.annotate({ description: "Ticks that got no job." }),
  last_skipped_at: Schema.NullOr(time),
}).annotate({ identifier: "Schedule" })

const scheduleRun = Schema.Struct({
  job_id: Schema.String,
  deduplicated: Schema.Boolean.annotate({ description: "An unfinished job was returned; no other was submitted." }),
}).annotate({ identifier: "ScheduleRun" })
const query = <const Fields extends Schema.Struct.Fields>(fields: Fields) => Schema.Struct(fields)
const limit = Schema.optionalKey(Schema.FiniteFromString.annotate({ description: "1 to 200, 50 by default." }))

const get = <const Path extends string, const Q extends Schema.Struct.Fields, const R extends Schema.Top>(
  path: Path,
  summary: string,
  success: R,
  fields: Q,
  role: OperatorRole = "view",
) => ({ method: "GET" as const, path, summary, role, query: query(fields), payload: nothing, success })

const post = <const Path extends string, const P extends Schema.Top, const R extends Schema.Top>(
  path: Path,
  summary: string,
  payload: P,
  success: R,
  command?: string,
) => ({
  method: "POST" as const,
  path,
  summary,
  role: "operate" as const,
  query: nothing,
  payload,
  success,
  ...(command !== undefined && { command }),
})

const spanQuery = { span: Schema.optionalKey(Schema.Literals(["1h", "24h"])) }

/** All operations, by name. A change is always a POST that needs the role `operate`. */
export const operations = {
  session: get("/session", "Tell who the caller is and what it may do", S.Session, {}),
  overview: get("/overview", "Show the state of the installation", S.Overview, {}),
  history: get("/history", "Show figures by minute", S.History, spanQuery),
  listJobs: get("/jobs", "List jobs, newest first", S.JobList, {
    ...S.filterFields,
    after: Schema.optionalKey(Schema.String),
    limit,
  }),
  readJob: get("/jobs/:id", "Show one job, without its caller's data", S.JobDetails, {}),
  readContent: get(
    "/jobs/:id/content",
    "Show a job's request, result and error messages; recorded in the audit log",
    S.JobContent,
    {},
    "content",
  ),
  cancelJob: post("/jobs/:id/cancel", "Cancel an unfinished job", nothing, S.Changed, "kiln job cancel ID"),
  retryJob: post(
    "/jobs/:id/retry",
    "Retry a failed job as a new one, with the same or a changed request",
    retry,
    Schema.Struct({ job_id: Schema.String, replayed: Schema.Boolean }),
    "kiln job retry ID",
  ),
  promoteJob: post(
    "/jobs/:id/promote",
    "Let a job that waits for its start or its next attempt start now",
    nothing,
    S.Changed,
    "kiln job promote ID",
  ),
  rescheduleJob: post(
    "/jobs/:id/reschedule",
    "Change when a waiting job may start, or its priority",
    newStart,
    S.Changed,
    "kiln job reschedule ID --at TIME",
  ),
  cancelJobs: post(
    "/bulk/cancel",
    "Cancel the unfinished jobs that match",
    S.BulkRequest,
    S.BulkResult,
    "kiln job cancel",
  ),
  promoteJobs: post(
    "/bulk/promote",
    "Promote the jobs that match and wait for their start or their next attempt",
    S.BulkRequest,
    S.BulkResult,
    "kiln job promote",
  ),
  retryJobs: post("/bulk/retry", "Retry the failed jobs that match", S.BulkRequest, S.BulkResult, "kiln job retry"),
  failures: get("/failures", "Group the jobs that failed within an hour or a day", S.Failures, spanQuery),
  failureMessages: get(
    "/failures/messages",
    "Group failed jobs by message too, which may quote a request; recorded in the audit log",
    S.Failures,
    spanQuery,
    "content",
  ),
  listKinds: get("/types", "List job types", Schema.Array(S.Kind), {}),
  pauseKind: post("/types/:id/pause", "Pause a job type", nothing, S.Changed, "kiln queue pause ID"),
  resumeKind: post("/types/:id/resume", "Resume a paused job type", nothing, S.Changed, "kiln queue resume ID"),
  listProjects: get("/projects", "List projects", Schema.Array(S.Project), {}),
  disableProject: post(
    "/projects/:id/disable",
    "Reject the keys of a project",
    nothing,
    S.Changed,
    "kiln project disable ID",
  ),
  enableProject: post(
    "/projects/:id/enable",
    "Accept the keys of a project again",
    nothing,
    S.Changed,
    "kiln project enable ID",
  ),
  limitProject: post(
    "/projects/:id/limit",
    "Limit the running jobs of a project",
    Schema.Struct({ concurrency: Schema.NullOr(Schema.Int) }),
    S.Changed,
    "kiln project limit ID --concurrency N",
  ),
  capProject: post(
    "/projects/:id/cap",
    "Cap the spending of a project",
    Schema.Struct({
      currency: Schema.String,
      day: Schema.NullOr(Schema.String),
      month: Schema.NullOr(Schema.String),
    }),
    S.Changed,
    "kiln project cap ID --day AMOUNT",
  ),
  listKeys: get("/keys", "List API keys, without their secrets", Schema.Array(S.Key), {}),
  revokeKey: post("/keys/:id/revoke", "Revoke an API key", nothing, S.Changed, "kiln key revoke ID"),
  listSchedules: get("/schedules", "List schedules", Schema.Array(schedule), {}),
  runSchedule: post(
    "/schedules/:id/run",
    "Submit a job of a schedule now",
    nothing,
    scheduleRun,
    "kiln schedule run ID",
  ),
  pauseSchedule: post("/schedules/:id/pause", "Pause a schedule", nothing, S.Changed, "kiln schedule pause ID"),
  resumeSchedule: post("/schedules/:id/resume", "Resume a schedule", nothing, S.Changed, "kiln schedule resume ID"),
  removeSchedule: post("/schedules/:id/remove", "Remove a schedule", nothing, S.Changed, "kiln schedule remove ID"),
  listDeliveries: get("/deliveries", "List deliveries that are not confirmed yet", S.Deliveries, {}),
  listSwitches: get("/switches", "List switches", Schema.Array(S.Switch), {}),
  switchImpact: get("/switches/:id/impact", "Count the jobs that need a switch", S.Impact, {}),
  turnOn: post("/switches/:id/on", "Turn a switch on", nothing, S.Changed, "kiln switch on ID"),
  turnOff: post("/switches/:id/off", "Turn a switch off", nothing, S.Changed, "kiln switch off ID"),
  listPrices: get("/prices", "List all versions of all prices", Schema.Array(S.Price), {}),
  activatePrice: post("/prices/:id/activate", "Activate a price", nothing, S.Changed, "kiln price activate ID"),
  deactivatePrice: post("/prices/:id/deactivate", "Deactivate a price", nothing, S.Changed, "kiln price deactivate ID"),
  listAudit: get("/audit", "List administrative changes, newest first", S.AuditEntries, {
    after: Schema.optionalKey(Schema.FiniteFromString),
    limit,
  }),
} satisfies Readonly<Record<string, Operation>>

type Operations = typeof operations
export type OperationName = keyof Operations

/** The input of an operation, decoded. */
export interface InputOf<Name extends OperationName> {
  /** The path's `:id`; empty without one. */
  readonly id: string
  readonly query: Operations[Name]["query"]["Type"]
  readonly payload: Operations[Name]["payload"]["Type"]
}

/** The body of the response to an operation. */
export type ResultOf<Name extends OperationName> = Operations[Name]["success"]["Type"]

/** The method and the path of an operation, such as `GET /jobs/:id`. */
export type RouteOf<Name extends OperationName> = `${Operations[Name]["method"]} ${Operations[Name]["path"]}`
