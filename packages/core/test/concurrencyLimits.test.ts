import { assert, describe, it } from "@effect/vitest"
import type { EngineSettings } from "@kiln/core/effect"
import { Switchboard } from "@kiln/core/ports"
import { Effect } from "effect"
import { mp3, principal, speaks, within } from "./support/harness.ts"
import { anotherWorker } from "./providers/support/twoWorkers.ts"
import { finished, running, submitSpeech } from "./support/jobs.ts"
import { passTime } from "./support/virtualTime.ts"

/** A speech provider that takes a second and counts concurrent calls. */
const countingSpeech = () => {
  const seen = { now: 0, most: 0 }
  const sandbox = speaks(() =>
    Effect.acquireUseRelease(
      Effect.sync(() => {
        seen.now += 1
        seen.most = Math.max(seen.most, seen.now)
      }),
      () => Effect.as(Effect.sleep("1 second"), mp3),
      () => Effect.sync(() => void (seen.now -= 1)),
    ),
  )
  return { seen, sandbox }
}

/** No poll happens on its own during the test. */
const settingsWith = (limits: EngineSettings["limits"]): Partial<EngineSettings> => ({
  limits,
  concurrency: 8,
  pollIntervalMs: 3_600_000,
  leaseDurationMs: 600_000,
})

describe("concurrency limits", () => {
  it.effect("limit concurrent jobs, and a free slot is used immediately", () => {
    const { sandbox, seen } = countingSpeech()
    return Effect.gen(function* () {
      yield* running
      const jobs = yield* Effect.forEach(["a", "b", "c", "d"], (key) => submitSpeech(key))
      const ends = yield* Effect.forEach(jobs, ({ id }) => finished(id, "10 seconds"))
      assert.deepStrictEqual(
        ends.map(({ status }) => status),
        ["done", "done", "done", "done"],
      )
      assert.strictEqual(seen.most, 2)
    }).pipe(within({ sandbox, settings: settingsWith({ perKind: { speech_synthesis: 2 }, perProject: 0 }) }))
  })

  it.effect("are separate for each project", () => {
    const { sandbox, seen } = countingSpeech()
    return Effect.gen(function* () {
      yield* running
      const owners = [principal("sandbox", "a"), principal("sandbox", "b")]
      const jobs = yield* Effect.forEach([1, 2, 3], (n) =>
        Effect.forEach(owners, (who) => Effect.map(submitSpeech(`k${n}`, who), ({ id }) => ({ id, who }))),
      )
      for (const { id, who } of jobs.flat()) assert.strictEqual((yield* finished(id, "10 seconds", who)).status, "done")
      assert.strictEqual(seen.most, 2)
    }).pipe(within({ sandbox, settings: settingsWith({ perKind: {}, perProject: 1 }) }))
  })

  it.effect("of one project are set while workers run, apply to all of them, and end with the limit", () => {
    const { sandbox, seen } = countingSpeech()
    const settings = settingsWith({ perKind: {}, perProject: "share" })
    return Effect.gen(function* () {
      const board = yield* Switchboard
      const [own, other] = [principal("sandbox", "a"), principal("sandbox", "b")]
      yield* running
      yield* anotherWorker(settings)
      const submit = (who: typeof own, keys: ReadonlyArray<number>) =>
        Effect.forEach(keys, (n) => Effect.map(submitSpeech(`k${n}`, who), ({ id }) => ({ id, who })))
      yield* submit(own, [1, 2, 3])
      yield* passTime("500 millis")
      assert.strictEqual(seen.now, 3)
      // The three jobs that run count against it, and are not stopped.
      yield* board.limitProject(own.projectId, 2)
      yield* passTime("600 millis")
      seen.most = seen.now
      const jobs = yield* submit(own, [4, 5, 6, 7, 8, 9])
      const others = yield* submit(other, [1])
      for (const { id, who } of [...jobs, ...others])
        assert.strictEqual((yield* finished(id, "10 seconds", who)).status, "done")
      assert.strictEqual(seen.most, 3)
      yield* board.limitProject(own.projectId, null)
      yield* passTime("600 millis")
      yield* submit(own, [11, 12, 13, 14, 15])
      yield* passTime("500 millis")
      assert.strictEqual(seen.now, 5)
    }).pipe(within({ sandbox, settings }))
  })

  it.effect("are not set by default", () => {
    const { sandbox, seen } = countingSpeech()
    return Effect.gen(function* () {
      yield* running
      const jobs = yield* Effect.forEach(["a", "b", "c", "d"], (key) => submitSpeech(key))
      yield* Effect.forEach(jobs, ({ id }) => finished(id, "10 seconds"))
      assert.strictEqual(seen.most, 4)
    }).pipe(within({ sandbox }))
  })
})
