import { Effect } from "effect"
import { JobStore, type LedgerEntry } from "@kiln/core/ports"
import type { RecordedOpenAiCall } from "@kiln/testing/openai"
import { run } from "@kiln/service-lab"
import type { Audit } from "../../crash/support/audit.ts"
import type { Lab } from "../../crash/support/Lab.ts"
import type { JobRow } from "../../crash/support/LabStore.ts"
import { exactSum } from "./exactSum.ts"
import type { LivePoll } from "./LiveClient.ts"
import { costOf, itemsOf, type PricedWish } from "./moneyWishes.ts"

/** A wish, the ids its requests were answered with, and what polling said in the end. */
export interface Settled {
  readonly wish: PricedWish
  readonly ids: ReadonlyArray<string>
  readonly poll: LivePoll
}

/** The cost of a job according to one source. */
export interface Cost {
  readonly jobId: string
  readonly amount: string
  readonly items: ReadonlyArray<readonly [meter: string, amount: string]>
}

/** The ledger as the store has it, page by page. */
export const ledgerOf = (lab: Lab): Promise<ReadonlyArray<Cost>> =>
  Effect.gen(function* () {
    const store = yield* JobStore
    const found: Array<Cost> = []
    let after = null
    while (true) {
      const range = { from: 0, to: Number.MAX_SAFE_INTEGER, after, limit: 1_000 }
      const page: ReadonlyArray<LedgerEntry> = (yield* store.listCharges(range)).entries
      for (const { charge, jobId } of page)
        found.push({ jobId, amount: charge.amount, items: charge.lineItems.map((item) => [item.meter, item.amount]) })
      after = page.at(-1) ?? null
      if (after === null || page.length < range.limit) return found
    }
  }).pipe(Effect.provide(lab.store.layer), Effect.runPromise)

/** A period that is not over ends at the export, and everything was charged before. */
const endOfExport =
  /^The export ends at (\S+): later charges may still be added\. Begin the next export with --from \1\n$/

const exported = async (lab: Lab, format: "jsonl" | "csv"): Promise<string> => {
  const args = ["billing", "export", "--from", "2000-01-01", "--to", "9000-01-01", "--format", format]
  const { exit, stderr, stdout } = await run(args, { KILN_DATA_DIR: lab.dataDirectory, ...lab.store.env })
  if (exit !== 0 || !endOfExport.test(stderr)) throw new Error(`billing export ended with ${exit}: ${stderr}`)
  return stdout
}

/** What `kiln billing export` says, an object a job. */
export const exportedJobs = async (lab: Lab): Promise<ReadonlyArray<Cost>> =>
  (await exported(lab, "jsonl"))
    .split("\n")
    .slice(0, -1)
    .map((line) => {
      const row = JSON.parse(line) as {
        job_id: string
        amount: string
        line_items: Array<{ meter: string; amount: string }>
      }
      return {
        jobId: row.job_id,
        amount: row.amount,
        items: row.line_items.map(({ amount, meter }) => [meter, amount]),
      }
    })

/** The same, from a row a line item. No field of a built-in kind needs a quote. */
export const exportedRows = async (lab: Lab): Promise<ReadonlyArray<Cost>> => {
  const [header, ...rows] = (await exported(lab, "csv")).trimEnd().split("\r\n")
  const names = header?.split(",") ?? []
  const at = (row: ReadonlyArray<string>, name: string): string => row[names.indexOf(name)] ?? ""
  const fields = rows.map((row) => row.split(","))
  return [...Map.groupBy(fields, (row) => at(row, "job_id"))].map(([jobId, own]) => ({
    jobId,
    amount: exactSum(own.map((row) => at(row, "amount"))),
    items: own.map((row) => [at(row, "meter"), at(row, "amount")]),
  }))
}

export const totalOf = (costs: ReadonlyArray<Pick<Cost, "amount">>): string =>
  exactSum(costs.map(({ amount }) => amount))

type Claim = (holds: boolean, otherwise: string) => void

const itemsText = (items: Cost["items"]): string => JSON.stringify(items.toSorted(([a], [b]) => (a < b ? -1 : 1)))

/** What one job was to cost, and what its poll, its row and its calls say. */
const checkJob = (
  claim: Claim,
  { ids, poll, wish }: Settled,
  row: JobRow | undefined,
  cost: Cost | undefined,
  calls: ReadonlyArray<RecordedOpenAiCall>,
) => {
  const at = `${wish.mode} ${wish.kind} ${wish.idempotencyKey} ${ids[0]}`
  claim(new Set(ids).size === 1, `${at}: a repeat was answered with ${ids.join(" and ")}`)
  if (row === undefined) return claim(false, `${at}: the store has no such job`)
  const is = `${at}: ${JSON.stringify({ row, poll, cost })}`
  claim(row.mode === wish.mode && row.idempotencyKey === wish.idempotencyKey && !row.held, is)
  claim(row.status === poll.status, `${is}, polled as another status`)
  const isPaid = wish.mode === "live" && row.status === "done"
  claim((cost !== undefined) === isPaid, `${is}, and the ledger says otherwise`)
  claim(cost === undefined || cost.amount === costOf(wish), `${is}, should cost ${costOf(wish)}`)
  claim(cost === undefined || itemsText(cost.items) === itemsText(itemsOf(wish)), `${is}, its items are others`)
  if (wish.kind === "image") claim(!("billing" in poll), `${is}, an image's poll speaks of money`)
  else {
    const { amount, status } = poll.billing ?? {}
    const [expectedStatus, expectedAmount] = isPaid ? ["charged", costOf(wish)] : ["not_charged", "0"]
    claim(status === expectedStatus && amount === expectedAmount, `${is}, polled with another bill`)
  }
  if (wish.mode === "sandbox") return claim(calls.length === 0, `${is}, reached a provider`)
  claim(row.status === "failed" || calls.length > 0, `${is}, without a call`)
  for (const [endpoint, own] of Map.groupBy(calls, (call) => call.endpoint))
    claim(own.length <= row.attempts, `${is}, ${endpoint} was called ${own.length} times in ${row.attempts} attempts`)
}

/** Every way in which a promise about money was broken; empty when all were kept. */
export const moneyViolations = (
  wishes: ReadonlyArray<PricedWish>,
  settled: ReadonlyArray<Settled>,
  found: Audit,
  ledger: ReadonlyArray<Cost>,
  allCalls: ReadonlyArray<RecordedOpenAiCall>,
): ReadonlyArray<string> => {
  const violations: Array<string> = []
  const claim: Claim = (holds, otherwise) => void (holds || violations.push(otherwise))
  claim(settled.length === wishes.length, `${wishes.length} wishes, ${settled.length} answers`)
  claim(found.jobs.length === wishes.length, `${wishes.length} wishes, ${found.jobs.length} jobs in the store`)
  const rows = new Map(found.jobs.map((row) => [row.id, row]))
  const costs = new Map(ledger.map((cost) => [cost.jobId, cost]))
  const calls = Map.groupBy(allCalls, ({ headers }) => headers.idempotencyKey?.replace(/-\w+$/, "") ?? "")
  claim(costs.size === ledger.length, "the ledger names a job twice")
  claim(
    [...calls.keys()].every((id) => rows.has(id)),
    "a call belongs to no job",
  )
  for (const one of settled) {
    const id = one.ids[0] ?? ""
    checkJob(claim, one, rows.get(id), costs.get(id), calls.get(id) ?? [])
  }
  const done = found.jobs.filter((row) => row.status === "done" && row.mode === "live").map(({ id }) => id)
  claim(found.chargedJobs.toSorted().join() === done.toSorted().join(), "charged are others than the live ones done")
  claim(
    found.jobs.every(({ status }) => status === "done" || status === "failed"),
    "some are unfinished",
  )
  claim(found.damaged.length === 0, `rows name blobs that are missing or damaged: ${found.damaged.join()}`)
  return violations
}
