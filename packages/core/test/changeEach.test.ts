import { expect, it } from "@effect/vitest"
import { Clock, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { changeEach } from "@kiln/core/effect"
import { fixtures } from "@kiln/conformance"
import { StoreUnavailable } from "@kiln/core/domain"

const unavailable = new StoreUnavailable({ operation: "test", cause: "down" })
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

it.effect("a failure of the store lets the changes that have begun end, and begins no other", () =>
  Effect.gen(function* () {
    const begun: Array<string> = []
    const ended: Array<string> = []
    const changing = yield* Effect.forkChild(
      Effect.flip(
        changeEach(jobs, (id) =>
          Effect.gen(function* () {
            begun.push(id)
            if (id === fixtures.jobId(2)) return yield* Effect.sleep(5).pipe(Effect.andThen(Effect.fail(unavailable)))
            yield* Effect.sleep(10)
            ended.push(id)
            return "changed" as const
          }),
        ),
      ),
    )
    yield* TestClock.adjust(100)
    expect(yield* Fiber.join(changing)).toBe(unavailable)
    expect([begun.length, ended.length]).toEqual([8, 7])
  }),
)
