import { Effect } from "effect"
import { afterAll, beforeAll, expect, it } from "vitest"
import type { Claim, LedgerPart } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { openStanding } from "./support/standAtCommit.ts"

const { completionOf, jobId, newLiveJob, noLimits, standings } = fixtures
const run = Effect.runPromise

let opened: Awaited<ReturnType<typeof openStanding>>
beforeAll(async () => {
  opened = await openStanding()
  const { board } = opened.stores
  await run(
    Effect.all([
      board.setSwitch("ai", true),
      board.setSwitch("audio", true),
      board.setPrice({ name: "svc-audio", currency: "usd", unitAmounts: { input_characters: "0.000015" } }),
      board.activatePrice("svc-audio", true),
      board.publishWorker({
        workerId: "worker",
        liveKinds: ["speech_synthesis"],
        providers: standings,
        ttlMs: 86_400_000,
      }),
    ]),
  )
})
afterAll(() => opened.close())

const claimLive = async (n: number): Promise<Claim> => {
  await run(opened.stores.jobs.createJobs([newLiveJob(n)]))
  const request = {
    runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "live" as const }],
    limits: noLimits,
    limit: 1,
    leaseDurationMs: 600_000,
    maxLostWorkers: 3,
  }
  const [only] = (await run(opened.stores.jobs.claimJobs(request))).claims
  if (only === undefined) throw new Error("there is nothing to claim")
  return only
}

const complete = (claim: Claim) => run(opened.stores.jobs.completeJobs([completionOf(claim)]))

const exportFrom = (from: number): Promise<LedgerPart> =>
  run(opened.others.jobs.listCharges({ from, to: Number.MAX_SAFE_INTEGER, after: null, limit: 100 }))

/** Exports while a completion has read the time and is not committed, and again afterwards, from where the first export ended. */
const exportTwiceAround = async (n: number) => {
  const before = await exportFrom(0)
  const claim = await claimLive(n)
  const { result: first } = await opened.meanwhile([() => complete(claim)], () => exportFrom(before.until))
  const second = await exportFrom(first.until)
  const everything = await exportFrom(0)
  const late = everything.entries.find((entry) => entry.jobId === jobId(n))
  if (late === undefined) throw new Error("the job was charged")
  return { first, second, late }
}

it("an export ends before what a completion in another session may still charge, and the next one has it", async () => {
  const { first, late, second } = await exportTwiceAround(1)
  expect(first.entries).toEqual([])
  expect(first.until).toBeLessThanOrEqual(late.chargedAt)
  expect(second.entries).toEqual([late])
})

it("exports that follow one another while two processes complete have each charge once, and hold nobody up", async () => {
  const numbers = Array.from({ length: 60 }, (_, n) => 100 + n)
  const claims: Array<Claim> = []
  for (const n of numbers) claims.push(await claimLive(n))
  const exported: Array<string> = []
  let from = (await exportFrom(0)).until
  const completing = { over: false }
  const complete = ({ jobs }: Pick<typeof opened.stores, "jobs">, mine: ReadonlyArray<Claim>) =>
    run(
      Effect.forEach(mine, (claim) => jobs.completeJobs([completionOf(claim)]), { concurrency: 4 }).pipe(
        Effect.map((outcomes) => outcomes.flat()),
      ),
    )
  const exporting = (async () => {
    for (let last = false; ;) {
      const { entries, until } = await exportFrom(from)
      exported.push(...entries.map((entry) => entry.jobId))
      expect(until).toBeGreaterThanOrEqual(from)
      from = until
      if (last) return
      last = completing.over
    }
  })()
  const outcomes = await Promise.all([
    complete(opened.stores, claims.slice(0, 30)),
    complete(opened.others, claims.slice(30)),
  ])
  completing.over = true
  await exporting
  expect(outcomes.flat()).toEqual(numbers.map(() => "Written"))
  expect(exported.toSorted()).toEqual(numbers.map(jobId).toSorted())
})

it("a ledger whose completions do not show themselves is caught: an export passes a charge that comes later", async () => {
  const { definition } = (
    await opened.client.query("SELECT pg_get_functiondef('kiln.write_charge()'::regprocedure) AS definition")
  ).rows[0]
  const planted = String(definition)
    .replace(/PERFORM pg_advisory_xact_lock_shared\([^;]*;/, "")
    .replace("greatest(NEW.finished_at, closed_until)", "NEW.finished_at")
  await opened.client.query(planted)
  try {
    const { first, late, second } = await exportTwiceAround(2)
    expect(first.until).toBeGreaterThan(late.chargedAt)
    expect([...first.entries, ...second.entries], "in neither export").toEqual([])
  } finally {
    await opened.client.query(String(definition))
  }
})
