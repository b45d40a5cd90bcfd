import * as Effect from "effect/Effect"
import { Decimal } from "@kiln/core/domain"
import { type ApiKeyRecord, JobDirectory, JobStore } from "@kiln/core/ports"
import { formatTime } from "../Output.ts"

/** Jobs and charges read per page. */
const pageSize = 500

/** Counts the jobs that a key created and whose records still exist, by kind and status, with the times of the first and the last. */
const jobsOf = Effect.fnUntraced(function* (key: ApiKeyRecord) {
  const directory = yield* JobDirectory
  const counts = new Map<string, { readonly type: string; readonly status: string; count: number }>()
  let [first, last]: [number | null, number | null] = [null, null]
  let after: string | undefined
  do {
    const page = yield* directory.listJobs({
      projectId: key.projectId,
      keyId: key.id,
      createdFrom: key.createdAt,
      limit: pageSize,
      after,
    })
    for (const job of page.jobs) {
      // Newest first.
      first = job.createdAt
      last ??= job.createdAt
      const group = `${job.kind} ${job.status}`
      const known = counts.get(group)
      if (known === undefined) counts.set(group, { type: job.kind, status: job.status, count: 1 })
      else known.count++
    }
    after = page.next
  } while (after !== undefined)
  return { counts: [...counts.values()], first, last }
})

/** Sums what the jobs of a key were charged, by currency, including jobs whose records are gone. */
const chargesOf = Effect.fnUntraced(function* (key: ApiKeyRecord, now: number) {
  const store = yield* JobStore
  const sums = new Map<string, Decimal.Decimal>()
  const period = { from: key.createdAt, to: now, limit: pageSize }
  for (let page = (yield* store.listCharges({ ...period, after: null })).entries; ;) {
    for (const { charge, keyId } of page)
      if (keyId === key.id)
        sums.set(charge.currency, Decimal.add(sums.get(charge.currency) ?? Decimal.zero, Decimal.parse(charge.amount)))
    const after = page.at(-1)
    if (after === undefined || page.length < pageSize) break
    page = (yield* store.listCharges({ ...period, after })).entries
  }
  return [...sums].map(([currency, amount]) => ({ currency, amount: Decimal.format(amount) }))
})

/** The jobs that a key created, and the charges for them. */
export const keyActivity = Effect.fnUntraced(function* (key: ApiKeyRecord, now: number) {
  const { counts, first, last } = yield* jobsOf(key)
  return {
    jobs: counts.toSorted((one, other) => other.count - one.count),
    first_job_at: formatTime(first),
    last_job_at: formatTime(last),
    charged: key.mode === "live" ? yield* chargesOf(key, now) : [],
  }
})

type Activity = Effect.Success<ReturnType<typeof keyActivity>>

export const formatActivity = ({ charged, first_job_at, jobs, last_job_at }: Activity): string => {
  const counted = jobs.map(({ count, status, type }) => `${count} ${type} ${status}`).join(", ")
  const spent = charged.map(({ amount, currency }) => `${amount} ${currency.toUpperCase()}`).join(" and ")
  const cost = spent === "" ? "" : ` Its jobs were charged ${spent}.`
  return jobs.length === 0
    ? `No records of jobs that it created exist.${cost}`
    : `It created ${counted}; the first at ${first_job_at}, the last at ${last_job_at}.${cost}`
}
