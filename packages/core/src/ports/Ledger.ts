import type { Charge, JobId, KeyId, ProjectId } from "../domain/index.ts"

/** One done live job in the ledger. Stays when the record of its job is gone. */
export interface LedgerEntry {
  readonly jobId: JobId
  readonly projectId: ProjectId
  readonly keyId: KeyId
  readonly kind: string
  /** When the job was finished, unix milliseconds, store time. */
  readonly chargedAt: number
  readonly charge: Charge
}

/** A piece of the ledger. */
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
