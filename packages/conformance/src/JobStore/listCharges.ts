import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type Charge, Decimal, jobBlobPrefix } from "@kiln/core/domain"
import { JobStore, type LedgerEntry, type LedgerPage } from "@kiln/core/ports"
import {
  advance,
  claim,
  claimOne,
  complete,
  create,
  createAndClaim,
  createDone,
  createFailed,
  exists,
  openAudioGate,
  read,
} from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { completionOf, jobId, keyId, newJob, newLiveJob, ownerOf, projectId } from "../fixtures.ts"

const everything: LedgerPage = { from: 0, to: Number.MAX_SAFE_INTEGER, after: null, limit: 1_000 }

const list = Effect.fnUntraced(function* (page: Partial<LedgerPage> = {}) {
  const store = yield* JobStore
  return (yield* store.listCharges({ ...everything, ...page })).entries
})

const idsOf = (entries: ReadonlyArray<LedgerEntry>) => entries.map((entry) => entry.jobId)

/** Returns the charge for `n` characters at a price with more digits than a float has. */
const tiny = (n: number): Charge => {
  const unitAmount = "0.0000000000000000000001"
  const amount = Decimal.format(Decimal.multiply(Decimal.parse(unitAmount), n))
  return { currency: "usd", amount, lineItems: [{ meter: "input_characters", quantity: n, unitAmount, amount }] }
}

/** Live jobs of these numbers, done and charged in this instant, in the order given. */
const chargeNow = Effect.fnUntraced(function* (...numbers: ReadonlyArray<number>) {
  const store = yield* JobStore
  yield* create(...numbers.map((n) => newLiveJob(n)))
  const { claims } = yield* claim({ limit: numbers.length })
  const byNumber = new Map(claims.map((claimed) => [claimed.job.id, claimed]))
  const batch = numbers.flatMap((n) => {
    const claimed = byNumber.get(jobId(n))
    return claimed === undefined ? [] : [completionOf(claimed, { charge: tiny(n) })]
  })
  expect(yield* store.completeJobs(batch)).toEqual(numbers.map(() => "Written"))
})

/** All entries, a page of this many at a time. */
const allPages = Effect.fnUntraced(function* (limit: number, range: Partial<LedgerPage> = {}) {
  const entries: Array<LedgerEntry> = []
  while (true) {
    const page: ReadonlyArray<LedgerEntry> = yield* list({ ...range, after: entries.at(-1) ?? null, limit })
    expect(page.length).toBeLessThanOrEqual(limit)
    entries.push(...page)
    // A store that returns the same page repeatedly would cause an endless loop.
    expect(new Set(idsOf(entries)).size, "each entry once").toBe(entries.length)
    if (page.length < limit) return entries
  }
})

const sumOf = (amounts: ReadonlyArray<string>): string =>
  Decimal.format(amounts.map(Decimal.parse).reduce(Decimal.add, Decimal.zero))

/** The ledger. `completeJobs` checks that a live job is charged once, and only at its end. */
export const listCharges: Section = {
  name: "JobStore.listCharges",
  checks: [
    check(
      "names job, project, key, kind, time and charge of a done live job",
      Effect.gen(function* () {
        yield* openAudioGate
        const owner = { projectId: projectId(7), keyId: keyId(8) }
        const claimed = yield* createAndClaim(newLiveJob(1, { ...owner, kind: "speech_synthesis" }))
        yield* advance(1_234)
        const lineItems = [
          { meter: "input_audio_seconds", quantity: 3, unitAmount: "0.10", amount: "0.3" },
          { meter: "output_tokens", quantity: 0, unitAmount: "100000000000000000000.1", amount: "0" },
        ] as const
        const charge = { currency: "eur", amount: "0.3", lineItems }
        const done = yield* complete(claimed, { charge })
        expect(yield* list()).toEqual([
          { jobId: done.id, ...owner, kind: "speech_synthesis", chargedAt: 1_234, charge },
        ])
        expect(done.finishedAt).toBe(1_234)
      }),
    ),

    check(
      "is empty in a new installation, and a charge may have no line items",
      Effect.gen(function* () {
        yield* openAudioGate
        expect(yield* list()).toEqual([])
        const charge = { currency: "usd", amount: "0", lineItems: [] }
        yield* complete(yield* createAndClaim(newLiveJob(1)), { charge })
        expect((yield* list()).map((entry) => entry.charge)).toEqual([charge])
      }),
    ),

    check(
      "sandbox jobs, failed jobs and unfinished ones never appear",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* openAudioGate
        yield* createDone(newJob(1))
        yield* createFailed(newJob(2))
        yield* createFailed(newLiveJob(3))
        const { token } = yield* createAndClaim(newLiveJob(4))
        yield* create(newLiveJob(5))
        expect(yield* list()).toEqual([])
        yield* store.deferJobs([{ jobId: jobId(4), token, delayMs: 1, countsAsFailure: true }])
        yield* advance(100_000_000)
        yield* store.expireJobs(10)
        expect((yield* read(newLiveJob(5))).status).toBe("failed")
        expect(yield* list()).toEqual([])
      }),
    ),

    check(
      "by time, then by job id, regardless of the order in which they were written",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* chargeNow(30, 10, 20)
        yield* advance(1)
        yield* chargeNow(2, 1)
        expect(idsOf(yield* list())).toEqual([10, 20, 30, 1, 2].map(jobId))
      }),
    ),

    check(
      "with pages of any size, each entry appears once and in order, even many with the same time",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* chargeNow(5, 3, 4, 9, 7)
        yield* advance(1)
        yield* chargeNow(6)
        yield* advance(1_000)
        yield* chargeNow(2, 8, 1)
        const all = yield* list()
        expect(idsOf(all)).toEqual([3, 4, 5, 7, 9, 6, 1, 2, 8].map(jobId))
        for (const limit of [1, 2, 3, 4, 5, 8, 9, 10]) expect(yield* allPages(limit), `pages of ${limit}`).toEqual(all)
        expect(yield* list({ limit: 0 })).toEqual([])
        // The last entry need not exist, nor be within the page.
        expect(idsOf(yield* list({ after: { chargedAt: 0, jobId: jobId(6) } }))).toEqual([7, 9, 6, 1, 2, 8].map(jobId))
        expect(idsOf(yield* list({ from: 1, to: 2, after: { chargedAt: 0, jobId: jobId(9) } }))).toEqual([jobId(6)])
        expect(yield* list({ after: all.at(-1) ?? null })).toEqual([])
      }),
    ),

    check(
      "from is inclusive and to is exclusive, to the millisecond",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* advance(999)
        for (const n of [1, 2, 3, 4]) {
          yield* chargeNow(n)
          yield* advance(1)
        }
        const within = (from: number, to: number) => Effect.map(list({ from, to }), idsOf)
        expect(yield* within(1_000, 1_002)).toEqual([2, 3].map(jobId))
        expect(yield* within(0, 999)).toEqual([])
        expect(yield* within(0, 1_000)).toEqual([jobId(1)])
        expect(yield* within(1_002, 1_003)).toEqual([jobId(4)])
        expect(yield* within(1_003, 2_000)).toEqual([])
        expect(yield* within(1_001, 1_001)).toEqual([])
        expect(yield* within(1_002, 1_000)).toEqual([])
        expect(idsOf(yield* allPages(1, { from: 1_000, to: 1_002 }))).toEqual([2, 3].map(jobId))
      }),
    ),

    check(
      "reports how far it is complete: up to `to`, or up to now and the last committed charge",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* openAudioGate
        yield* advance(1_000)
        yield* chargeNow(1)
        const until = (page: Partial<LedgerPage>) =>
          Effect.map(store.listCharges({ ...everything, ...page }), (part) => part.until)
        expect(yield* until({ to: 400 })).toBe(400)
        expect(yield* until({ to: 1_000 })).toBe(1_000)
        expect(yield* until({})).toBe(1_001)
        expect(yield* until({ from: 5_000, to: 6_000 }), "a period to come").toBe(1_001)
        expect(yield* until({ to: 900 }), "a period that was complete before").toBe(900)
        yield* advance(500)
        expect(yield* until({})).toBe(1_501)
        expect(yield* until({ limit: 0 })).toBe(1_501)
      }),
    ),

    check(
      "a charge never gets a time before an `until` that was returned, not even in the same millisecond",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* openAudioGate
        yield* advance(1_000)
        let from = 0
        const exported: Array<LedgerEntry> = []
        for (let n = 1; n <= 6; n++) {
          yield* chargeNow(n)
          const { entries, until } = yield* store.listCharges({ ...everything, from })
          expect(idsOf(entries), "exactly what came since the export before").toEqual([jobId(n)])
          expect(until).toBeGreaterThan(entries[0]?.chargedAt ?? Infinity)
          exported.push(...entries)
          from = until
          if (n === 3) yield* advance(1)
        }
        expect(yield* list()).toEqual(exported)
        expect((yield* list({ to: from })).length).toBe(6)
        expect((yield* read(newLiveJob(6))).finishedAt, "the job's own time is the store's").toBe(1_001)
      }),
    ),

    check(
      "an export up to its first `until` misses no earlier charge and includes no later one",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* openAudioGate
        yield* chargeNow(5, 2, 9)
        const first = yield* store.listCharges({ ...everything, limit: 2 })
        yield* chargeNow(1, 3)
        const rest = yield* allPages(1, { to: first.until })
        expect(idsOf(first.entries)).toEqual([2, 5].map(jobId))
        expect(idsOf(rest)).toEqual([2, 5, 9].map(jobId))
        expect(idsOf(yield* allPages(1, { from: first.until }))).toEqual([1, 3].map(jobId))
      }),
    ),

    check(
      "an entry does not change when its job's data is erased or its record is deleted",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* openAudioGate
        const done = yield* createDone(newLiveJob(1))
        const expired = yield* createDone(newLiveJob(2), 2)
        const before = yield* list()
        expect(before).toHaveLength(2)
        yield* store.eraseJobs([{ jobId: done.id, principal: ownerOf(done) }])
        yield* advance(10)
        yield* store.expireData(0, 10)
        expect(yield* list()).toEqual(before)
        yield* store.confirmPurges([done, expired].map((job) => ({ blobPrefix: jobBlobPrefix(job.id) })))
        expect((yield* store.deleteJobs(0, 10)).count).toBe(2)
        expect([yield* exists(done), yield* exists(expired)]).toEqual([false, false])
        expect(yield* list()).toEqual(before)
      }),
    ),

    check(
      "neither a repeated completion nor one of a lost claim adds an entry",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* openAudioGate
        const lost = yield* createAndClaim(newLiveJob(1))
        yield* store.releaseJobs([{ jobId: lost.job.id, token: lost.token }])
        expect(yield* store.completeJobs([completionOf(lost, { charge: tiny(9) })])).toEqual(["LeaseLost"])
        expect(yield* list()).toEqual([])
        const claimed = yield* claimOne()
        const completion = completionOf(claimed, { charge: tiny(1) })
        expect(yield* store.completeJobs([completion, completion])).toEqual(["Written", "Written"])
        yield* advance(1)
        expect(yield* store.completeJobs([{ ...completion, charge: tiny(2) }])).toEqual(["Written"])
        expect((yield* list()).map(({ charge, chargedAt }) => [chargedAt, charge])).toEqual([[1, tiny(1)]])
      }),
    ),

    check(
      "sums up to the charges of the done live jobs, to the last digit",
      Effect.gen(function* () {
        yield* openAudioGate
        const numbers = Array.from({ length: 40 }, (_, n) => 1 + ((n * 17) % 40))
        for (let n = 0; n < 40; n += 8) {
          yield* chargeNow(...numbers.slice(n, n + 8))
          yield* createDone(newJob(100 + n), 100 + n)
          yield* advance(n % 3)
        }
        yield* createFailed(newLiveJob(200))
        const jobs = yield* Effect.forEach(numbers, (n) => read(newLiveJob(n)))
        const charged = jobs.flatMap((job) => (job.status === "done" && job.charge !== null ? [job.charge.amount] : []))
        const entries = yield* allPages(7)
        expect(charged).toHaveLength(40)
        expect(sumOf(entries.map((entry) => entry.charge.amount))).toBe(sumOf(charged))
        // 820 characters.
        expect(sumOf(charged)).toBe("0.000000000000000000082")
        for (const { charge } of entries) expect(sumOf(charge.lineItems.map((item) => item.amount))).toBe(charge.amount)
      }),
    ),
  ],
}
