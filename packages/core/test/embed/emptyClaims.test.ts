import { createEngine, jobKind } from "@kiln/core"
import { memoryBlobs } from "@kiln/testing"
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { everyStore } from "../support/everyStore.ts"
import { adapterWith } from "../support/faults.ts"

describe("a worker with eight slots and jobs of 200 projects", () => {
  it.each(everyStore)("makes no claim that finds nothing while there are jobs (%s)", async (_, open) => {
    await using opened = await open()
    const sizes: Array<number> = []
    let started = 0
    const gate = Promise.withResolvers<void>()
    const waiting = jobKind({
      name: "wait",
      request: z.object({}),
      run: async () => {
        started++
        await gate.promise
        return { output: {} }
      },
    })
    await using engine = await createEngine({
      store: adapterWith(opened.store, ({ claimJobs }) => ({
        claimJobs: (request) =>
          Effect.tap(claimJobs(request), ({ claims }) =>
            // Claims behind the one that took the last job find nothing, and there may be some.
            Effect.sync(() => started < 200 && sizes.push(claims.length)),
          ),
      })),
      blobs: memoryBlobs(),
      kinds: [waiting],
      settings: { concurrency: 8, pollIntervalMs: 60_000, claimCheckIntervalMs: 60_000 },
      log: false,
    })
    const jobs = await Promise.all(
      Array.from({ length: 200 }, (_empty, n) => engine.submit("wait", {}, { project: `project-${n}` })),
    )
    sizes.length = 0
    gate.resolve()
    await Promise.all(jobs.map((job) => engine.wait(job)))
    // A claim that was sent before the gate opened may find all slots taken, and one beside a completion that did not fill its slots.
    expect(sizes.filter((size) => size === 0).length).toBeLessThanOrEqual(3)
  })
})
