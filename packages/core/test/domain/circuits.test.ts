import { describe, expect, it } from "vitest"
import { afterAnswerInvalid, afterCallFailed, type Circuit, closedCircuit } from "../../src/domain/Circuit.ts"
import { StoreTime, readClocks } from "../../src/domain/StoreTime.ts"

const limits = {
  maxFailures: 5,
  failingPauseMs: 1_000,
  failingPauseMaxMs: 8_000,
  brokenPauseMs: 10_000,
  brokenPauseMaxMs: 40_000,
}

/** The circuit after this many invalid answers, each to another caller. */
const afterInvalid = (count: number, from: Circuit = closedCircuit): Circuit =>
  Array.from({ length: count }, (_, n) => `key_${n}`).reduce(
    (circuit, caller) => afterAnswerInvalid(circuit, { caller, kind: "speech" }, limits, 0),
    from,
  )

describe("invalid answers", () => {
  const opened = { state: "open", reason: "failing", until: 1_000, openings: 1, isInvalid: true }

  it("open the circuit from the fifth on, and not earlier although there were enough callers", () => {
    expect(afterInvalid(4)).toMatchObject({ state: "closed", invalid: { count: 4 } })
    expect(afterInvalid(5)).toEqual(opened)
  })

  it("keep no more than three callers", () => {
    expect(afterInvalid(4)).toMatchObject({ invalid: { callers: ["key_0", "key_1", "key_2"], kinds: ["speech"] } })
  })

  it("are still counted after a failed call between them", () => {
    const failed = afterCallFailed(afterInvalid(4), { reason: "failing" }, limits, 0)
    expect(failed).toMatchObject({ state: "closed", failures: 1, invalid: { count: 4 } })
    expect(afterInvalid(1, failed)).toEqual(opened)
    expect(afterCallFailed(closedCircuit, { reason: "failing" }, limits, 0)).toEqual({ state: "closed", failures: 1 })
  })

  it("change nothing if they arrive during a pause, and close the circuit after it", () => {
    const paused = afterCallFailed(closedCircuit, { reason: "quota" }, limits, 0)
    const answer = (now: number) => afterAnswerInvalid(paused, { caller: "key_1", kind: "speech" }, limits, now)
    expect(answer(9_999)).toBe(paused)
    expect(answer(10_000)).toMatchObject({ state: "closed", failures: 0, invalid: { count: 1 } })
  })
})

describe("store time", () => {
  it("reads both clocks in milliseconds", () => {
    const clock = { currentTimeMillisUnsafe: () => 7, monotonicTimeNanosUnsafe: () => 1_500_000n }
    expect(readClocks(clock)).toEqual({ wallMs: 7, monotonicMs: 1.5 })
  })

  it.each([
    [5_000, undefined],
    [5_001, 5_001],
    [-5_001, -5_001],
  ])("a wall clock that moves by %i ms beside the monotonic clock was set by %s", (byMs, jump) => {
    const time = new StoreTime()
    time.now({ wallMs: 100_000, monotonicMs: 0 })
    time.now({ wallMs: 101_000 + byMs, monotonicMs: 1_000 })
    expect(time.takeJump()).toBe(jump)
  })
})
