import { expect, it } from "@effect/vitest"
import { Clock, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { changeEach } from "@kiln/core/effect"
import { fixtures } from "@kiln/conformance"

const jobs = Array.from({ length: 16 }, (_, n) => ({ id: fixtures.jobId(n) }))

it.effect(
  "changes of many jobs share the time of their round trips, and their outcomes keep the order of the jobs",
  () =>
    Effect.gen(function* () {
      const changing = yield* Effect.forkChild(
        changeEach(jobs, (id) =>
          // The later a job, the sooner its change has ended.
          Effect.as(Effect.sleep(1_000 - jobs.findIndex((job) => job.id === id)), { refused: id }),
        ),
      )
      yield* TestClock.adjust(2_000)
      expect(yield* Fiber.join(changing)).toEqual(jobs.map(({ id }) => ({ refused: id })))
      expect(yield* Clock.currentTimeMillis).toBe(2_000)
    }),
)
