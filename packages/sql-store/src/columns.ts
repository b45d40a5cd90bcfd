import type { ColumnType } from "kysely"
import type {
  AudioFormat,
  ErrorCode,
  FileId,
  JobId,
  JobMode,
  KeyId,
  KeyMode,
  RetainedData,
  WarningCode,
  ProjectId,
  SpendOwner,
  UploadId,
  WaitReason,
} from "@kiln/core/domain"
import type { ParkReason } from "@kiln/core/rules"
import type { OperatorToken } from "@kiln/core/ports"

export type JsonText = string

/** A boolean as a row has it: `true` and `false` on Postgres, 1 and 0 on SQLite. */
export type Flag = boolean | 0 | 1

declare const valueType: unique symbol
declare const isFlag: unique symbol

/** Marks the columns whose values are booleans. */
export interface AnyFlag {
  readonly [isFlag]: true
}

/** A column of both databases; `optional` means that an INSERT may leave it out. */
export interface Column<Value, Optional extends boolean = boolean> {
  readonly type: "integer" | "real" | "text" | "bytes" | "flag"
  readonly nullable: boolean
  readonly optional: Optional
  readonly [valueType]?: Value
}

const required = <Value>(type: Column<Value>["type"]): Column<Value, false> => ({
  type,
  nullable: false,
  optional: false,
})

export const integer = <Value extends number = number>() => required<Value>("integer")
export const real = () => required<number>("real")
export const text = <Value extends string = string>() => required<Value>("text")
export const json = () => required<JsonText>("text")
export const bytes = () => required<Uint8Array>("bytes")
export const flag = () => required<AnyFlag>("flag")

export const nullable = <Value>(column: Column<Value, false>): Column<Value | null, true> => ({
  ...column,
  nullable: true,
  optional: true,
})

/** The database or the schema provides a value if an INSERT leaves the column out. */
export const generated = <Value>(column: Column<Value>): Column<Value, true> => ({ ...column, optional: true })

/** Tables and their columns, as a value. */
export type Declared = Readonly<Record<string, Readonly<Record<string, Column<unknown>>>>>

export type ColumnOf<D extends Declared, T extends keyof D> = keyof D[T] & string

/** The value of a column; `F` is the type of booleans. */
export type ValueOf<C, F> = C extends Column<infer Value> ? (Value extends AnyFlag ? F : Value) : never

/** The type that Kysely reads, inserts and updates. A flag that is read as `F` is written as a boolean, except where `F` is narrower. */
type Stored<C, F> =
  C extends Column<infer Value, infer Optional>
    ? Value extends AnyFlag
      ? ColumnType<F, Written<F> | Left<Optional>, Written<F>>
      : ColumnType<Value, Value | Left<Optional>, Value>
    : never

type Written<F> = true extends F ? Extract<F, boolean> : F
type Left<Optional> = true extends Optional ? undefined : never

/** The schema as Kysely sees it. */
export type TablesOf<D extends Declared, F> = {
  readonly [T in keyof D & string]: { readonly [C in ColumnOf<D, T>]: Stored<D[T][C], F> }
}

type Camel<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<Camel<Tail>>}`
  : Name

/** Values of columns under their names in TypeScript: of `lane_id`, it is `{ readonly laneId: number }`. */
export type ValuesOf<D extends Declared, T extends keyof D, C extends ColumnOf<D, T>, F> = {
  readonly [Name in C as Camel<Name>]: ValueOf<D[T][Name], F>
}

/** The same values under the names of the columns, as a table has them. */
export type RowsOf<D extends Declared, T extends keyof D, C extends ColumnOf<D, T>, F> = {
  readonly [Name in C]: ValueOf<D[T][Name], F>
}

type Selection<T extends string, C extends string> = `${T}.${C} as ${Camel<C>}`

/** Returns the name of a column in TypeScript. */
export const camel = (name: string): string => name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase())

/** Returns a function that makes select lists: of `("jobs", "lane_id")`, `["jobs.lane_id as laneId"]`. */
export const selectOf =
  <D extends Declared>() =>
  <T extends keyof D & string, const C extends ReadonlyArray<ColumnOf<D, T>>>(
    table: T,
    ...names: C
  ): { readonly [I in keyof C]: Selection<T, C[I]> } =>
    names.map((name) => `${table}.${name} as ${camel(name)}`) as { readonly [I in keyof C]: Selection<T, C[I]> }

/** Returns a function that declares the fields of items: of `("lanes", "next_at")`, `{ nextAt: nullable(integer()) }`. */
export const fieldsIn =
  <D extends Declared>(declared: D) =>
  <T extends keyof D & string, const C extends ReadonlyArray<ColumnOf<D, T>>>(
    table: T,
    ...names: C
  ): { readonly [Name in C[number] as Camel<Name>]: D[T][Name] } =>
    Object.fromEntries(names.map((name) => [camel(name), declared[table]?.[name]])) as never

/** Picks the parameters of columns for an INSERT or UPDATE, under the names of the columns. */
export const assign = <Given extends object, const C extends ReadonlyArray<string>>(
  given: Given,
  ...names: C
): { readonly [Name in C[number]]: Camel<Name> extends keyof Given ? Given[Camel<Name>] : never } =>
  Object.fromEntries(names.map((name) => [name, Reflect.get(given, camel(name)) as unknown])) as {
    readonly [Name in C[number]]: Camel<Name> extends keyof Given ? Given[Camel<Name>] : never
  }

/**
 * The columns that both databases have. Row types, the types of statement parameters, and select lists are derived from this
 * declaration. An adapter adds its own tables and columns, and a test compares the result with the migrated schema.
 */
export const columns = {
  jobs: {
    seq: generated(integer()),
    id: text<JobId>(),
    project_id: text<ProjectId>(),
    key_id: text<KeyId>(),
    mode: text<JobMode>(),
    kind: text(),
    kind_version: integer(),
    priority: integer(),
    kept: json(),
    upload_id: nullable(text<UploadId>()),
    idempotency_key: text(),
    fingerprint: text(),
    price_id: nullable(integer()),
    created_at: integer(),
    queue_limit_ms: integer(),
    run_limit_ms: integer(),
    request: nullable(json()),
  },
  lanes: {
    id: generated(integer()),
    project_id: text<ProjectId>(),
    kind: text(),
    kind_version: integer(),
    mode: text<JobMode>(),
    virtual_time: generated(integer()),
    next_at: nullable(integer()),
  },
  fairness: { id: generated(integer<1>()), virtual_time: integer() },
  job_labels: { label: text(), job_seq: integer() },
  job_scopes: { scope: text(), job_seq: integer() },
  /** Idempotency keys of requests that were replaced. */
  replaced_keys: { key_id: text<KeyId>(), idempotency_key: text(), fingerprint: text(), job_seq: integer() },
  checkpoints: { step: text(), value: json() },
  attempts: {
    job_seq: integer(),
    number: integer(),
    error_code: text<ErrorCode>(),
    message: text(),
    stack: nullable(text()),
    started_at: integer(),
    duration_ms: integer(),
    worker: text(),
  },
  waits: {
    job_seq: integer(),
    first_attempt: integer(),
    last_attempt: integer(),
    count: integer(),
    reason: text<WaitReason>(),
    subject: nullable(text()),
    cause: nullable(text()),
    first_at: integer(),
    last_at: integer(),
  },
  parked: {
    job_seq: integer(),
    token: integer(),
    reason: text<ParkReason>(),
    subject: text(),
    unfinished: integer(),
    parked_at: integer(),
  },
  signals: { job_seq: integer(), name: text(), value: json(), at: integer() },
  chunks: { job_seq: integer(), position: integer(), attempt: integer(), value: json() },
  files: {
    seq: generated(integer()),
    id: text<FileId>(),
    job_seq: integer(),
    name: text(),
    blob_key: text(),
    media_type: text(),
    bytes: integer(),
    sha256: text(),
  },
  charges: {
    job_id: text<JobId>(),
    project_id: text<ProjectId>(),
    key_id: text<KeyId>(),
    kind: text(),
    currency: text(),
    amount: text(),
    line_items: json(),
    charged_at: integer(),
  },
  closed_ledger: { id: integer<1>(), closed_until: integer() },
  purges: {
    id: generated(integer()),
    blob_prefix: text(),
    recorded_at: integer(),
    failures: generated(integer()),
    due_at: generated(integer()),
  },
  retention_rules: {
    kind: text(),
    publisher: text(),
    program: text(),
    data_ms: nullable(integer()),
    jobs_ms: nullable(integer()),
    live_until: integer(),
  },
  uploads: {
    seq: generated(integer()),
    id: text<UploadId>(),
    project_id: text<ProjectId>(),
    key_id: text<KeyId>(),
    mode: text<JobMode>(),
    format: text<AudioFormat>(),
    declared_seconds: real(),
    created_at: integer(),
    expires_at: integer(),
    usable_until: integer(),
    token: integer(),
    claimed_until: nullable(integer()),
    transfers: integer(),
    blob_key: nullable(text()),
    bytes: nullable(integer()),
    sha256: nullable(text()),
    erased: generated(flag()),
    sweep_at: nullable(integer()),
    reserved_bytes: nullable(integer()),
  },
  kept_bytes: { project_id: text<ProjectId>(), mode: text<JobMode>(), uploads: integer(), files: integer() },
  projects: {
    seq: generated(integer()),
    id: text<ProjectId>(),
    name: text(),
    created_at: integer(),
    disabled_at: nullable(integer()),
  },
  api_keys: {
    seq: generated(integer()),
    id: text<KeyId>(),
    project_id: text<ProjectId>(),
    mode: text<KeyMode>(),
    scopes: json(),
    name: nullable(text()),
    limits: nullable(json()),
    created_at: integer(),
    expires_at: nullable(integer()),
    revoked_at: nullable(integer()),
    last_used_at: nullable(integer()),
  },
  key_secrets: {
    secret_hash: text(),
    key_id: text<KeyId>(),
    created_at: integer(),
    valid_until: nullable(integer()),
  },
  secrets: { name: text(), value: bytes() },
  audit: {
    number: generated(integer()),
    at: integer(),
    actor: text(),
    origin: text(),
    action: text(),
    subject: nullable(text()),
    details: json(),
  },
  switches: { name: text(), enabled: flag() },
  paused_kinds: { kind: text() },
  project_limits: { project_id: text<ProjectId>(), concurrency: integer() },
  prices: {
    id: generated(integer()),
    name: text(),
    version: integer(),
    currency: text(),
    unit_amounts: json(),
    active: flag(),
    created_at: integer(),
  },
  workers: { worker_id: text(), live_kinds: json(), live_until: integer(), providers: json(), scope: nullable(json()) },
  blob_lineage: { id: integer<1>(), version: integer(), document: json() },
  served_kinds: { kind: text(), served_at: integer() },
  deliveries: { job_id: text<JobId>(), kind: text(), due_at: integer(), attempts: integer(), token: integer() },
  schedules: { name: text(), version: integer(), next_at: nullable(integer()), document: json() },
  operator_tokens: {
    seq: generated(integer()),
    id: text<OperatorToken["id"]>(),
    name: text(),
    roles: json(),
    secret_hash: text(),
    created_at: integer(),
    expires_at: nullable(integer()),
    revoked_at: nullable(integer()),
  },
  minutes: { at: integer(), figures: json() },
  rate_buckets: { bucket: text(), state: json(), full_at: integer() },
  spend_caps: { owner: text<SpendOwner>(), currency: text(), day: nullable(text()), month: nullable(text()) },
  spending: {
    owner: text<SpendOwner>(),
    entry: text(),
    currency: text(),
    amount: text(),
    charged_at: nullable(integer()),
  },
} as const

/** How far a job has come. */
export const progressColumns = {
  token: integer(),
  ran_ms: integer(),
  waited_ms: integer(),
  attempts: integer(),
  failures: integer(),
  lost_workers: integer(),
} as const

/** How a job ended. */
export const endColumns = {
  error_code: nullable(text<ErrorCode>()),
  warning_code: nullable(text<WarningCode>()),
  retained: generated(text<RetainedData>()),
  charge: nullable(json()),
  output: nullable(json()),
} as const

/** The columns of a job that name its lane. */
export const laneNames = ["project_id", "kind", "kind_version", "mode"] as const

/** The columns of a job that its creation sets, besides its times, as every reader of a job selects them. */
export const submittedNames = [
  ...laneNames,
  "key_id",
  "upload_id",
  "priority",
  "kept",
  "idempotency_key",
  "fingerprint",
] as const

const timeNames = ["claimable_at", "deadline_at", "phase_started_at", "ran_ms", "waited_ms"] as const

/** The columns that moves of an unfinished job change: of `jobs` on SQLite, of `queue` on Postgres. */
export const stateNames = ["status", "token", "held", ...timeNames, "attempts", "failures", "lost_workers"] as const

export type Table = keyof typeof columns

/** The common part of the schema as Kysely sees it. `charges` is written by a trigger. */
export type Tables = TablesOf<typeof columns, Flag>

/** Values of columns under their names in TypeScript: `Values<"deliveries", "due_at">` is `{ readonly dueAt: number }`. */
export type Values<T extends Table, C extends ColumnOf<typeof columns, T>> = ValuesOf<typeof columns, T, C, boolean>

/** A select list: `select("deliveries", "due_at")` is `["deliveries.due_at as dueAt"]`. */
export const select = selectOf<typeof columns>()

export const fieldsFrom = fieldsIn(columns)
