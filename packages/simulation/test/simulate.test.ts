import { describe, expect, it } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { JobStore } from "@kiln/core/ports"
import { MemoryStores } from "@kiln/testing"
import { describeBroken, type SimulatedStores, simulate, simulateRuns } from "../src/index.ts"

const emptyStores = (): Context.Context<SimulatedStores> =>
  Effect.runSync(Effect.scoped(Layer.build(Layer.fresh(MemoryStores.layer))))

/** Every line of a run. */
const traceOf = (seed: number): ReadonlyArray<string> => {
  const lines: Array<string> = []
  simulate(emptyStores(), { seed, trace: (line) => void lines.push(line) })
  return lines
}

describe("simulate", () => {
  it("replays a seed step by step, and differs with another seed", () => {
    const first = traceOf(16)
    expect(first.length).toBeGreaterThan(200)
    expect(traceOf(16)).toEqual(first)
    expect(traceOf(17)).not.toEqual(first)
  })

  it("ends every job of a run whose faults stop", () => {
    for (const seed of [3, 4, 5]) {
      const { finished, jobs, profile, violation } = simulate(emptyStores(), { seed, mode: "liveness", jobs: 12 })
      expect(violation).toBeUndefined()
      expect(profile.mode).toBe("liveness")
      expect([jobs > 0, finished]).toEqual([true, jobs])
    }
  })

  it("leaves stack traces of other code unchanged", () => {
    const { stackTraceLimit } = Error
    expect(stackTraceLimit).toBeGreaterThan(0)
    simulate(emptyStores(), { seed: 1 })
    expect(Error.stackTraceLimit).toBe(stackTraceLimit)
  })
})

describe("simulateRuns", () => {
  /** Memory stores in which a claim can write to a job that another claim has taken over. */
  const withoutFence = Layer.effectContext(
    Effect.map(Layer.build(Layer.fresh(MemoryStores.layer)), (stores) => {
      const store = Context.get(stores, JobStore)
      const tokens = new Map<string, number>()
      const newest = <Item extends { readonly jobId: string; readonly token: number }>(items: ReadonlyArray<Item>) =>
        items.map((item) => ({ ...item, token: tokens.get(item.jobId) ?? item.token }))
      return Context.add(stores, JobStore, {
        ...store,
        claimJobs: (request) =>
          Effect.tap(store.claimJobs(request), ({ claims }) =>
            Effect.sync(() => {
              for (const { job, token } of claims) tokens.set(job.id, token)
            }),
          ),
        checkpointJobs: (items) => store.checkpointJobs(newest(items)),
        completeJobs: (items) => store.completeJobs(newest(items)),
        // Claims are made apart, so that each is seen above.
        createAndClaimJobs: (jobs) =>
          Effect.map(store.createJobs(jobs), (created) => ({ created, claimed: undefined })),
        completeAndClaimJobs: (items) =>
          Effect.map(store.completeJobs(newest(items)), (completed) => ({ completed, claimed: undefined })),
        failJobs: (items) => store.failJobs(newest(items)),
        deferJobs: (items) => store.deferJobs(newest(items)),
        releaseJobs: (items) => store.releaseJobs(newest(items)),
      })
    }),
  )

  it.effect("stops at the first seed that violates an invariant, and reports it", () =>
    Effect.gen(function* () {
      const runs = { layer: withoutFence, seed: 1, runs: 400 }
      const { broken, runs: count } = yield* simulateRuns(runs)
      if (broken === undefined) throw new Error("nothing was noticed")
      expect(broken.seed).toBe(count)
      expect(["fencing", "legal transitions"]).toContain(broken.violation?.invariant)
      expect(describeBroken(broken)).toContain(`seed ${broken.seed} broke "`)
      // And again, alone.
      const again = yield* simulateRuns({ ...runs, seed: broken.seed, runs: 1 })
      expect(again.broken?.violation).toEqual(broken.violation)
    }),
  )

  it.effect("counts runs and jobs, reports each, and lists coverage that was not reached", () =>
    Effect.gen(function* () {
      const told: Array<number> = []
      const summary = yield* simulateRuns({
        layer: MemoryStores.layer,
        seed: 1,
        runs: 3,
        jobs: 4,
        onRun: (soFar) => void told.push(soFar.runs),
      })
      expect(told).toEqual([1, 2, 3])
      expect(summary).toMatchObject({ runs: 3, broken: undefined })
      expect(summary.jobs).toBeGreaterThanOrEqual(3)
      expect(summary.unreached.length).toBeGreaterThan(0)
    }),
  )
})
