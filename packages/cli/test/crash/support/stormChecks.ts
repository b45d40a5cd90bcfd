import type { CallLine } from "../fixtures/LabFiles.ts"
import type { Audit } from "./audit.ts"
import type { Lab } from "./Lab.ts"
import type { JobRow } from "./LabStore.ts"
import type { Wish } from "./RetryingClient.ts"

/** What a client was told about its wish. */
export interface Told {
  readonly wish: Wish
  readonly ids: ReadonlyArray<string>
  /** `undefined` if it was not read. */
  readonly status: string | undefined
}

export const sum = (numbers: ReadonlyArray<number>): number => numbers.reduce((total, number) => total + number, 0)

type Claim = (holds: boolean, otherwise: string) => void

/** Checks the guarantees given to one client about one job. */
const checkJob = (
  claim: Claim,
  { ids, status, wish }: Told,
  row: JobRow | undefined,
  begun: ReadonlyArray<CallLine>,
  givesBack: boolean,
) => {
  const at = `${wish.kind} ${wish.idempotencyKey} ${ids[0]}`
  claim(new Set(ids).size === 1, `${at}: a repeat was answered with ${ids.join(" and ")}`)
  if (row === undefined) return claim(false, `${at}: the store has no such job`)
  const is = `${at}: is ${JSON.stringify(row)}`
  claim(row.idempotencyKey === wish.idempotencyKey, is)
  claim(row.status === "done" && !row.held && row.failures === 0, is)
  claim(status === undefined || row.status === status, `${is}, its client was told ${status}`)
  // A worker that could not extend its lease in time, and could still give the job back, is not a lost one.
  claim(row.lostWorkers < row.attempts && (row.lostWorkers === row.attempts - 1 || givesBack), is)
  claim(begun.length > 0, `${is}, without any call`)
  for (const provider of new Set(begun.map((call) => call.provider))) {
    const attempts = begun.filter((call) => call.provider === provider).map((call) => call.attempt)
    // At most one call of a provider in an attempt, and so at most as many calls as attempts.
    claim(new Set(attempts).size === attempts.length, `${is}, ${provider} was called in attempts ${attempts.join()}`)
    claim(Math.max(...attempts) <= row.attempts, `${is}, ${provider} was called in attempts ${attempts.join()}`)
  }
}

/** Every way in which a promise was broken; empty when all were kept. `givesBack`: whether the store was out of reach meanwhile, so that leases ended that nobody lost. */
export const violationsOf = (
  lab: Lab,
  told: ReadonlyArray<Told>,
  wishes: ReadonlyArray<Wish>,
  found: Audit,
  givesBack = false,
) => {
  const violations: Array<string> = []
  const claim: Claim = (holds, otherwise) => void (holds || violations.push(otherwise))
  const rows = new Map(found.jobs.map((row) => [row.id, row]))
  claim(told.length === wishes.length, `${wishes.length} wishes, ${told.length} answers`)
  claim(found.jobs.length === wishes.length, `${wishes.length} wishes, ${found.jobs.length} jobs in the store`)
  const begun = Map.groupBy(
    lab.calls().filter(({ event }) => event === "begun"),
    ({ jobId }) => jobId,
  )
  for (const one of told) checkJob(claim, one, rows.get(one.ids[0] ?? ""), begun.get(one.ids[0] ?? "") ?? [], givesBack)
  const done = found.jobs.filter((row) => row.status === "done" && row.mode === "live").map((row) => row.id)
  claim(
    found.chargedJobs.toSorted().join() === done.toSorted().join(),
    `charged ${found.chargedJobs.length} times, ${done.length} live jobs done`,
  )
  claim(found.damaged.length === 0, `rows name blobs that are missing or damaged: ${found.damaged.join()}`)
  claim(found.unnamed.length === 0, `blobs that belong to nothing were not collected: ${found.unnamed.join()}`)
  return violations
}
