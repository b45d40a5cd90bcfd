import type { Charge, JobId, KeyId, ProjectId } from "../domain/index.ts"

/** One done live job in the ledger. Stays when the record of its job is gone. */
export interface LedgerEntry {
  readonly jobId: JobId
  readonly projectId: ProjectId
  readonly keyId: KeyId
  readonly kind: string
  /**
   * When the job was finished, unix milliseconds, store time; later only where the ledger had been read up to a later time
   * before this entry was committed.
   */
  readonly chargedAt: number
  readonly charge: Charge
}

/** Asks for a piece of the ledger. */
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

/** A piece of the ledger, and how far it is complete. */
export interface LedgerPart {
  /** Each with a time before `until`; fewer than the limit if there are no more before it. */
  readonly entries: ReadonlyArray<LedgerEntry>
  /**
   * The end up to which the ledger is complete, exclusive, unix milliseconds: `to`, or an earlier time if charges with a time
   * before `to` may still be committed. No charge with a time before `until` appears after this answer, in this process or in
   * another. Ask for the following pages, and for the next period, with this time.
   */
  readonly until: number
}
