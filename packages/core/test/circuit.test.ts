import { assert, describe, it } from "@effect/vitest"
import {
  afterAnswerInvalid,
  afterCallFailed,
  type CallFailure,
  type CallSource,
  type Circuit,
  type CircuitLimits,
  closedCircuit,
  defaultCircuitLimits,
  passageOf,
} from "@kiln/core/worker"
import fc from "fast-check"

const limits: CircuitLimits = {
  maxFailures: 3,
  failingPauseMs: 1_000,
  failingPauseMaxMs: 8_000,
  brokenPauseMs: 10_000,
  brokenPauseMaxMs: 40_000,
}
const failing: CallFailure = { reason: "failing" }
const quota: CallFailure = { reason: "quota" }

/** After these calls failed, one after the other, each as soon as it might. */
const failInTurn = (failures: ReadonlyArray<CallFailure>, now = 0): { circuit: Circuit; now: number } =>
  failures.reduce(
    (at, failure) => {
      const next = at.circuit.state === "open" ? at.circuit.until : at.now
      return { circuit: afterCallFailed(at.circuit, failure, limits, next), now: next }
    },
    { circuit: closedCircuit, now },
  )

const pauseOf = ({ circuit, now }: { circuit: Circuit; now: number }): number | undefined =>
  circuit.state === "open" ? circuit.until - now : undefined

describe("a provider's circuit", () => {
  it("opens after the maximum number of consecutive failures and not earlier", () => {
    assert.deepStrictEqual(failInTurn([failing, failing]).circuit, { state: "closed", failures: 2 })
    assert.deepStrictEqual(failInTurn([failing, failing, failing], 7).circuit, {
      state: "open",
      reason: "failing",
      until: 1_007,
      openings: 1,
    })
  })

  it("opens immediately if the provider is broken", () => {
    assert.deepStrictEqual(failInTurn([quota]).circuit, { state: "open", reason: "quota", until: 10_000, openings: 1 })
    assert.strictEqual(pauseOf(failInTurn([{ reason: "configuration" }])), 10_000)
  })

  it("rejects calls until the pause ends, then allows one call", () => {
    const { circuit } = failInTurn([quota])
    assert.strictEqual(passageOf(closedCircuit, 0), "open_to_all")
    assert.strictEqual(passageOf(circuit, 9_999), "paused")
    assert.strictEqual(passageOf(circuit, 10_000), "one_call")
  })

  it("opens again after each failed test call, for twice as long, up to the maximum pause", () => {
    const pauses = (failure: CallFailure, first: number) =>
      Array.from({ length: 5 }, (_, n) => pauseOf(failInTurn(Array.from({ length: first + n }, () => failure))))
    assert.deepStrictEqual(pauses(failing, 3), [1_000, 2_000, 4_000, 8_000, 8_000])
    assert.deepStrictEqual(pauses(quota, 1), [10_000, 20_000, 40_000, 40_000, 40_000])
    // One try is enough: it need not fail a few times in a row again.
    assert.strictEqual(pauseOf(failInTurn([failing, failing, failing, failing])), 2_000)
  })

  it("honors the pause that the provider asks for, up to the maximum", () => {
    const asked = (retryAfterMs: number) => pauseOf(failInTurn([{ ...quota, retryAfterMs }]))
    assert.strictEqual(asked(15_000), 15_000)
    assert.strictEqual(asked(5_000), 10_000)
    for (const absurd of [Number.MAX_SAFE_INTEGER, Infinity]) assert.strictEqual(asked(absurd), 40_000)
    for (const absurd of [-1, Number.NaN]) assert.strictEqual(asked(absurd), 10_000)
  })

  it("is not changed by calls that end after the one that opened it", () => {
    const { circuit } = failInTurn([quota])
    assert.strictEqual(afterCallFailed(circuit, failing, limits, 5_000), circuit)
    assert.strictEqual(afterCallFailed(circuit, quota, limits, 9_999), circuit)
  })

  it("always pauses for more than no time and at most the maximum pause", () => {
    const failure = fc.record({
      reason: fc.constantFrom("failing" as const, "quota" as const, "configuration" as const),
      retryAfterMs: fc.option(fc.double(), { nil: undefined }),
    })
    fc.assert(
      fc.property(fc.array(fc.tuple(failure, fc.nat({ max: 400_000 })), { maxLength: 200 }), (failures) => {
        let circuit = closedCircuit
        let now = 0
        for (const [each, laterMs] of failures) {
          now += laterMs
          const before = circuit
          circuit = afterCallFailed(circuit, each, defaultCircuitLimits, now)
          if (circuit.state !== "open" || circuit === before) continue
          const longest =
            each.reason === "failing" ? defaultCircuitLimits.failingPauseMaxMs : defaultCircuitLimits.brokenPauseMaxMs
          assert.isAbove(circuit.until, now)
          assert.isAtMost(circuit.until - now, longest)
        }
      }),
    )
  })
})

describe("invalid answers", () => {
  const source = fc.record({
    caller: fc.constantFrom("a", "b", "c", "d"),
    kind: fc.constantFrom("speech", "voice", "dub", "film"),
  })
  const sources = fc.array(source, { maxLength: 40 })
  const run = (from: ReadonlyArray<CallSource>, begin: Circuit = closedCircuit) =>
    from.reduce((circuit, one) => afterAnswerInvalid(circuit, one, limits, 0), begin)
  const distinct = (values: ReadonlyArray<string>) => new Set(values).size

  it("in a row open it exactly if they are enough, from several callers or several kinds", () => {
    fc.assert(
      fc.property(sources, (from) => {
        const { state } = run(from)
        // The circuit does not change any more once it is open, so some beginning of them decides.
        const isEnough = from.some((_, n) => {
          const first = from.slice(0, n + 1)
          const callers = distinct(first.map(({ caller }) => caller))
          const kinds = distinct(first.map(({ kind }) => kind))
          return first.length >= limits.maxFailures && (callers >= 3 || kinds >= 3)
        })
        assert.strictEqual(state, isEnough ? "open" : "closed")
      }),
    )
  })

  it("of one caller never open it, between any calls of others that are answered or refused", () => {
    const hostile = { caller: "a", kind: "speech" }
    fc.assert(
      fc.property(fc.array(fc.boolean(), { maxLength: 60 }), (isAnswered) => {
        const circuit = isAnswered.reduce<Circuit>(
          (before, answered) => (answered ? closedCircuit : run([hostile], before)),
          closedCircuit,
        )
        assert.strictEqual(circuit.state, "closed")
      }),
    )
  })

  it("after a pause that they caused double it, and end any other", () => {
    const spread = ["a", "b", "c"].map((caller) => ({ caller, kind: "speech" }))
    const opened = run(spread)
    assert.deepStrictEqual([opened.state, pauseOf({ circuit: opened, now: 0 })], ["open", 1_000])
    const [one] = spread
    if (one === undefined) return
    const again = afterAnswerInvalid(opened, one, limits, 1_000)
    assert.strictEqual(pauseOf({ circuit: again, now: 1_000 }), 2_000)
    const { circuit, now } = failInTurn([quota])
    assert.strictEqual(afterAnswerInvalid(circuit, one, limits, now + 10_000).state, "closed")
  })

  it("do not hide other failures in a row", () => {
    const invalid = run([{ caller: "a", kind: "speech" }])
    const failed = [failing, failing, failing].reduce<Circuit>(
      (at, one) => afterCallFailed(at, one, limits, 0),
      invalid,
    )
    assert.strictEqual(failed.state, "open")
  })
})
