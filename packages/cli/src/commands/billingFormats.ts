import type { LineItem } from "@kiln/core/domain"
import type { LedgerEntry } from "@kiln/core/ports"
import { formatTime } from "../Output.ts"

/** A format of the ledger. */
export interface BillingFormat {
  /** Text before the first entry. */
  readonly header: string
  readonly entry: (entry: LedgerEntry) => string
}

const jobFields = ({ chargedAt, jobId, keyId, kind, projectId }: LedgerEntry) => ({
  job_id: jobId,
  project_id: projectId,
  key_id: keyId,
  type: kind,
  finished_at: formatTime(chargedAt),
})

/** As on the wire. */
const lineItemFields = ({ amount, meter, quantity, unitAmount }: LineItem) => ({
  meter,
  quantity,
  unit_amount: unitAmount,
  amount,
})

/** One object per job, one per line. */
const jsonl: BillingFormat = {
  header: "",
  entry: (entry) => {
    const { amount, currency, lineItems } = entry.charge
    const fields = { ...jobFields(entry), currency, amount, line_items: lineItems.map(lineItemFields) }
    return `${JSON.stringify(fields)}\n`
  },
}

const columns = [
  "job_id",
  "project_id",
  "key_id",
  "type",
  "finished_at",
  "currency",
  "meter",
  "quantity",
  "unit_amount",
  "amount",
] as const

/** Formats a row by RFC 4180: fields are quoted if necessary, and the row ends with CR and LF. */
const row = (fields: ReadonlyArray<string | number>): string =>
  `${fields.map((field) => quoted(String(field))).join()}\r\n`
const quoted = (field: string): string => (/[",\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field)

/**
 * One row per line item. A job whose price covers none of its meters has no line item, and gets a row with its amount but
 * without meter, quantity and unit amount. So every job of the ledger is included, and the amounts add up.
 */
const csv: BillingFormat = {
  header: row(columns),
  entry: (entry) => {
    const { amount, currency, lineItems } = entry.charge
    const job = [...Object.values(jobFields(entry)), currency]
    if (lineItems.length === 0) return row([...job, "", "", "", amount])
    return lineItems.map((item) => row([...job, item.meter, item.quantity, item.unitAmount, item.amount])).join("")
  },
}

export const billingFormats = { csv, jsonl } as const
