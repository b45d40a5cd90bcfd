import type { FileId, Job, JobId, Principal, ProjectId, Upload, UploadId } from "@kiln/core/domain"
import type { LedgerEntry, TransferRef } from "@kiln/core/ports"

/** A claim that was handed out, and what it takes to complete it. */
export interface KnownClaim {
  readonly jobId: JobId
  readonly token: number
  readonly live: boolean
}

export interface KnownUpload extends Pick<Upload, "projectId" | "keyId" | "mode"> {
  readonly uploadId: UploadId
}

export interface KnownJob {
  readonly jobId: JobId
  readonly principal: Principal
}

export interface KnownFile {
  readonly fileId: FileId
  readonly blobKey: string
  readonly jobId: JobId
}

/** The present state of the reference. Without it, most operations would meet nothing to act on. */
export interface Seen {
  readonly held: ReadonlyArray<KnownClaim>
  /** Claims whose job went on without them. */
  readonly superseded: ReadonlyArray<KnownClaim>
  /** Claims whose job has ended, and perhaps was erased or removed since. */
  readonly ended: ReadonlyArray<KnownClaim>
  readonly finished: ReadonlyArray<KnownJob>
  readonly unfinished: ReadonlyArray<KnownJob>
  /** Wait for their next attempt, or are parked. */
  readonly waiting: ReadonlyArray<KnownJob>
  /** Failed, with their data. */
  readonly retryable: ReadonlyArray<Job>
  readonly transfers: ReadonlyArray<TransferRef>
  readonly unused: ReadonlyArray<KnownUpload>
  readonly files: ReadonlyArray<KnownFile>
  readonly projects: ReadonlyArray<ProjectId>
  /** Instants at which something ends or begins. */
  readonly instants: ReadonlyArray<number>
}

/** The results of a history so far, as the reference answered. Later operations pick from it. */
export interface History {
  nextNumber: number
  readonly jobs: Array<KnownJob>
  readonly uploads: Array<KnownUpload>
  readonly claims: Array<KnownClaim>
  readonly transfers: Array<TransferRef>
  readonly keys: Array<number>
  /** Of jobs that are another try of a failed one: which. */
  readonly retries: Map<JobId, JobId>
  /** Which job an upload fed last, also when both are gone. */
  readonly fed: Map<UploadId, JobId>
  /** The ledger after the last step. */
  readonly ledger: Map<JobId, LedgerEntry>
  /** The time up to which the ledger was complete then. */
  ledgerUntil: number
  /** The jobs as they were after the last step. */
  present: ReadonlyMap<JobId, Job>
  seen: Seen
  /** Told what comes about, for tests that ask whether histories get everywhere. */
  readonly sighted: (what: string) => void
}

export const emptyHistory = (sighted: (what: string) => void): History => ({
  nextNumber: 1,
  jobs: [],
  uploads: [],
  claims: [],
  transfers: [],
  keys: [],
  retries: new Map(),
  fed: new Map(),
  ledger: new Map(),
  ledgerUntil: 0,
  present: new Map(),
  seen: {
    held: [],
    superseded: [],
    ended: [],
    finished: [],
    unfinished: [],
    waiting: [],
    retryable: [],
    transfers: [],
    unused: [],
    files: [],
    projects: [],
    instants: [],
  },
  sighted,
})
