import { describe, expect, it } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import type { Job } from "@kiln/core/domain"
import { jobTransitions } from "@kiln/core/rules"
import { JobStore } from "@kiln/core/ports"
import { findDifference } from "../src/index.ts"
import { MemoryStores } from "@kiln/testing"

/** One memory store per place, opened again and again: as if it were durable and shared. */
const shared = {
  place: Effect.map(Layer.build(Layer.fresh(MemoryStores.layer)), Layer.succeedContext),
  capabilities: { durable: true, multiProcess: true },
}

/** The memory stores, with another `JobStore` made of theirs. */
const withJobs = (change: (jobs: JobStore["Service"]) => Partial<JobStore["Service"]>) =>
  Layer.effectContext(
    Effect.map(Layer.build(Layer.fresh(MemoryStores.layer)), (context) => {
      const jobs = Context.get(context, JobStore)
      return Context.add(context, JobStore, { ...jobs, ...change(jobs) })
    }),
  )

it("random histories reach everything", async () => {
  const seen = new Set<string>()
  const sighted = (what: string): void => void seen.add(what)
  expect(await findDifference({ ...shared, runs: 120, seed: 2, sighted })).toBe(undefined)
  const zombies = [
    "held by another",
    "held since long",
    "waiting by another",
    "waiting since long",
    "done",
    "failed",
    "erased",
    "removed",
  ]
  expect([...seen].toSorted()).toEqual(
    [
      ...Object.keys(jobTransitions),
      "removed",
      "retried",
      ...zombies.map((fate) => `a zombie meets a job ${fate}`),
      "interrupted: did not happen",
      "opened again",
      "opened again beside itself",
    ].toSorted(),
  )
})

describe("the comparison detects", () => {
  it("a store that loses data when it is reopened", async () => {
    const forgetful = {
      place: Effect.succeed(MemoryStores.layer),
      capabilities: { durable: true, multiProcess: false },
    }
    expect(await findDifference({ ...forgetful, runs: 50, seed: 1, shrink: false })).toContain("reopen")
  })

  it("two openings that do not see each other's work", async () => {
    const apart = { place: Effect.succeed(MemoryStores.layer), capabilities: { durable: true, multiProcess: true } }
    expect(await findDifference({ ...apart, runs: 50, seed: 1, shrink: false })).toBeTypeOf("string")
  })

  it("a batch that an interruption leaves partly done", async () => {
    const layer = withJobs((jobs) => ({
      createJobs: (items) =>
        Effect.map(
          Effect.forEach(items, (item) => Effect.tap(jobs.createJobs([item]), Effect.yieldNow)),
          (outcomes) => outcomes.flat(),
        ),
    }))
    const difference = await findDifference({ layer, runs: 300, seed: 1, shrink: false })
    expect(difference).toMatch(/interrupted after/)
  })

  it("nothing in a store whose interrupted verbs are atomic", async () => {
    const seen = new Set<string>()
    const layer = withJobs((jobs) => ({
      createJobs: (items) => Effect.tap(Effect.andThen(Effect.yieldNow, jobs.createJobs(items)), Effect.yieldNow),
    }))
    const sighted = (what: string): void => void seen.add(what)
    expect(await findDifference({ layer, runs: 60, seed: 1, sighted })).toBe(undefined)
    expect(seen).toContain("interrupted: happened")
    expect(seen).toContain("interrupted: did not happen")
  })

  it("a store that violates an invariant, even if the reference does the same", async () => {
    const broken = async (change: Parameters<typeof withJobs>[0]): Promise<string | undefined> => {
      const layer = withJobs(change)
      return findDifference({ layer, reference: layer, runs: 300, seed: 1, shrink: false })
    }
    // A lost worker costs a failure as well.
    const costly = (job: Job | undefined) => job && { ...job, failures: job.failures + job.lostWorkers }
    expect(
      await broken((jobs) => ({ findJobs: (items) => Effect.map(jobs.findJobs(items), (found) => found.map(costly)) })),
    ).toMatch(
      /an invariant failed: (\w*[cC]laimJobs|expireJobs) at .* (is not a move of the table \(.*(claimed|lost): failures is wrong|failures and lost workers must not exceed attempts)/,
    )
    // Expiring jobs deletes the data of those that are finished.
    expect(
      await broken((jobs) => ({
        expireJobs: (limit) => Effect.tap(jobs.expireJobs(limit), jobs.expireData(0, limit)),
      })),
    ).toMatch(/an invariant failed: expireJobs at .* is not a move of the table/)
    // The token of a claim is not the job's.
    expect(
      await broken((jobs) => ({
        claimJobs: (request) =>
          Effect.map(jobs.claimJobs(request), (result) => ({
            ...result,
            claims: result.claims.map((claim) => ({ ...claim, token: claim.token - 1 })),
          })),
      })),
    ).toMatch(/was claimed with \d+ and stands at \d+/)
  })
})

describe("a difference", () => {
  // Nothing is ever given back.
  const layer = withJobs(() => ({ releaseJobs: (items) => Effect.succeed(items.map(() => "Written" as const)) }))

  it("is shrunk to its minimum, and is reproducible by its seed", async () => {
    const found = (await findDifference({ layer, runs: 300, seed: 7 })) ?? ""
    const [, steps = ""] = /Counterexample: \[\[(.*)\]\]/.exec(found) ?? []
    const [first, ...others] = steps.match(/(?<=^|,)[a-z]+[A-Z]?[a-z]* (?=[[{])/g) ?? []
    expect(first).toBe("releaseJobs ")
    // The last step of a history stays, whatever it is.
    expect(others.length).toBeLessThan(2)
    expect(found).toMatch(/seed: 7, path: "/)
    expect(await findDifference({ layer, runs: 300, seed: 7 })).toBe(found)
  })
})
