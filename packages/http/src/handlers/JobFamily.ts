import { type Billing, billingOf, type Job, type JsonObject, type KeyScope } from "@kiln/core/domain"
import type { FieldNames } from "./fieldNames.ts"

/** Jobs that are polled and erased under one path. A job is found under its own only. */
export interface JobFamily {
  /** With `:id` at its end. */
  readonly poll: string
  /** The scope a key needs to read and erase its jobs. Checked before any is looked for, so that a status tells nothing. */
  readonly keyScope: KeyScope
  /** What polling says of a job; its output is absent until there is one. */
  readonly body: (job: Job, output: JsonObject | undefined, defaultCurrency: string) => object
}

/** What polling a job says: always its bill and its codes, `null` when there is none. */
const fullBody: JobFamily["body"] = (job, output, defaultCurrency) => ({
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

export const audioFamily: JobFamily = { poll: "/v1/jobs/:id", keyScope: "audio.create", body: fullBody }

/** Of image jobs nothing is said that does not apply. */
export const imageFamily: JobFamily = {
  poll: "/v1/images/jobs/:id",
  keyScope: "images.create",
  body: (job, output) => ({
    id: job.id,
    status: job.status,
    ...(output !== undefined && { output }),
    ...(job.errorCode !== null && { error_code: job.errorCode }),
    ...(job.retained !== "kept" && { warning_code: job.warningCode }),
  }),
}

/** Kinds of one's own are polled under a path of their own, and say what audio jobs say. */
export const ownFamily = (poll: string, keyScope: KeyScope): JobFamily => ({ poll, keyScope, body: fullBody })

export const pollingPath = ({ poll }: JobFamily, jobId: string): string => poll.slice(0, -":id".length) + jobId

/**
 * A job's output on the wire: what its kind put out, and for each file a URL under `<name>_url`. Absent until the job is
 * done, and again once its data is gone.
 */
export const outputBody = (
  job: Job,
  names: FieldNames,
  fileUrl: (fileId: string) => string,
): JsonObject | undefined => {
  if (job.status !== "done" || job.retained !== "kept" || job.output === null) return undefined
  return Object.fromEntries([
    ...Object.entries(job.output).map(([name, value]) => [names.toWire(name), value] as const),
    ...job.files.map((file) => [`${names.toWire(file.name)}_url`, fileUrl(file.id)] as const),
  ])
}
