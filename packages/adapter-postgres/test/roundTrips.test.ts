import { Effect } from "effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import type { ClaimRequest, ClaimResult } from "@kiln/core/ports"
import { freshDatabase, tcpProxy } from "@kiln/postgres-lab"
import { fixtures } from "@kiln/conformance"
import { openStores } from "./faults/support/openStores.ts"

const { audioGate, completionOf, newJob, newLiveJob, noLimits, projectId } = fixtures

const open = async () => {
  const database = await freshDatabase()
  const proxy = await tcpProxy(database.url)
  const stores = await openStores({ url: proxy.url, poolSize: 2 })
  return { database, proxy, stores }
}
let opened: Awaited<ReturnType<typeof open>>
beforeAll(async () => {
  opened = await open()
})
afterAll(async () => {
  await opened.stores.close()
  await opened.proxy.close()
  await opened.database.dispose()
})

let numbers = 0
const create = (count: number) =>
  Effect.runPromise(opened.stores.jobs.createJobs(Array.from({ length: count }, () => newJob((numbers += 1)))))

const request = (limit: number) => ({
  runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" as const }],
  limits: noLimits,
  limit,
  leaseDurationMs: 600_000,
  maxLostWorkers: 3,
})

const claim = (limit: number, over: Partial<ClaimRequest> = {}): Promise<ClaimResult> =>
  Effect.runPromise(opened.stores.jobs.claimJobs({ ...request(limit), ...over }))

/** A claim of ten jobs, where an earlier one left work. */
const claimOfSome = (over: Partial<ClaimRequest>) => async () => {
  await create(30)
  await claim(10)
  return async () => {
    const { claims } = await claim(10, over)
    expect(claims).toHaveLength(10)
  }
}

/** Each verb, with what must be there for it; run twice, so that statements are prepared and lanes are known. */
const verbs: Readonly<Record<string, () => Promise<() => Promise<unknown>>>> = {
  createJobs: async () => () => create(10),
  "claimJobs after a claim that left work": claimOfSome({}),
  "claimJobs under limits of kinds and projects": claimOfSome({
    limits: { perKind: { speech_synthesis: 900 }, perProject: 1_000, projects: { [projectId(1)]: 800 } },
  }),
  "claimJobs of a kind with a rate": claimOfSome({
    worker: {
      free: { sandbox: 10, live: 10 },
      perProject: 0,
      held: [],
      quotas: [{ kind: "speech_synthesis", mode: "sandbox", count: 50 }],
    },
  }),
  "claimJobs of lost workers": async () => {
    // What others left.
    await claim(1_000)
    await create(10)
    await claim(10, { leaseDurationMs: 1 })
    return async () => {
      const { claims } = await claim(10)
      expect(claims.map(({ job }) => job.lostWorkers)).toEqual(Array.from({ length: 10 }, () => 1))
    }
  },
  createAndClaimJobs: async () => {
    await create(1)
    // The positions of lanes are saved by then.
    await claim(1)
    return () => Effect.runPromise(opened.stores.jobs.createAndClaimJobs([newJob((numbers += 1))], request(1)))
  },
  completeJobs: async () => {
    await create(10)
    const { claims } = await claim(10)
    return () => Effect.runPromise(opened.stores.jobs.completeJobs(claims.map((one) => completionOf(one))))
  },
  completeAndClaimJobs: async () => {
    await create(20)
    const { claims } = await claim(10)
    const items = claims.map((one) => completionOf(one))
    return async () => {
      const { claimed } = await Effect.runPromise(opened.stores.jobs.completeAndClaimJobs(items, request(10)))
      expect(claimed?.claims).toHaveLength(10)
    }
  },
  "completeJobs with charges, under a cap": async () => {
    const { board, jobs } = opened.stores
    const kind = "speech_synthesis"
    await Effect.runPromise(
      Effect.gen(function* () {
        for (const name of ["ai", "audio"]) yield* board.setSwitch(name, true)
        const unitAmounts = { input_characters: "0.000015" }
        yield* board.setPrice({ name: audioGate.price, currency: "usd", unitAmounts })
        yield* board.activatePrice(audioGate.price, true)
        yield* board.publishWorker({ workerId: "worker", liveKinds: [kind], providers: [], ttlMs: 600_000 })
        yield* board.setSpendCap(projectId(1), { currency: "usd", day: "1", month: null })
        yield* jobs.createJobs(Array.from({ length: 10 }, () => newLiveJob((numbers += 1))))
      }),
    )
    const runnable = [{ kind, kindVersion: 1, mode: "live" as const }]
    const { claims } = await Effect.runPromise(jobs.claimJobs({ ...request(10), runnable }))
    expect(claims).toHaveLength(10)
    return () => Effect.runPromise(jobs.completeJobs(claims.map((one) => completionOf(one))))
  },
  "completeJobs with follow-ups": async () => {
    await create(10)
    const { claims } = await claim(10)
    const items = claims.map((one) => completionOf(one, { followUps: [newJob((numbers += 1))] }))
    return () => Effect.runPromise(opened.stores.jobs.completeJobs(items))
  },
  checkpointJobs: async () => {
    await create(10)
    const { claims } = await claim(10)
    return () =>
      Effect.runPromise(
        opened.stores.jobs.checkpointJobs(
          claims.map(({ job, token }) => ({ jobId: job.id, token, step: "a", value: 1 })),
        ),
      )
  },
  appendChunks: async () => {
    await create(10)
    const { claims } = await claim(10)
    const items = claims.map(({ job, token }) => ({ jobId: job.id, token, attempt: 1, first: 0, values: ["a", "b"] }))
    return () => Effect.runPromise(opened.stores.jobs.appendChunks(items))
  },
  deferJobs: async () => {
    await create(10)
    const { claims } = await claim(10)
    const items = claims.map((one) => ({
      jobId: one.job.id,
      token: one.token,
      delayMs: 3_600_000,
      countsAsFailure: false,
    }))
    return () => Effect.runPromise(opened.stores.jobs.deferJobs(items))
  },
  "deferJobs until signals": async () => {
    await create(10)
    const { claims } = await claim(10)
    const park = { reason: "signal", subject: "approved" } as const
    const items = claims.map((one) => ({
      jobId: one.job.id,
      token: one.token,
      delayMs: 0,
      countsAsFailure: false,
      park,
    }))
    return () => Effect.runPromise(opened.stores.jobs.deferJobs(items))
  },
  "deferJobs until children end": async () => {
    await create(10)
    const { claims } = await claim(10)
    const park = { reason: "children", subject: "each" } as const
    const items = claims.map((one) => ({
      jobId: one.job.id,
      token: one.token,
      delayMs: 0,
      countsAsFailure: false,
      park,
    }))
    return () => Effect.runPromise(opened.stores.jobs.deferJobs(items))
  },
}

/** One way through the proxy, so that statements which need no answer of each other leave before the first answer arrives. */
const delayMs = 30

const limits: ReadonlyArray<readonly [verb: string, statements: number, roundTrips: number]> = [
  ["createJobs", 1, 1],
  // The claim, and two statements about lanes, for which nobody waits.
  ["claimJobs after a claim that left work", 3, 1],
  ["claimJobs under limits of kinds and projects", 3, 1],
  ["claimJobs of a kind with a rate", 3, 1],
  ["claimJobs of lost workers", 3, 1],
  ["createAndClaimJobs", 1, 1],
  ["completeJobs", 1, 1],
  // Two of the statements are about lanes, and nobody waits for them.
  ["completeAndClaimJobs", 3, 1],
  ["completeJobs with charges, under a cap", 1, 1],
  // One transaction: it begins, ends the jobs, reads facts, and adds jobs before its commit.
  ["completeJobs with follow-ups", 8, 5],
  ["checkpointJobs", 1, 1],
  ["appendChunks", 1, 1],
  // One transaction: it locks the jobs as it begins, reads what they wait for, and commits with what it writes.
  ["deferJobs", 6, 2],
  ["deferJobs until signals", 8, 3],
  ["deferJobs until children end", 9, 3],
]

describe("however many items it has, a verb costs at most", () => {
  it.each(limits)("%s: %d statements and %d round trips", async (name, statements, roundTrips) => {
    const { proxy } = opened
    const prepare = verbs[name]
    if (prepare === undefined) throw new Error(`there is no ${name}`)
    await (
      await prepare()
    )()
    const verb = await prepare()
    proxy.resetCounts()
    proxy.delay(delayMs)
    await verb()
    const flights = proxy.flights()
    proxy.delay(0)
    const sent = [...proxy.statements()]
    expect(
      sent.reduce((sum, [, count]) => sum + count, 0),
      sent.map(([text]) => text).join("\n"),
    ).toBeLessThanOrEqual(statements)
    expect(flights).toBe(roundTrips)
  })
})
