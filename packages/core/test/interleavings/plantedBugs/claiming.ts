import type { ClaimResult } from "@kiln/core/ports"
import { Clock, Effect } from "effect"
import { inJobs, type PlantedBug, present } from "./PlantedBug.ts"

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
  {
    bug: "a heartbeat extends another worker's lease: by id alone",
    promise: 15,
    race: "heartbeat × complete",
    shows: /^true .*A wrote extendLeases with the token 1/,
    plant: inJobs((adapters) => ({
      extendLeases: (items) => Effect.flatMap(present(adapters, items), adapters.jobs.extendLeases),
    })),
  },
  {
    bug: "a release checks only the id, so it ends the new holder's claim",
    promise: 15,
    race: "release × takeover",
    shows: /^true .*wrote releaseJobs with the token/,
    plant: inJobs((adapters) => ({
      releaseJobs: (items) => Effect.flatMap(present(adapters, items), adapters.jobs.releaseJobs),
    })),
  },
]
