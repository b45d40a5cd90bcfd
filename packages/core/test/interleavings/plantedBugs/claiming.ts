import type { ClaimResult } from "@kiln/core/ports"
import { Clock, Effect } from "effect"
import { inJobs, type PlantedBug } from "./PlantedBug.ts"

/** In leases and gates. */
export const claiming: ReadonlyArray<PlantedBug> = [
  {
    bug: "two concurrent claims get the same job",
    promise: 13,
    race: "claim × claim",
    shows: /^true .*(expected [23] to equal 1|while [ABC] had it)/,
    plant: inJobs(({ jobs }, wait) => {
      let underWay: ClaimResult | undefined
      return {
        claimJobs: (request) =>
          Effect.gen(function* () {
            if (underWay !== undefined) return underWay
            const result = yield* jobs.claimJobs(request)
            underWay = result
            yield* wait("the claim is being written")
            underWay = undefined
            return result
          }),
      }
    }),
  },
  {
    bug: "leases are granted by one clock and compared by another",
    promise: 17,
    race: "heartbeat × complete",
    shows: /^true .*while A had it/,
    plant: inJobs(({ jobs }) => ({
      claimJobs: (request) =>
        Effect.flatMap(Clock.Clock, (clock) =>
          Effect.provideService(jobs.claimJobs(request), Clock.Clock, {
            ...clock,
            currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() + 15_000,
          }),
        ),
    })),
  },
]
