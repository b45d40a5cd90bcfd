import { assert, describe, it } from "@effect/vitest"
import { JobStore } from "@kiln/core/ports"
import { Worker } from "@kiln/core/worker"
import { Clock, Effect } from "effect"
import { cancelJob } from "../src/engine/cancelJob.ts"
import { Bag, checkClaims, heartbeat, HeldLease, LeaseWatch } from "../src/worker/attempt/leases.ts"
import { storeDown, storesWith } from "./support/faults.ts"
import { mp3, speaks, within } from "./support/harness.ts"
import { finished, readJob, running, submitSpeech } from "./support/jobs.ts"
import { passTime } from "./support/virtualTime.ts"

const leaseDurationMs = 30_000

const watching = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  let sleeps = 0
  const watch = new LeaseWatch(clock, leaseDurationMs)
  const counting: Clock.Clock = new Proxy(clock, {
    get: (target, name) => {
      if (name === "sleep") sleeps += 1
      return Reflect.get(target, name)
    },
  })
  const fiber = Effect.provideService(watch.run, Clock.Clock, counting)
  yield* Effect.forkScoped(fiber, { startImmediately: true })
  const lostAt = new Map<string, number>()
  const hold = (name: string, remainingMs: number) => {
    const lease = new HeldLease({ jobId: `job_${name}`, token: 1 }, watch.now(), remainingMs, leaseDurationMs)
    lease.whenLost(() => lostAt.set(name, watch.now()))
    watch.add(lease)
    return lease
  }
  return { hold, lostAt, sleeps: () => sleeps, watch }
})

/** A clock that stands at a time, with timers that end when the test wakes them. */
const clockAt = (nowMs: () => number, wakes: Array<() => void> = []) =>
  Effect.map(
    Clock.Clock,
    (clock): Clock.Clock =>
      new Proxy(clock, {
        get: (target, name) => {
          if (name === "monotonicTimeNanosUnsafe") return () => BigInt(nowMs()) * 1_000_000n
          if (name === "sleep")
            return () => Effect.callback<void>((resume) => void wakes.push(() => resume(Effect.void)))
          return Reflect.get(target, name)
        },
      }),
  )

describe("the watch over the leases of a worker", () => {
  it.effect("ends each lease at its own time, in whatever order they were added", () =>
    Effect.gen(function* () {
      const { hold, lostAt } = yield* watching
      hold("long", 30_000)
      hold("short", 300)
      yield* passTime(100)
      hold("shorter", 150)
      hold("middle", 10_000)
      yield* passTime("1 minutes")
      const times = Object.fromEntries([...lostAt].map(([name, at]) => [name, Math.round(at)]))
      assert.deepStrictEqual(times, { shorter: 175, short: 200, middle: 10_000, long: 29_900 })
    }).pipe(within()),
  )

  it.effect("goes by the latest renewal, also one that shortens a lease", () =>
    Effect.gen(function* () {
      const { hold, lostAt, watch } = yield* watching
      const longer = hold("longer", 10_000)
      const shorter = hold("shorter", 30_000)
      yield* passTime(5_000)
      longer.renew(watch.now(), 30_000)
      shorter.renew(watch.now(), 3_000)
      // An answer that is overtaken by a later one says nothing.
      longer.renew(watch.now() - 1, 1)
      yield* passTime("1 minutes")
      assert.deepStrictEqual([...lostAt.keys()], ["shorter", "longer"])
      assert.closeTo(lostAt.get("shorter") ?? 0, 7_900, 2)
      assert.closeTo(lostAt.get("longer") ?? 0, 34_900, 2)
    }).pipe(within()),
  )

  it.effect("reports no released lease, and stops sleeping once no lease is held", () =>
    Effect.gen(function* () {
      const { hold, lostAt, sleeps, watch } = yield* watching
      assert.strictEqual(sleeps(), 0)
      const lease = hold("ended", 30_000)
      yield* passTime(2_000)
      watch.delete(lease)
      yield* passTime(5_000)
      const before = sleeps()
      yield* passTime("10 minutes")
      assert.strictEqual(sleeps(), before)
      assert.deepStrictEqual([...lostAt], [])
    }).pipe(within()),
  )

  it.effect("tells everything that waits for the loss of a lease, in order, and later callers at once", () =>
    Effect.gen(function* () {
      const { hold, lostAt } = yield* watching
      const lease = hold("watched", 10_000)
      const told: Array<string> = []
      lease.whenLost(() => told.push("work"))
      lease.whenLost(() => told.push("write"))
      yield* passTime("5 seconds")
      assert.deepStrictEqual(told, [])
      lease.lose()
      lease.lose()
      lease.whenLost(() => told.push("late"))
      assert.deepStrictEqual(told, ["work", "write", "late"])
      assert.isTrue(lostAt.has("watched"))
      const expired = hold("expired", 200)
      yield* passTime("1 seconds")
      expired.lose()
      assert.deepStrictEqual([expired.isLost, expired.isRefused], [true, false])
    }).pipe(within()),
  )

  it.effect("tells a process that stood still from a store that did not answer", () =>
    Effect.gen(function* () {
      const { hold, watch } = yield* watching
      const lease = hold("silent", 30_000)
      yield* passTime("31 seconds")
      assert.isTrue(lease.isLost)
      assert.strictEqual(watch.frozenMs(lease), 0)
    }).pipe(within()),
  )

  it.effect("remembers that the process stood still, whether the watch or the attempt notices it first", () =>
    Effect.gen(function* () {
      let nowMs = 0
      const wakes: Array<() => void> = []
      const stopped = yield* clockAt(() => nowMs, wakes)
      for (const watchIsFirst of [true, false]) {
        const watch = new LeaseWatch(stopped, leaseDurationMs)
        yield* Effect.forkScoped(Effect.provideService(watch.run, Clock.Clock, stopped), { startImmediately: true })
        wakes.length = 0
        const lease = new HeldLease({ jobId: "job_stopped", token: 1 }, nowMs, leaseDurationMs, leaseDurationMs)
        watch.add(lease)
        while (wakes.length === 0) yield* Effect.yieldNow
        nowMs += 2 * leaseDurationMs
        if (watchIsFirst) {
          for (const wake of wakes.splice(0)) wake()
          for (let turn = 0; turn < 10; turn++) yield* Effect.yieldNow
          assert.isTrue(lease.isLost)
        } else assert.isFalse(lease.holdsAt(watch.now()))
        assert.isAtLeast(watch.frozenMs(lease), 1.9 * leaseDurationMs)
        // The store refused this one, so it does not count as a lost worker.
        const refused = new HeldLease({ jobId: "job_refused", token: 1 }, 0, leaseDurationMs, leaseDurationMs)
        refused.lose()
        assert.isFalse(refused.holdsAt(watch.now()))
        assert.strictEqual(watch.frozenMs(refused), 0)
      }
    }).pipe(within()),
  )

  it.effect("blames a lease's end on a process that stood still during most of that lease, not before it", () =>
    Effect.gen(function* () {
      let nowMs = 0
      const wakes: Array<() => void> = []
      const clock = yield* clockAt(() => nowMs, wakes)
      const watch = new LeaseWatch(clock, leaseDurationMs)
      const claimed = (name: string) => {
        const lease = new HeldLease({ jobId: `job_${name}`, token: 1 }, nowMs, leaseDurationMs, leaseDurationMs)
        watch.add(lease)
        return lease
      }
      const passing = Effect.fnUntraced(function* (ms: number) {
        nowMs += ms
        for (const wake of wakes.splice(0)) wake()
        for (let turn = 0; turn < 10; turn++) yield* Effect.yieldNow
      })
      const before = claimed("before")
      // The attempt blocks the event loop before the watch has run at all.
      nowMs += 2 * leaseDurationMs
      assert.isAtLeast(watch.frozenMs(before), 1.9 * leaseDurationMs)
      yield* Effect.forkScoped(Effect.provideService(watch.run, Clock.Clock, clock), { startImmediately: true })
      const after = claimed("after")
      yield* passing(0)
      yield* passing(10_000)
      assert.strictEqual(watch.frozenMs(after), 8_500)
      for (let check = 0; check < 10; check++) yield* passing(1_500)
      assert.strictEqual(watch.frozenMs(after), 0)
    }).pipe(within()),
  )
})

describe("the calls that keep leases", () => {
  const leaseOf = (name: string, remainingMs: number) =>
    new HeldLease({ jobId: `job_${name}`, token: 1 }, 0, remainingMs, leaseDurationMs)
  const bagOf = (...leases: ReadonlyArray<HeldLease>) => {
    const bag = new Bag<HeldLease>()
    for (const lease of leases) bag.add(lease)
    return bag
  }

  it.effect("extend what is held, and nothing that has ended, though no other worker has it yet", () => {
    const asked: Array<ReadonlyArray<string>> = []
    const stores = storesWith(JobStore, () => ({
      extendLeases: (items) => {
        asked.push(items.map(({ jobId }) => jobId))
        return Effect.succeed(items.map(() => ({ _tag: "Extended" as const, leaseRemainingMs: leaseDurationMs })))
      },
    }))
    return Effect.gen(function* () {
      const ended = leaseOf("ended", 5_000)
      yield* Effect.forkScoped(heartbeat(bagOf(leaseOf("held", leaseDurationMs), ended)))
      yield* Effect.forkScoped(heartbeat(bagOf(leaseOf("alone", 5_000))))
      yield* passTime("21 seconds")
      assert.deepStrictEqual(asked, [["job_held"], ["job_held"]])
      assert.isTrue(ended.isLost)
    }).pipe(within({ stores, settings: { leaseDurationMs } }))
  })

  it.effect("check claims after an answer that failed, and after one that did not come; none without leases", () => {
    let calls = 0
    const stores = storesWith(JobStore, () => ({
      checkClaims: (items) => {
        calls += 1
        if (calls === 1) return Effect.fail(storeDown)
        return calls === 2 ? Effect.never : Effect.succeed(items.map(({ jobId }) => jobId !== "job_canceled"))
      },
    }))
    return Effect.gen(function* () {
      const held = leaseOf("held", leaseDurationMs)
      const canceled = leaseOf("canceled", leaseDurationMs)
      yield* Effect.forkScoped(checkClaims(bagOf()))
      yield* Effect.forkScoped(checkClaims(bagOf(held, canceled)))
      yield* passTime("3300 millis")
      assert.deepStrictEqual([calls, held.isLost, canceled.isLost], [2, false, false])
      yield* passTime("500 millis")
      assert.deepStrictEqual([calls, held.isLost, canceled.isRefused], [3, false, true])
    }).pipe(within({ stores, settings: { leaseDurationMs, claimCheckIntervalMs: 1_000 } }))
  })

  it.effect(
    "find a job that was canceled right after a check within the interval, though the store takes its time",
    () => {
      let isCanceled = false
      const stores = storesWith(JobStore, () => ({
        checkClaims: (items) => {
          const answer = items.map(() => !isCanceled)
          isCanceled = true
          return Effect.as(Effect.sleep("90 millis"), answer)
        },
      }))
      return Effect.gen(function* () {
        const lease = leaseOf("canceled", leaseDurationMs)
        yield* Effect.forkScoped(checkClaims(bagOf(lease)))
        yield* passTime("800 millis")
        assert.isTrue(isCanceled)
        yield* passTime("1 seconds")
        assert.isTrue(lease.isRefused)
      }).pipe(within({ stores, settings: { leaseDurationMs, claimCheckIntervalMs: 1_000 } }))
    },
  )

  it("know a lease that the run limit has cut, though stores round", () => {
    const lease = leaseOf("last", leaseDurationMs - 2)
    const isLastWith = (remainingMs: number) => {
      lease.renew(0, remainingMs)
      return lease.isLast
    }
    assert.deepStrictEqual(
      [lease.isLast, ...[leaseDurationMs, leaseDurationMs - 1, leaseDurationMs - 1.1].map(isLastWith)],
      [true, false, false, true],
    )
  })
})

describe("an attempt whose lease is lost", () => {
  it.effect("is that of the canceled job, and no other of the process", () => {
    const sandbox = speaks(() => Effect.as(Effect.sleep("20 seconds"), mp3))
    return Effect.gen(function* () {
      const worker = yield* Worker
      yield* running
      const [canceled, other] = [yield* submitSpeech("canceled"), yield* submitSpeech("other")]
      yield* passTime("2 seconds")
      yield* cancelJob(canceled.id)
      yield* passTime("1 millis")
      assert.strictEqual(yield* worker.running, 1)
      const job = yield* finished(other.id, "30 seconds")
      assert.deepStrictEqual([job.status, job.attempts], ["done", 1])
    }).pipe(within({ sandbox, settings: { leaseDurationMs } }))
  })

  it.effect("writes nothing, however late its work ends", () => {
    const written: Array<string> = []
    const stores = storesWith(JobStore, (store) => ({
      extendLeases: () => Effect.fail(storeDown),
      completeJobs: (items) => {
        written.push("completeJobs")
        return store.completeJobs(items)
      },
      releaseJobs: (items) => {
        written.push("releaseJobs")
        return store.releaseJobs(items)
      },
    }))
    // The interruption is not heard before the answer is there.
    const sandbox = speaks(() => Effect.uninterruptible(Effect.as(Effect.sleep("40 seconds"), mp3)))
    return Effect.gen(function* () {
      const worker = yield* Worker
      yield* running
      const job = yield* submitSpeech("k")
      yield* passTime("39 seconds")
      // The work goes on, so the slot is not free.
      assert.strictEqual(yield* worker.running, 1)
      assert.deepStrictEqual(written, [])
      yield* passTime("2 seconds")
      assert.notInclude(written, "completeJobs")
      assert.notStrictEqual((yield* readJob(job.id)).status, "done")
    }).pipe(within({ stores, sandbox, settings: { leaseDurationMs, concurrency: 1 } }))
  })

  it.effect("gives its slot to one other job, and not to two", () => {
    let now = 0
    let most = 0
    const stores = storesWith(JobStore, () => ({ extendLeases: () => Effect.fail(storeDown) }))
    const sandbox = speaks(() =>
      Effect.acquireUseRelease(
        Effect.sync(() => {
          now += 1
          most = Math.max(most, now)
        }),
        () => Effect.never,
        () => Effect.sync(() => (now -= 1)),
      ),
    )
    return Effect.gen(function* () {
      yield* running
      for (let n = 0; n < 6; n++) yield* submitSpeech(`k${n}`)
      yield* passTime("3 minutes")
      assert.strictEqual(most, 2)
    }).pipe(
      within({
        stores,
        sandbox,
        settings: { leaseDurationMs, concurrency: 2, limits: { perKind: {}, perProject: 0 } },
      }),
    )
  })
})
