import { describe, expect, it } from "@effect/vitest"
import { Clock, Effect, Exit, Fiber } from "effect"
import { Dice } from "../src/Dice.ts"
import { Kernel } from "../src/Kernel.ts"
import { Network, type Remote } from "../src/Network.ts"
import { drawProfile, noFaults, type Profile } from "../src/Profile.ts"
import { SimulatedProcess } from "../src/SimulatedProcess.ts"

const makeKernel = (seed = 1) => new Kernel(new Dice(seed), undefined)
const run = (kernel: Kernel, ms: number) => kernel.runUntil(() => false, ms)

describe("Kernel", () => {
  it("runs actions in the order of their times, each on time", () => {
    const kernel = makeKernel()
    const dice = new Dice(7)
    const seen: Array<number> = []
    for (let n = 0; n < 1_000; n++) {
      const ms = dice.between(0, 300)
      kernel.after(ms, () => {
        expect(kernel.elapsedMs).toBe(ms)
        seen.push(ms)
      })
    }
    run(kernel, 300)
    expect(seen).toHaveLength(1_000)
    expect(seen).toEqual(seen.toSorted((a, b) => a - b))
    expect(kernel.elapsedMs).toBe(300)
  })

  it("uses the seed to order simultaneous actions", () => {
    const orderOf = (seed: number) => {
      const kernel = makeKernel(seed)
      const seen: Array<number> = []
      for (let n = 0; n < 8; n++) kernel.after(5, () => void seen.push(n))
      run(kernel, 5)
      return seen.join("")
    }
    expect(orderOf(1)).toBe(orderOf(1))
    expect(new Set([1, 2, 3, 4, 5].map(orderOf)).size).toBeGreaterThan(3)
  })

  it("detects work that continues without time passing", () => {
    const kernel = makeKernel()
    new SimulatedProcess(kernel, "busy").run(Effect.forever(Effect.yieldNow))
    run(kernel, 1_000)
    expect(kernel.violation).toMatchObject({ invariant: "progress" })
  })

  it("ends at the first violation", () => {
    const kernel = makeKernel()
    let later = false
    kernel.after(1, () => kernel.violate("first", "a"))
    kernel.after(2, () => {
      later = true
      kernel.violate("second", "b")
    })
    run(kernel, 10)
    expect([kernel.violation, later]).toEqual([{ invariant: "first", detail: "a", atMs: 1 }, false])
  })
})

describe("SimulatedProcess", () => {
  it("sleeps in virtual time, with its own clocks", () => {
    const kernel = makeKernel()
    const process = new SimulatedProcess(kernel, "p", -3_600_000)
    const wakings: Array<readonly [wall: number, monotonic: bigint]> = []
    process.run(
      Effect.gen(function* () {
        yield* Effect.sleep("2 days")
        wakings.push([yield* Clock.currentTimeMillis, yield* Clock.monotonicTimeNanos])
      }),
    )
    run(kernel, 3 * 86_400_000)
    const wokenAt = kernel.now - 86_400_000
    // The monotonic one begins with the process.
    expect(wakings).toEqual([[wokenAt - 3_600_000, BigInt(2 * 86_400_000) * 1_000_000n]])
  })

  it("has a monotonic clock that may tick a little faster or slower than the stores'", () => {
    for (const rate of [0.999, 1.001]) {
      const kernel = makeKernel()
      const process = new SimulatedProcess(kernel, "p", 0, rate)
      let woken: readonly [after: number, monotonic: bigint] | undefined
      process.run(
        Effect.gen(function* () {
          yield* Effect.sleep("1000 seconds")
          woken = [kernel.elapsedMs, yield* Clock.monotonicTimeNanos]
        }),
      )
      run(kernel, 2_000_000)
      expect(Math.abs((woken?.[0] ?? 0) - 1_000_000 / rate)).toBeLessThanOrEqual(1)
      expect(Number(woken?.[1] ?? 0n) / 1_000_000).toBeCloseTo(1_000_000, -1)
    }
  })

  it("does nothing after it is killed, not even its finalizers", () => {
    const kernel = makeKernel()
    const process = new SimulatedProcess(kernel, "p")
    const done: Array<string> = []
    process.run(
      Effect.ensuring(
        Effect.andThen(
          Effect.sleep(10),
          Effect.sync(() => done.push("slept")),
        ),
        Effect.sync(() => done.push("finalizer")),
      ),
    )
    process.onKilled(() => done.push("noticed"))
    kernel.after(5, () => process.kill())
    kernel.after(6, () => process.deliver(() => done.push("delivered")))
    run(kernel, 1_000)
    expect(done).toEqual(["noticed"])
  })

  it("catches up immediately when it resumes", () => {
    const kernel = makeKernel()
    const process = new SimulatedProcess(kernel, "p")
    const woken: Array<number> = []
    for (const ms of [10, 20, 400])
      process.run(
        Effect.andThen(
          Effect.sleep(ms),
          Effect.sync(() => woken.push(kernel.elapsedMs)),
        ),
      )
    kernel.after(5, () => process.freeze(100))
    run(kernel, 50)
    expect([woken, process.stoodStillSince(kernel.now)]).toEqual([[], true])
    run(kernel, 450)
    expect(woken).toEqual([105, 105, 400])
    expect(process.stoodStillSince(kernel.now)).toBe(false)
  })

  it("can be interrupted, and then runs its finalizers", () => {
    const kernel = makeKernel()
    const process = new SimulatedProcess(kernel, "p")
    const done: Array<string> = []
    const fiber = process.run(
      Effect.ensuring(
        Effect.never,
        Effect.sync(() => done.push("finalizer")),
      ),
    )
    kernel.after(5, () => process.deliver(() => fiber.interruptUnsafe()))
    run(kernel, 10)
    expect(done).toEqual(["finalizer"])
  })
})

describe("Network", () => {
  const remote = (): Remote => ({ name: "remote", away: false })

  /** Makes 200 calls with these faults. Returns how many took effect, and how many the caller saw succeed. */
  const call = (faults: Partial<Profile["faults"]>, away = false, killAfterMs?: number) => {
    const kernel = makeKernel()
    const profile = { ...drawProfile(new Dice(1), {}), latencyMs: 10, faults: { ...noFaults, ...faults } }
    const network = new Network(kernel, profile, new SimulatedProcess(kernel, "store"))
    const process = new SimulatedProcess(kernel, "p")
    const line = { ...remote(), away }
    let done = 0
    let seen = 0
    const once = network.call(process, {
      remote: line,
      operation: "op",
      step: Effect.sync(() => void (done += 1)),
      lost: (cause) => cause,
    })
    const count = Effect.map(Effect.exit(once), (exit) => void (seen += Exit.isSuccess(exit) ? 1 : 0))
    const fiber = process.run(
      Effect.forEach(Array.from({ length: 200 }), () => count, { concurrency: 200, discard: true }),
    )
    if (killAfterMs !== undefined) kernel.after(killAfterMs, () => process.kill())
    run(kernel, 1_000_000)
    if (killAfterMs === undefined) expect(fiber.pollUnsafe(), "every call is answered").toBeDefined()
    return { done, seen, cutOff: network.cutOffSince(process, "remote", 0) }
  }

  it("delivers every call without faults", () => {
    expect(call({})).toEqual({ done: 200, seen: 200, cutOff: false })
  })

  it("refuses a call that is not delivered: it has no effect", () => {
    const { cutOff, done, seen } = call({ refused: 0.5 })
    expect(done).toBe(seen)
    expect(done).toBeGreaterThan(50)
    expect(done).toBeLessThan(150)
    expect(cutOff).toBe(true)
    expect(call({}, true)).toEqual({ done: 0, seen: 0, cutOff: true })
  })

  it("loses responses: the call has taken effect", () => {
    const { done, seen } = call({ answerLost: 0.5 })
    expect(done).toBe(200)
    expect(seen).toBeGreaterThan(50)
    expect(seen).toBeLessThan(150)
  })

  it("may or may not deliver the calls of a killed process", () => {
    const { done, seen } = call({}, false, 0)
    expect(seen).toBe(0)
    expect(done).toBeGreaterThan(50)
    expect(done).toBeLessThan(150)
  })

  it("runs each step at the remote's time, not the caller's", () => {
    const kernel = makeKernel()
    const profile = { ...drawProfile(new Dice(1), {}), latencyMs: 0, faults: noFaults }
    const network = new Network(kernel, profile, new SimulatedProcess(kernel, "store"))
    const process = new SimulatedProcess(kernel, "p", 86_400_000)
    const asked = process.run(
      network.call(process, { remote: remote(), operation: "op", step: Clock.currentTimeMillis, lost: String }),
    )
    run(kernel, 1)
    expect(Effect.runSync(Fiber.join(asked))).toBe(kernel.now - 1)
  })
})
