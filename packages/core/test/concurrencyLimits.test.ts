import { assert, describe, it } from "@effect/vitest"
import type { EngineSettings } from "@kiln/core/effect"
import { Effect } from "effect"
import { mp3, principal, speaks, within } from "./support/harness.ts"
import { finished, running, submitSpeech } from "./support/jobs.ts"

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
