import type { Charge, JobId, KeyId, ProjectId } from "../domain/index.ts"

/** The ledger's entry for one live job that is done. It outlives the job's record. */
export interface LedgerEntry {
  readonly jobId: JobId
  readonly projectId: ProjectId
  readonly keyId: KeyId
  readonly kind: string
  /**
   * When the job finished, in Unix milliseconds of store time. It is later if the ledger had already been read past that time
   * when this entry was committed.
   */
  readonly chargedAt: number
  readonly charge: Charge
}

/** Selects a page of the ledger. */
export interface LedgerPage {
  /** Unix milliseconds, inclusive. */
  readonly from: number
  /** Unix milliseconds, exclusive. */
  readonly to: number
  /** The last entry of the page before; `null` for the first page. */
  readonly after: Pick<LedgerEntry, "chargedAt" | "jobId"> | null
  /** At most this many. */
  readonly limit: number
}

/** A page of the ledger, and how far the ledger is complete. */
export interface LedgerPart {
  /** Entries with a time before `until`; fewer than the limit if there are no more. */
  readonly entries: ReadonlyArray<LedgerEntry>
  /**
   * The time up to which the ledger is complete, exclusive, in Unix milliseconds: `to`, or an earlier time if charges with a time
   * before `to` may still be committed. After this call, no charge with a time before `until` appears, in any process. Ask for
   * the following pages, and for the next period, with this time.
   */
  readonly until: number
}
