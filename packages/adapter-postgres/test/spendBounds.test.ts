import { Effect } from "effect"
import { expect, it } from "vitest"
import type { NewJob } from "@kiln/core/ports"
import { freshDatabase } from "@kiln/postgres-lab"
import { fixtures } from "@kiln/conformance"
import { openStores, tags } from "./faults/support/openStores.ts"
import { session } from "./faults/support/session.ts"

const { audioGate, completionOf, newLiveJob, noLimits, projectId } = fixtures
const run = Effect.runPromise
const kind = "speech_synthesis"
const owner = projectId(7)

/** What counts against the cap, added up, and the bound of it; `null` where a charge is not in it. */
const spent = `
  SELECT coalesce(sum(amount::numeric * 10), 0)::int AS exact, (SELECT CASE WHEN count(*) FILTER (
      WHERE charged_at IS NOT NULL AND NOT in_bound) = 0 THEN (SELECT (day_bound::numeric * 10)::int FROM "kiln".spend_caps WHERE owner = $1) END
    FROM "kiln".spending WHERE owner = $1) AS bound
  FROM "kiln".spending WHERE owner = $1`

/** A job costs 0.5 at most and is charged 0.1, 0.3 or 0.5. Amounts are in tenths. */
const maximum = 5
const maxUsage = { input_characters: maximum }

it("two processes accept a job exactly while it fits under the cap, and the bound is never below what was spent", async () => {
  await using database = await freshDatabase()
  const options = { url: database.url, poolSize: 2, noteLanesEveryMs: 0 }
  await using first = await openStores(options)
  await using second = await openStores(options)
  await using sql = await session(database.url)
  const { board } = first
  for (const name of ["ai", "audio"]) await run(board.setSwitch(name, true))
  await run(board.setPrice({ name: audioGate.price, currency: "usd", unitAmounts: { input_characters: "0.1" } }))
  await run(board.activatePrice(audioGate.price, true))
  await run(board.publishWorker({ workerId: "worker", liveKinds: [kind], providers: [], ttlMs: 600_000 }))

  let state = 11
  const chance = (below: number) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return Math.floor((state / 2_147_483_648) * below)
  }
  let cap: number | undefined
  const setCap = async (tenths: number | undefined) => {
    cap = tenths
    const day = tenths === undefined ? null : (tenths / 10).toFixed(1)
    await run(board.setSpendCap(owner, day === null ? null : { currency: "usd", day, month: null }))
  }
  const read = async () => {
    const { rows } = await sql.query(spent, [owner])
    return (rows as ReadonlyArray<{ exact: number; bound: number | null }>)[0] ?? { exact: 0, bound: null }
  }
  let numbers = 0
  const tally: Record<string, number> = {}
  const differing: Array<unknown> = []
  const one = (): NewJob => newLiveJob((numbers += 1), { projectId: owner, maxUsage })
  const request = {
    runnable: [{ kind, kindVersion: 1, mode: "live" as const }],
    limits: noLimits,
    leaseDurationMs: 600_000,
    maxLostWorkers: 3,
  }
  const end = async (limit: number) => {
    const { claims } = await run(first.jobs.claimJobs({ ...request, limit }))
    await run(
      first.jobs.completeJobs(
        claims.map((claim) => {
          const quantity = [1, 3, 5][chance(3)] ?? 1
          const amount = (quantity / 10).toString()
          const item = { meter: "input_characters" as const, quantity, unitAmount: "0.1", amount }
          return { ...completionOf(claim), charge: { currency: "usd", amount, lineItems: [item] } }
        }),
      ),
    )
  }
  // Jobs without a reservation, which are charged later.
  await run(first.jobs.createJobs(Array.from({ length: 30 }, one)))
  for (let step = 0; step < 400; step += 1) {
    const move = chance(12)
    if (step === 0 || (move === 0 && chance(4) === 0)) await setCap(40 + chance(120))
    else if (move === 1 && chance(8) === 0) await setCap(undefined)
    else if (move < 6) await end(1 + chance(3))
    else {
      let { exact } = await read()
      const jobs = Array.from({ length: 1 + chance(3) }, one)
      const expected = jobs.map(() => {
        if (cap !== undefined && exact + maximum > cap) return "SpendCapReached"
        exact += maximum
        return "Created"
      })
      const outcomes = tags(await run((chance(2) === 0 ? first : second).jobs.createJobs(jobs)))
      if (JSON.stringify(outcomes) !== JSON.stringify(expected)) differing.push({ step, outcomes, expected })
      for (const tag of expected) tally[tag] = (tally[tag] ?? 0) + 1
    }
    const { bound, exact } = await read()
    if (bound !== null && bound < exact) differing.push({ step, bound, exact })
  }
  expect(differing).toEqual([])
  expect(tally["Created"]).toBeGreaterThan(50)
  expect(tally["SpendCapReached"]).toBeGreaterThan(50)
})
