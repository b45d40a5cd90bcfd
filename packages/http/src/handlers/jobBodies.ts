import type { JobFamily } from "@kiln/client"
import type { JobBody } from "@kiln/client/api"
import { type Billing, billingOf, type JsonObject, type PolledJob, type Progress } from "@kiln/core/domain"
import type { OfferedKind } from "./offerKinds.ts"

type Body = (job: PolledJob, output: JsonObject | undefined, defaultCurrency: string) => object

/** The state of a polled job, with billing and codes; a code is `null` if it does not apply. */
const fullBody: Body = (job, output, defaultCurrency) => ({
  id: job.id,
  status: job.status,
  ...(output !== undefined && { output }),
  billing: billingBody(billingOf(job, defaultCurrency)),
  warning_code: job.warningCode,
  error_code: job.errorCode,
})

const billingBody = ({ amount, currency, lineItems, status }: Billing) => ({
  status,
  currency,
  amount,
  line_items: lineItems.map((item) => ({
    meter: item.meter,
    quantity: item.quantity,
    unit_amount: item.unitAmount,
    amount: item.amount,
  })),
})

/** Omits fields that do not apply. */
const briefBody: Body = (job, output) => ({
  id: job.id,
  status: job.status,
  ...(output !== undefined && { output }),
  ...(job.errorCode !== null && { error_code: job.errorCode }),
  ...(job.retained !== "kept" && { warning_code: job.warningCode }),
})

/** Returns the body of a polled job; its output is absent until it is done. */
export const stateBody: Readonly<Record<JobBody, Body>> = { full: fullBody, brief: briefBody }

/** The progress of a running job of a custom kind. */
export const progressBody = ({ message, value }: Progress) => ({ value, message })

export const pollingPath = ({ poll }: JobFamily, jobId: string): string => poll.slice(0, -":id".length) + jobId

/**
 * Returns a job's output on the wire, with a URL under `<name>_url` for each file. Absent until the job is done, and again once
 * its data is gone.
 */
export const outputBody = (
  job: PolledJob,
  { names, outputs }: Pick<OfferedKind, "names" | "outputs">,
  fileUrl: (fileId: string) => string,
): JsonObject | undefined => {
  if (job.status !== "done" || job.retained !== "kept" || job.output === null) return undefined
  const entries: Array<readonly [string, JsonObject[string]]> = []
  for (const [name, value] of Object.entries(job.output))
    if (outputs === undefined || outputs.has(name)) entries.push([names.toWire(name), value])
  for (const { id, name } of job.files) entries.push([`${names.toWire(name)}_url`, fileUrl(id)])
  // Not by assignment: `__proto__` is a name like any other.
  return Object.fromEntries(entries)
}
