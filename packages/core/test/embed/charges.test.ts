import { expect, it } from "vitest"
import type { LedgerEntry, LedgerPage, LedgerPart } from "@kiln/core/ports"
import { listedCharges } from "../../src/embed/promisedOperator.ts"

const entry = (n: number): LedgerEntry => ({
  jobId: `job_${String(n).padStart(6, "0")}`,
  projectId: "prj_a",
  keyId: "key_a",
  kind: "speech_synthesis",
  chargedAt: n,
  charge: { currency: "usd", amount: "1", lineItems: [] },
})

/** A ledger that gets an entry between any two pages, and is complete a little further each time. */
const growing = (count: number) => {
  const entries = Array.from({ length: count }, (_, n) => entry(n))
  const asked: Array<LedgerPage> = []
  const ask = (page: LedgerPage): Promise<LedgerPart> => {
    asked.push(page)
    const until = Math.min(page.to, entries.length)
    const found = entries.filter(
      ({ chargedAt, jobId }) =>
        chargedAt >= page.from && chargedAt < until && (page.after === null || jobId > page.after.jobId),
    )
    entries.push(entry(entries.length))
    return Promise.resolve({ entries: found.slice(0, page.limit), until })
  }
  return { ask, asked }
}

it("lists all pages up to the time at which the ledger was complete when the listing began", async () => {
  const { ask, asked } = growing(1_200)
  const charges = listedCharges({ from: 100, to: 1e9 }, ask)
  const times: Array<number> = []
  for await (const { chargedAt } of charges) times.push(chargedAt.getTime())
  expect(times).toEqual(Array.from({ length: 1_100 }, (_, n) => 100 + n))
  expect((await charges.until()).getTime()).toBe(1_200)
  expect(asked.map(({ to }) => to)).toEqual([1e9, 1_200, 1_200])
  const next = listedCharges({ from: 1_200, to: 1_203 }, ask)
  expect((await next.until()).getTime()).toBe(1_203)
  const later: Array<number> = []
  for await (const { chargedAt } of next) later.push(chargedAt.getTime())
  expect(later).toEqual([1_200, 1_201, 1_202])
})

it("returns an empty period for a period in the future", async () => {
  const { ask } = growing(3)
  const charges = listedCharges({ from: 50, to: 60 }, ask)
  expect((await charges.until()).getTime()).toBe(50)
  expect((await charges.next()).done).toBe(true)
})
