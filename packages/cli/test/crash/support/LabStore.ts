import { DatabaseSync } from "node:sqlite"
import type { Layer } from "effect"
import { PostgresStores } from "@kiln/adapter-postgres"
import { SqliteStores } from "@kiln/adapter-sqlite"
import type { JobMode, JobStatus } from "@kiln/core/domain"
import type { JobStore, KeyDirectory, Switchboard } from "@kiln/core/ports"
import { freshDatabase, readRows } from "@kiln/postgres-lab"

/** The row of a job, read past every layer of the program. */
export interface JobRow {
  readonly id: string
  readonly mode: JobMode
  readonly status: JobStatus
  readonly held: boolean
  readonly attempts: number
  readonly failures: number
  readonly lostWorkers: number
  readonly errorCode: string | null
  readonly idempotencyKey: string
}

/** A blob as a row names it. */
export interface NamedBlob {
  readonly blobKey: string
  readonly bytes: number
  readonly sha256: string
}

interface Charged {
  readonly jobId: string
}

export interface StoredRows {
  readonly jobs: ReadonlyArray<JobRow>
  readonly charges: ReadonlyArray<Charged>
  readonly named: ReadonlyArray<NamedBlob>
}

/** Where the processes of a lab keep their records. */
export interface LabStore {
  readonly name: "SQLite" | "Postgres"
  /** What tells a process of it. */
  readonly env: Readonly<Record<string, string>>
  readonly layer: Layer.Layer<JobStore | KeyDirectory | Switchboard, unknown>
  /** All rows, in one snapshot: a file and its job's row belong together. */
  readonly rows: () => Promise<StoredRows>
  /** Removes what the data directory does not hold. */
  readonly dispose: () => Promise<void>
}

/** Makes the store of a lab, whose data directory is there. */
export type MakeStore = (dataDirectory: string) => LabStore | Promise<LabStore>

const charges = 'SELECT job_id AS "jobId" FROM charges'
const named =
  'SELECT blob_key AS "blobKey", bytes, sha256 FROM files UNION ALL SELECT blob_key, bytes, sha256 FROM uploads WHERE blob_key IS NOT NULL'

const inFile = (sql: string): string => sql.replaceAll(/ FROM (\w+)/g, " FROM kiln_$1")

export const sqliteStore = (dataDirectory: string): LabStore => {
  const path = `${dataDirectory}/kiln.db`
  return {
    name: "SQLite",
    env: {},
    layer: SqliteStores.layer({ path }),
    rows: async () => {
      using database = new DatabaseSync(path, { readOnly: true, timeout: 5_000 })
      const all = <Row>(sql: string) => JSON.parse(JSON.stringify(database.prepare(sql).all())) as ReadonlyArray<Row>
      database.exec("BEGIN")
      const jobs = all<Omit<JobRow, "held"> & { readonly held: number }>(
        'SELECT id, mode, status, held, attempts, failures, lost_workers AS "lostWorkers", error_code AS "errorCode", idempotency_key AS "idempotencyKey" FROM kiln_jobs ORDER BY seq',
      )
      return {
        jobs: jobs.map((row) => ({ ...row, held: row.held === 1 })),
        charges: all<Charged>(inFile(charges)),
        named: all<NamedBlob>(inFile(named)),
      }
    },
    dispose: async () => undefined,
  }
}

const inKiln = (sql: string): string => sql.replaceAll(/ FROM (\w+)/g, ' FROM "kiln".$1')

/** The state of an unfinished job is in the queue, that of a finished one in its result. */
const jobsInKiln = `
  SELECT j.id, j.mode, coalesce(r.status, q.status) AS status, coalesce(q.held, false) AS held,
         coalesce(r.attempts, q.attempts)::int AS attempts, coalesce(r.failures, q.failures)::int AS failures,
         coalesce(r.lost_workers, q.lost_workers)::int AS "lostWorkers", r.error_code AS "errorCode",
         j.idempotency_key AS "idempotencyKey"
    FROM "kiln".jobs j LEFT JOIN "kiln".queue q ON q.id = j.id LEFT JOIN "kiln".results r ON r.job_seq = j.seq ORDER BY j.seq`

/** Of a server that is somebody else's. */
export const postgresStore =
  (url: string, dispose: () => Promise<void> = async () => undefined): MakeStore =>
  () => ({
    name: "Postgres",
    env: { DATABASE_URL: url },
    layer: PostgresStores.layer({ url, poolSize: 2, notifications: false }),
    rows: async () => {
      const [jobs, charged, blobs] = await readRows<
        [ReadonlyArray<JobRow>, ReadonlyArray<Charged>, ReadonlyArray<Omit<NamedBlob, "bytes"> & { bytes: string }>]
      >(url, [jobsInKiln, inKiln(charges), inKiln(named)])
      return { jobs, charges: charged, named: blobs.map((blob) => ({ ...blob, bytes: Number(blob.bytes) })) }
    },
    dispose,
  })

/** A separate database on the server that all tests share. */
const freshPostgresStore: MakeStore = async (dataDirectory) => {
  const { dispose, url } = await freshDatabase()
  return postgresStore(url, dispose)(dataDirectory)
}

/** What tests of both stores are run with. */
export const makeStores = [
  { name: "SQLite", makeStore: sqliteStore },
  { name: "Postgres", makeStore: freshPostgresStore },
] as const satisfies ReadonlyArray<{ readonly name: LabStore["name"]; readonly makeStore: MakeStore }>
