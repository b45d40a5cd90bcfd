import { assert, describe, it } from "@effect/vitest"
import { limits } from "@kiln/core/domain"
import { Effect } from "effect"
import { corpus } from "./corpus/corpus.ts"
import type { Outcome } from "./corpus/HostileFile.ts"
import { probeBytes } from "./support/probe.ts"

/** Returns the outcome of a job with this measurement. */
const outcomeOf = (seconds: number): Outcome =>
  seconds < limits.minMeasuredSeconds
    ? "audio_too_short"
    : seconds > limits.maxMeasuredSeconds
      ? "audio_too_long"
      : Math.ceil(seconds)

/** Milliseconds of this thread's CPU time, so that other processes do not count. */
const workedMs = (): number => {
  const { system, user } = process.threadCpuUsage()
  return (system + user) / 1000
}

/** Measures the longest time without a timer, in CPU time. */
const watchGaps = () => {
  let longest = 0
  let last = workedMs()
  const look = () => {
    longest = Math.max(longest, workedMs() - last)
    last = workedMs()
  }
  const timer = setInterval(look, 1)
  return () => {
    clearInterval(timer)
    look()
    return longest
  }
}

/** The chunk size of stores. */
const CHUNK_BYTES = 65_536

describe("a hostile file", () => {
  it("has a unique name, and there are many", () => {
    assert.isAtLeast(new Set(corpus.map(({ name }) => name)).size, 60)
    assert.strictEqual(new Set(corpus.map(({ name }) => name)).size, corpus.length)
  })

  it.live.each(corpus)("$name", ({ file, format, outcome }) =>
    Effect.gen(function* () {
      const bytes = file()
      assert.isAtMost(bytes.length, limits.uploadBytes)
      const gaps = watchGaps()
      const began = workedMs()
      const measured = yield* probeBytes(format, bytes, CHUNK_BYTES).pipe(
        Effect.map((info) => outcomeOf(info.seconds ?? NaN)),
        Effect.catchTag("MediaUnreadable", () => Effect.succeed<Outcome>("audio_unreadable")),
      )
      const tookMs = workedMs() - began
      const gapMs = gaps()
      assert.strictEqual(measured, outcome === "refused" ? "audio_unreadable" : outcome)
      // About ten times the usual time on two busy cores.
      assert.isBelow(gapMs, 200)
      assert.isBelow(tookMs, 15_000)
    }),
  )
})
