import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Exit, Scope } from "effect"
import { TestClock } from "effect/testing"
import { Deadlines } from "../src/engine/Deadlines.ts"

const open = Effect.gen(function* () {
  const scope = yield* Scope.make()
  const deadlines = new Deadlines(yield* Clock.Clock, scope, Effect.runForkWith(yield* Effect.context()))
  const passed: Array<string> = []
  const set = (name: string, ms: number) => {
    const deadline = { at: 0, pass: () => void passed.push(name) }
    deadlines.add(ms, deadline)
    return () => deadlines.withdraw(deadline)
  }
  return { passed, scope, set }
})

describe("deadlines", () => {
  it.effect("pass at their times, in any order of setting", () =>
    Effect.gen(function* () {
      const { passed, set } = yield* open
      set("late", 3_000)
      set("early", 1_000)
      yield* TestClock.adjust(999)
      assert.deepStrictEqual(passed, [])
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(passed, ["early"])
      set("between", 500)
      yield* TestClock.adjust(500)
      assert.deepStrictEqual(passed, ["early", "between"])
      yield* TestClock.adjust(1_500)
      assert.deepStrictEqual(passed, ["early", "between", "late"])
      set("again", 10)
      yield* TestClock.adjust(10)
      assert.deepStrictEqual(passed.slice(3), ["again"])
    }),
  )

  it.effect("do not pass once they are withdrawn", () =>
    Effect.gen(function* () {
      const { passed, set } = yield* open
      const withdraw = set("one", 1_000)
      set("other", 2_000)
      withdraw()
      withdraw()
      yield* TestClock.adjust(5_000)
      assert.deepStrictEqual(passed, ["other"])
    }),
  )

  it.effect("of no time pass at once, and those that are left pass when the scope closes", () =>
    Effect.gen(function* () {
      const { passed, scope, set } = yield* open
      set("now", 0)
      yield* TestClock.adjust(0)
      assert.deepStrictEqual(passed, ["now"])
      set("never", 1e9)
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(passed, ["now", "never"])
      set("too late", 1e9)
      yield* TestClock.adjust(0)
      assert.deepStrictEqual(passed, ["now", "never", "too late"])
    }),
  )
})
