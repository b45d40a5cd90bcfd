import { readdirSync, readFileSync, utimesSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { blobFile, keyOfBlobFile } from "../../support/blobFiles.ts"
import { databaseOf } from "./embedded.ts"
import { sha256Of } from "./speech.ts"

// A second look at a data directory, which shares no code with what it judges: Node's own SQLite and the bytes of files.

export interface JobRecord {
  readonly seq: number
  readonly id: string
  readonly idempotency_key: string
  readonly mode: string
  readonly kind: string
  readonly status: string
  readonly retained: string
  readonly attempts: number
  readonly failures: number
  readonly lost_workers: number
  readonly error_code: string | null
}

export interface BlobRecord {
  readonly owner: string
  readonly blob_key: string
  readonly bytes: number
  readonly sha256: string
}

/** All records, read at one moment. */
export interface Records {
  readonly integrity: ReadonlyArray<string>
  readonly jobs: ReadonlyArray<JobRecord>
  /** What committed rows say about blobs. */
  readonly blobs: ReadonlyArray<BlobRecord>
  readonly purges: ReadonlyArray<string>
  readonly charged: ReadonlyArray<string>
}

/** No process may have it open. `undefined` before there is a schema. */
export const readRecords = (directory: string): Records | undefined => {
  const database = new DatabaseSync(databaseOf(directory))
  const all = <Row>(sql: string): ReadonlyArray<Row> => {
    const rows: ReadonlyArray<unknown> = database.prepare(sql).all()
    return rows as ReadonlyArray<Row>
  }
  try {
    const integrity = [
      ...all<{ integrity_check: string }>("PRAGMA integrity_check").map((row) => row.integrity_check),
      ...all<{ table: string }>("PRAGMA foreign_key_check").map((row) => `foreign key of ${row.table}`),
    ]
    if (all("SELECT 1 FROM sqlite_schema WHERE name = 'kiln_jobs'").length === 0) return undefined
    return {
      integrity: integrity.filter((line) => line !== "ok"),
      jobs: all("SELECT * FROM kiln_jobs ORDER BY seq"),
      blobs: all(
        `SELECT kiln_jobs.id AS owner, blob_key, bytes, sha256 FROM kiln_files JOIN kiln_jobs ON kiln_jobs.seq = job_seq
         UNION ALL SELECT id, blob_key, bytes, sha256 FROM kiln_uploads WHERE blob_key IS NOT NULL`,
      ),
      purges: all<{ blob_prefix: string }>("SELECT blob_prefix FROM kiln_purges").map((row) => row.blob_prefix),
      charged: all<{ job_id: string }>("SELECT job_id FROM kiln_charges").map((row) => row.job_id),
    }
  } finally {
    database.close()
  }
}

const footerBytes = 64

const below = (directory: string): ReadonlyArray<string> => {
  try {
    return readdirSync(directory, { recursive: true, withFileTypes: true }).flatMap((entry) =>
      entry.isFile() ? [join(entry.parentPath, entry.name)] : [],
    )
  } catch {
    return []
  }
}

/** The keys of all blobs of jobs and uploads; the mark of the installation and its lineage are neither. */
export const blobKeys = (directory: string): ReadonlyArray<string> => {
  const root = join(directory, "blobs")
  return below(root)
    .map((path) => keyOfBlobFile(path.slice(root.length + 1)))
    .filter((key) => /^(jobs|uploads)\//.test(key))
    .toSorted()
}

export const temporaryFiles = (directory: string): ReadonlyArray<string> => below(join(directory, "tmp"))

/** Makes what a killed process left look as old as it must be to count as abandoned. */
export const ageTemporaryFiles = (directory: string): void => {
  const twoHoursAgo = Date.now() / 1_000 - 7_200
  for (const path of temporaryFiles(directory)) utimesSync(path, twoHoursAgo, twoHoursAgo)
}

/** What committed rows say about blobs and is not so: each must be there, as long and with the digest that the row names. */
export const brokenPromises = (directory: string, blobs: ReadonlyArray<BlobRecord>): ReadonlyArray<string> =>
  blobs.flatMap(({ blob_key, bytes, owner, sha256 }) => {
    const path = blobFile(directory, blob_key)
    let file: Uint8Array
    try {
      file = readFileSync(path)
    } catch {
      return [`${owner} names ${blob_key}, which is missing`]
    }
    if (file.length !== bytes + footerBytes) return [`${blob_key} of ${owner} is short`]
    return sha256Of(file.subarray(0, bytes)) === sha256 ? [] : [`${blob_key} of ${owner} is another`]
  })
