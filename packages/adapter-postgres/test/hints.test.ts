import { setTimeout as pause } from "node:timers/promises"
import { Context, Effect, Exit, Layer, Scope } from "effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { JobStore, type NewJob, WakeUp } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { freshDatabase, tcpProxy } from "@kiln/postgres-lab"
import { PostgresStores } from "../src/index.ts"
import { session } from "./faults/support/session.ts"
import { Notifier } from "../src/wakeUp/WakeUp.ts"

const { newJob } = fixtures
const run = Effect.runPromise

const openProcess = async (scope: Scope.Closeable, url: string) => {
  const context = await run(Layer.buildWithScope(Layer.fresh(PostgresStores.layer({ url, poolSize: 3 })), scope))
  const wakeUp = Context.get(context, WakeUp)
  while ((await run(wakeUp.reach)) !== "installation") await pause(5)
  return { jobs: Context.get(context, JobStore), wakeUp }
}

const open = async () => {
  const database = await freshDatabase()
  const proxy = await tcpProxy(database.url)
  const scope = Scope.makeUnsafe()
  const one = await openProcess(scope, proxy.url)
  const other = await openProcess(scope, database.url)
  return { database, proxy, scope, one, other }
}
let opened: Awaited<ReturnType<typeof open>>
beforeAll(async () => {
  opened = await open()
})
afterAll(async () => {
  await run(Scope.close(opened.scope, Exit.void))
  await opened.proxy.close()
  await opened.database.dispose()
})

/** Longer than the longest pause between two notifications. */
const quiet = () => pause(40)

const create = (...jobs: ReadonlyArray<NewJob>) => run(opened.one.jobs.createJobs(jobs))

/** Whether the other process is woken by what happens, for any reason. */
const wakes = async (happens: () => Promise<unknown>): Promise<boolean> => {
  await quiet()
  await run(Effect.timeoutOption(Effect.forever(opened.other.wakeUp.wait), 100))
  const woken = run(Effect.timeoutOption(opened.other.wakeUp.wait, 10_000))
  await happens()
  return (await woken)._tag === "Some"
}

/** Statements that do nothing but notify. */
const notifications = () =>
  [...opened.proxy.statements()].reduce((sum, [text, count]) => sum + (text.includes("pg_notify") ? count : 0), 0)

describe("a creation", () => {
  it("wakes other processes with its own commit, and the announcement of its jobs sends nothing", async () => {
    await create(newJob(1))
    opened.proxy.resetCounts()
    const creating = async () => {
      await create(newJob(2))
      await run(opened.one.wakeUp.notify)
    }
    expect(await wakes(creating)).toBe(true)
    await quiet()
    expect(notifications()).toBe(0)
  })

  it("soon after another is announced all the same, by itself or by a statement", async () => {
    await using listener = await session(opened.database.url)
    let heard = 0
    listener.on("notification", () => void (heard += 1))
    await listener.query('LISTEN "kiln_kiln"')
    for (let n = 3; n < 20; n += 1) {
      const before = heard
      await create(newJob(n))
      await run(opened.one.wakeUp.notify)
      await expect.poll(() => heard, { timeout: 10_000 }).toBeGreaterThan(before)
    }
  })

  it("that adds nothing silences nothing", async () => {
    const replayed = async () => {
      await create({ ...newJob(1), id: newJob(51).id })
      await run(opened.one.wakeUp.notify)
    }
    expect(await wakes(replayed)).toBe(true)
  })
})

describe("notifications of a process", () => {
  const counting = () => {
    let sent = 0
    const notifier = new Notifier(() => {
      sent += 1
      return Promise.resolve()
    })
    return { notifier, sent: () => sent }
  }

  it("are sent at once after a pause, and a second time only after another", async () => {
    const { notifier, sent } = counting()
    notifier.notify()
    expect(sent()).toBe(1)
    for (let n = 0; n < 10; n += 1) notifier.notify()
    expect(sent()).toBe(1)
    await notifier.stop()
    expect(sent()).toBe(2)
  })

  it("pause for twice as long as the last one took, within bounds", () => {
    let now = 0
    const notifier = new Notifier(
      () => Promise.resolve(),
      1,
      () => now,
    )
    const carry = (tookMs: number) => {
      expect(notifier.mayCarry()).toBe(true)
      now += tookMs
      notifier.carried()
    }
    const pauseOf = (tookMs: number): number => {
      carry(tookMs)
      const carriedAt = now
      while (!notifier.mayCarry()) now += 0.5
      const pausedMs = now - carriedAt
      notifier.carried()
      now += 100
      return pausedMs
    }
    expect([0, 0.1, 2, 5, 50].map(pauseOf)).toEqual([1, 1, 4, 10, 20])
    // It is not known to have committed.
    expect(notifier.mayCarry()).toBe(true)
    now += 19
    expect(notifier.mayCarry()).toBe(false)
    now += 1
    expect(notifier.mayCarry()).toBe(true)
  })

  it("of several announcements are carried by the next transaction, without a statement of their own", async () => {
    let now = 0
    let sent = 0
    const notifier = new Notifier(
      () => {
        sent += 1
        return Promise.resolve()
      },
      1,
      () => now,
    )
    const carry = () => {
      expect(notifier.mayCarry()).toBe(true)
      notifier.carried()
      notifier.notify()
    }
    carry()
    notifier.notify()
    notifier.notify()
    now += 1
    carry()
    await notifier.stop()
    expect(sent).toBe(0)
  })

  it("that are asked for while a transaction carries one may be about later jobs, and are sent", async () => {
    const { notifier, sent } = counting()
    expect(notifier.mayCarry()).toBe(true)
    notifier.notify()
    notifier.carried()
    notifier.notify()
    await notifier.stop()
    expect(sent()).toBe(1)
  })

  it("are sent in time although transactions that carry nothing keep beginning", async () => {
    const { notifier, sent } = counting()
    notifier.mayCarry()
    notifier.notify()
    const givesUpAt = performance.now() + 10_000
    while (sent() === 0 && performance.now() < givesUpAt) {
      notifier.mayCarry()
      await pause(1)
    }
    expect(sent()).toBeGreaterThan(0)
  })

  it("a transaction may carry one only when it is time for one", async () => {
    const { notifier, sent } = counting()
    expect(notifier.mayCarry()).toBe(true)
    expect(notifier.mayCarry()).toBe(false)
    // The transaction failed: nothing was carried.
    notifier.notify()
    await notifier.stop()
    expect(sent()).toBe(1)
  })

  it("one that was carried stands for one announcement, no more", async () => {
    const { notifier, sent } = counting()
    notifier.mayCarry()
    notifier.carried()
    notifier.notify()
    notifier.notify()
    await notifier.stop()
    expect(sent()).toBe(1)
  })
})
