import { type Billing, billingOf, type Job, type JsonObject } from "@kiln/core/domain"
import type { JobKind } from "@kiln/core/effect"
import { toSnakeCase } from "./fields.ts"

/** The two families of paths under which jobs are polled. A job is found under its own only. */
export type JobFamily = "audio" | "images"

export const familyOf = (kind: Pick<JobKind, "keyScope">): JobFamily =>
  kind.keyScope === "images.create" ? "images" : "audio"

/** The scope a key needs to read and erase jobs of a family. */
export const familyScope = { audio: "audio.create", images: "images.create" } as const

export const pollingPath = (kind: JobKind, jobId: string): string =>
  familyOf(kind) === "images" ? `/v1/images/jobs/${jobId}` : `/v1/jobs/${jobId}`

/**
 * A job's output on the wire: what its kind put out, and for each file a URL under `<name>_url`. Absent until the job is
 * done, and again once its data is gone.
 */
const outputBody = (job: Job, fileUrl: (fileId: string) => string): JsonObject | undefined => {
  if (job.status !== "done" || job.retained !== "kept" || job.output === null) return undefined
  return Object.fromEntries([
    ...Object.entries(job.output).map(([name, value]) => [toSnakeCase(name), value] as const),
    ...job.files.map((file) => [`${file.name}_url`, fileUrl(file.id)] as const),
  ])
}

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

/** What polling an audio job says: always its bill and its codes, `null` when there is none. */
export const audioJobBody = (job: Job, fileUrl: (fileId: string) => string, defaultCurrency: string) => {
  const output = outputBody(job, fileUrl)
  return {
    id: job.id,
    status: job.status,
    ...(output !== undefined && { output }),
    billing: billingBody(billingOf(job, defaultCurrency)),
    warning_code: job.warningCode,
    error_code: job.errorCode,
  }
}

/** What polling an image job says: nothing that does not apply. */
export const imageJobBody = (job: Job, fileUrl: (fileId: string) => string) => {
  const output = outputBody(job, fileUrl)
  return {
    id: job.id,
    status: job.status,
    ...(output !== undefined && { output }),
    ...(job.errorCode !== null && { error_code: job.errorCode }),
    ...(job.retained !== "kept" && { warning_code: job.warningCode }),
  }
}
