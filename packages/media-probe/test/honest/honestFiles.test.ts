import { assert, describe, it } from "@effect/vitest"
import type { AudioFormat } from "@kiln/core/domain"
import { Effect } from "effect"
import { secondsOf } from "../support/probe.ts"
import { fixtures, readFixture } from "./fixtures.ts"

/** Seconds that a measurement may differ from a full decode. */
const TOLERANCE_SECONDS = 0.1

describe("a committed honest file", () => {
  it("is small, and there are many", () => {
    const sizes = fixtures().map(({ file }) => readFixture(file).length)
    assert.isAtLeast(sizes.length, 60)
    assert.isAtMost(Math.max(...sizes), 32_768)
    assert.isAtMost(
      sizes.reduce((sum, bytes) => sum + bytes, 0),
      900_000,
    )
  })

  it.effect.each(fixtures())("$file", ({ file, format, seconds }) =>
    Effect.gen(function* () {
      const measured = yield* secondsOf(format as AudioFormat, readFixture(file))
      assert.closeTo(measured ?? NaN, seconds, TOLERANCE_SECONDS)
    }),
  )
})
