import type { Generated } from "kysely"
import type {
  AudioFormat,
  ErrorCode,
  FileId,
  JobId,
  JobMode,
  JobStatus,
  KeyId,
  KeyMode,
  ProjectId,
  RetainedData,
  SpendOwner,
  UploadId,
  WaitReason,
  WarningCode,
} from "@kiln/core/domain"

/** A boolean, as SQLite stores it. */
export type Flag = 0 | 1
/** A JSON text. */
export type JsonText = string

declare const valueType: unique symbol

/** A column as `PRAGMA table_info` describes it; `optional` means that an INSERT may leave it out. */
interface Column<Value, Optional extends boolean = boolean> {
  readonly type: "INTEGER" | "REAL" | "TEXT" | "BLOB"
  readonly nullable: boolean
  readonly optional: Optional
  readonly [valueType]?: Value
}

const integer = <Value extends number = number>(): Column<Value, false> => ({
  type: "INTEGER",
  nullable: false,
  optional: false,
})
const real = (): Column<number, false> => ({ type: "REAL", nullable: false, optional: false })
const text = <Value extends string = string>(): Column<Value, false> => ({
  type: "TEXT",
  nullable: false,
  optional: false,
})
const json = (): Column<JsonText, false> => text()
const blob = (): Column<Uint8Array, false> => ({ type: "BLOB", nullable: false, optional: false })
const nullable = <Value>(column: Column<Value, false>): Column<Value | null, true> => ({
  ...column,
  nullable: true,
  optional: true,
})
/** SQLite or the schema provides a value if an INSERT leaves the column out. */
const generated = <Value>(column: Column<Value, false>): Column<Value, true> => ({ ...column, optional: true })

/**
 * Every column of the schema. Row types, the types of statement parameters, select lists and table names are derived from this
 * declaration, and a test compares it with the migrated schema. The table names here lack the prefix of `tablePrefix`.
 */
export const columns = {
  lanes: {
    id: generated(integer()),
    project_id: text<ProjectId>(),
    kind: text(),
    kind_version: integer(),
    mode: text<JobMode>(),
    virtual_time: generated(integer()),
    next_at: nullable(integer()),
    ranks: generated(integer()),
  },
  fairness: { id: generated(integer<1>()), virtual_time: integer() },
  jobs: {
    seq: generated(integer()),
    id: text<JobId>(),
    lane_id: integer(),
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
    status: text<JobStatus>(),
    token: integer(),
    held: integer<Flag>(),
    claimable_at: nullable(integer()),
    deadline_at: nullable(integer()),
    phase_started_at: nullable(integer()),
    ran_ms: integer(),
    waited_ms: integer(),
    attempts: integer(),
    failures: integer(),
    lost_workers: integer(),
    finished_at: nullable(integer()),
    error_code: nullable(text<ErrorCode>()),
    warning_code: nullable(text<WarningCode>()),
    retained: generated(text<RetainedData>()),
    charge: nullable(json()),
    output: nullable(json()),
    request: nullable(json()),
  },
  job_labels: { label: text(), job_seq: integer() },
  job_scopes: { scope: text(), job_seq: integer() },
  job_data: { job_seq: integer(), request: json() },
  checkpoints: { job_seq: integer(), step: text(), value: json() },
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
  store_time: { id: integer<1>(), latest: integer() },
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
    erased: generated(integer<Flag>()),
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
  secrets: { name: text(), value: blob() },
  audit: {
    number: generated(integer()),
    at: integer(),
    actor: text(),
    origin: text(),
    action: text(),
    subject: nullable(text()),
    details: json(),
  },
  switches: { name: text(), enabled: integer<Flag>() },
  paused_kinds: { kind: text() },
  project_limits: { project_id: text<ProjectId>(), concurrency: integer() },
  prices: {
    id: generated(integer()),
    name: text(),
    version: integer(),
    currency: text(),
    unit_amounts: json(),
    active: integer<Flag>(),
    created_at: integer(),
  },
  workers: { worker_id: text(), live_kinds: json(), live_until: integer(), providers: json(), scope: nullable(json()) },
  blob_lineage: { id: integer<1>(), version: integer(), document: json() },
  served_kinds: { kind: text(), served_at: integer() },
  deliveries: { job_id: text<JobId>(), kind: text(), due_at: integer(), attempts: integer(), token: integer() },
  schedules: { name: text(), version: integer(), next_at: nullable(integer()), document: json() },
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

/** The prefix of kiln's table names, since the file may be shared with a program that has tables of its own. */
export const tablePrefix = "kiln_"

/** Takes a name without the prefix. */
export const isTable = (name: string): boolean => Object.hasOwn(columns, name)

type Columns = typeof columns
export type Table = keyof Columns
export type ColumnOf<T extends Table> = keyof Columns[T] & string
type ValueOf<C> = C extends Column<infer Value> ? Value : never

/** The schema as Kysely sees it. `charges` is written by a trigger. */
export type Tables = {
  readonly [T in Table]: {
    readonly [C in ColumnOf<T>]: Columns[T][C] extends Column<infer Value, infer Optional>
      ? true extends Optional
        ? Generated<Value>
        : Value
      : never
  }
}

type Camel<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<Camel<Tail>>}`
  : Name

/** Values of columns under their names in TypeScript: `Values<"jobs", "lane_id">` is `{ readonly laneId: number }`. */
export type Values<T extends Table, C extends ColumnOf<T>> = {
  readonly [Name in C as Camel<Name>]: ValueOf<Columns[T][Name]>
}

/** The same values under the names of the columns, as a table has them. */
export type Row<T extends Table, C extends ColumnOf<T>> = { readonly [Name in C]: ValueOf<Columns[T][Name]> }

type Selection<T extends Table, C extends string> = `${T}.${C} as ${Camel<C>}`

/** Returns the name of a column in TypeScript. */
export const camel = (name: string): string => name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase())

/** A select list: `select("jobs", "lane_id")` is `["jobs.lane_id as laneId"]`. */
export const select = <T extends Table, const C extends ReadonlyArray<ColumnOf<T>>>(
  table: T,
  ...names: C
): { readonly [I in keyof C]: Selection<T, C[I]> } =>
  names.map((name) => `${table}.${name} as ${camel(name)}`) as { readonly [I in keyof C]: Selection<T, C[I]> }

/** Picks the parameters of columns for an INSERT or UPDATE, under the names of the columns. */
export const assign = <Given extends object, const C extends ReadonlyArray<string>>(
  given: Given,
  ...names: C
): { readonly [Name in C[number]]: Camel<Name> extends keyof Given ? Given[Camel<Name>] : never } =>
  Object.fromEntries(names.map((name) => [name, Reflect.get(given, camel(name)) as unknown])) as {
    readonly [Name in C[number]]: Camel<Name> extends keyof Given ? Given[Camel<Name>] : never
  }
