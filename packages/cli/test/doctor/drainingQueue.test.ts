import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import type { Board } from "@kiln/core/domain"
import type { QueueGroup } from "@kiln/core/ports"
import { expect, it } from "vitest"
import { checkQueue } from "../../src/doctor/checkQueue.ts"

const board: Board = {
  switches: { ai: true, audio: true, images: true },
  prices: {},
  liveKinds: [],
  lastServedAt: {},
  pausedKinds: [],
  projectConcurrency: {},
}
const ready = (count: number, oldestMs: number): QueueGroup => ({
  kind: "report",
  mode: "sandbox",
  state: "ready",
  count,
  oldestMs,
})
const running: QueueGroup = { kind: "report", mode: "sandbox", state: "running", count: 1, oldestMs: 0 }

/** Checks a queue that looks like this, one look after another; the last one stays. */
const check = (...looks: ReadonlyArray<ReadonlyArray<QueueGroup>>) => {
  let look = 0
  const countQueue = Effect.sync(() => looks[Math.min(look++, looks.length - 1)] ?? [])
  return Effect.gen(function* () {
    const checking = yield* Effect.forkChild(checkQueue({ countQueue }, board))
    yield* TestClock.adjust("1 minute")
    return yield* Fiber.join(checking)
  }).pipe(Effect.provide(TestClock.layer()), Effect.scoped, Effect.runPromise)
}

it("reports jobs of which none runs", async () => {
  const stuck = await check([ready(9, 200_000)])
  expect(stuck).toMatchObject({ status: "problem" })
  expect(stuck.findings[0]?.message).toBe(
    "9 jobs of type report (sandbox) ready, the oldest for 3 min, and not one running",
  )
})

it.each([
  ["one is seen running", [[ready(9, 200_000)], [ready(9, 200_500)], [ready(8, 200_700), running]]],
  ["their number falls", [[ready(9, 200_000)], [ready(8, 200_500)]]],
  ["the oldest was taken", [[ready(9, 200_000)], [ready(9, 199_000)]]],
  ["all are gone", [[ready(9, 200_000)], []]],
])("does not report jobs that drain: %s", async (_what, looks) => {
  expect((await check(...looks)).status).toBe("ok")
})

it("calls a backlog that drains a backlog", async () => {
  const backlog = await check([ready(9, 2_000_000)], [ready(8, 2_000_000)])
  expect(backlog.status).toBe("warning")
  expect(backlog.findings[0]?.message).toMatch(/the oldest for 33 min, and few running$/)
})
