import { Effect } from "effect"
import { afterAll, beforeAll, expect, it } from "vitest"
import type { ClaimRef, JobStore } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { openStanding } from "./support/standAtCommit.ts"

let opened: Awaited<ReturnType<typeof openStanding>>
beforeAll(async () => {
  opened = await openStanding()
})
afterAll(() => opened.close())

const run = Effect.runPromise
let numbers = 0

const settle = (kind: string) =>
  opened.client.query(`SELECT "kiln".settle_lanes(array(SELECT id FROM "kiln".lanes WHERE kind = $1))`, [kind])

/** Jobs of the kind that their lane's bound hides. */
const hidden = async (kind: string): Promise<number | null> => {
  const { rowCount } = await opened.client.query(
    `SELECT FROM "kiln".queue JOIN "kiln".lanes ON lanes.id = lane_id
     WHERE lanes.kind = $1 AND (next_at IS NULL OR next_at > claimable_at)`,
    [kind],
  )
  return rowCount
}

type Adding = (jobs: JobStore["Service"], ref: ClaimRef, kind: string) => Effect.Effect<unknown, unknown>

const adding: ReadonlyArray<readonly [verb: string, Adding]> = [
  ["createJobs", (jobs, _ref, kind) => jobs.createJobs([fixtures.newJob((numbers += 1), { kind })])],
  ["releaseJobs", (jobs, ref) => jobs.releaseJobs([ref])],
  ["deferJobs", (jobs, ref) => jobs.deferJobs([{ ...ref, delayMs: 1_000, countsAsFailure: false }])],
  // A lease that is shorter than the one before ends earlier.
  ["extendLeases", (jobs, ref) => jobs.extendLeases([{ ...ref, leaseDurationMs: 1_000 }])],
]

it.each(adding)("%s: settling the lane before the commit hides nothing", async (verb, add) => {
  const kind = `unseen_${verb}`
  const ref = await opened.held((numbers += 1), kind)
  // Low enough already: the verb looks at the bound, and has nothing to lower.
  await opened.client.query(`UPDATE "kiln".lanes SET next_at = 0 WHERE kind = $1`, [kind])
  await opened.meanwhile([() => run(add(opened.stores.jobs, ref, kind))], () => settle(kind))
  expect(await hidden(kind)).toBe(0)
})

it.each(adding)("%s: lowers a bound that was raised before", async (verb, add) => {
  const kind = `lowered_${verb}`
  const ref = await opened.held((numbers += 1), kind)
  await settle(kind)
  await run(add(opened.stores.jobs, ref, kind))
  expect(await hidden(kind)).toBe(0)
})
