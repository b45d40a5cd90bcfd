import { setTimeout as pause } from "node:timers/promises"
import { Effect, Exit, Scope } from "effect"
import { describe, expect, it } from "vitest"
import { tcpProxy } from "@kiln/postgres-lab"
import type { StoreUnavailable } from "@kiln/core/domain"
import { Switchboard, type WakeUp } from "@kiln/core/ports"
import { connect } from "../../src/connection/openDatabase.ts"
import { PostgresStores } from "../../src/PostgresStores.ts"
import { makePostgresWakeUp } from "../../src/wakeUp/WakeUp.ts"
import { useCluster } from "./support/databases.ts"
import { until } from "./support/until.ts"

const cluster = useCluster()

/** The wake-up of one process, which asks every 300 ms whether it still hears. */
const openWakeUp = async (url: string): Promise<WakeUp["Service"] & AsyncDisposable> => {
  const scope = Scope.makeUnsafe()
  const wakeUp = await Effect.runPromise(
    Effect.gen(function* () {
      const open = yield* connect({ url, connectTimeoutMs: 500, statementTimeoutMs: 1_000 })
      return (yield* makePostgresWakeUp(open, 300)).wakeUp
    }).pipe(Scope.provide(scope)),
  )
  return Object.assign(wakeUp, {
    [Symbol.asyncDispose]: () => Effect.runPromise(Scope.close(scope, Exit.void)),
  })
}

const reaches = (wakeUp: WakeUp["Service"], reach: "process" | "installation") =>
  until(() => (Effect.runSync(wakeUp.reach) === reach ? true : undefined))

/** Whether it hears what another process says: what it has heard before does not count. */
const hears = async (wakeUp: WakeUp["Service"], other: WakeUp["Service"]) => {
  const drained = Effect.forever(Effect.andThen(wakeUp.wait, Effect.void))
  await Effect.runPromise(Effect.timeoutOption(drained, 300))
  const heard = Effect.runPromise(Effect.timeoutOption(wakeUp.wait, 5_000))
  await Effect.runPromise(other.notify)
  return (await heard)._tag === "Some"
}

describe("the listening connection", () => {
  it("is terminated: the process only wakes itself until it heals", async () => {
    await using database = await cluster.database()
    await using proxy = await tcpProxy(database.url)
    await using wakeUp = await openWakeUp(proxy.url)
    await using other = await openWakeUp(database.url)
    await reaches(wakeUp, "installation")
    await reaches(other, "installation")
    expect(await hears(wakeUp, other)).toBe(true)
    // Otherwise it could heal before the first look.
    proxy.refuse()
    for (const { pid } of await cluster.backendsOf("kiln wake-up")) await cluster.server.terminate(pid)
    await reaches(wakeUp, "process")
    await proxy.pass()
    await reaches(wakeUp, "installation")
    await reaches(other, "installation")
    expect(await hears(wakeUp, other)).toBe(true)
  })

  it("is cut off by a network that drops everything: this is noticed, and it reconnects", async () => {
    await using database = await cluster.database()
    await using proxy = await tcpProxy(database.url)
    await using wakeUp = await openWakeUp(proxy.url)
    await using other = await openWakeUp(database.url)
    await reaches(wakeUp, "installation")
    await reaches(other, "installation")
    proxy.blackHole()
    await reaches(wakeUp, "process")
    await pause(1_000)
    expect(Effect.runSync(wakeUp.reach), "it does not hear, and does not say it does").toBe("process")
    await proxy.pass()
    await reaches(wakeUp, "installation")
    expect(await hears(wakeUp, other)).toBe(true)
  })
})

describe("notifications", () => {
  it("a thousand in a burst become a few statements", async () => {
    await using database = await cluster.database()
    await using proxy = await tcpProxy(database.url)
    await using wakeUp = await openWakeUp(proxy.url)
    await using other = await openWakeUp(database.url)
    await reaches(other, "installation")
    proxy.resetCounts()
    for (let n = 0; n < 1_000; n++) {
      await Effect.runPromise(wakeUp.notify)
      if (n % 10 === 0) await pause(0)
    }
    const sent = () => [...proxy.statements()].reduce((sum, [text, n]) => sum + (text.includes("pg_notify") ? n : 0), 0)
    expect(sent()).toBeGreaterThan(0)
    // A pause is twice as long as the notification before it; about 50 are seen here.
    expect(sent()).toBeLessThan(400)
    expect(await hears(other, wakeUp)).toBe(true)
  })

  it("announce an opened gate, also from a short-lived program that does not listen", async () => {
    await using database = await cluster.database()
    const opening = (open: (board: Switchboard["Service"]) => Effect.Effect<unknown, StoreUnavailable>) =>
      Effect.flatMap(Switchboard, open).pipe(
        Effect.provide(PostgresStores.layer({ url: database.url, poolSize: 2, notifications: "send" })),
        Effect.runPromise,
      )
    await opening((board) => board.setPrice({ name: "svc-audio", currency: "usd", unitAmounts: {} }))
    await using wakeUp = await openWakeUp(database.url)
    await reaches(wakeUp, "installation")
    const isHeard = async (open: Parameters<typeof opening>[0], withinMs: number) => {
      const hearsMore = () => Effect.runPromise(Effect.timeoutOption(wakeUp.wait, 1_000))
      while ((await hearsMore())._tag === "Some");
      const heard = Effect.runPromise(Effect.timeoutOption(wakeUp.wait, withinMs))
      await opening(open)
      return (await heard)._tag === "Some"
    }
    expect(await isHeard((board) => board.setSwitch("ai", true), 10_000)).toBe(true)
    expect(await isHeard((board) => board.activatePrice("svc-audio", true), 10_000)).toBe(true)
    // Nobody has to wake up for what is shut.
    expect(await isHeard((board) => board.setSwitch("ai", false), 2_000)).toBe(false)
  })

  it("that cannot be sent block nothing", async () => {
    await using database = await cluster.database()
    await using proxy = await tcpProxy(database.url)
    const wakeUp = await openWakeUp(proxy.url)
    await reaches(wakeUp, "installation")
    proxy.blackHole()
    for (let n = 0; n < 10; n++) await Effect.runPromise(wakeUp.notify)
    const startedAt = performance.now()
    await wakeUp[Symbol.asyncDispose]()
    expect(performance.now() - startedAt).toBeLessThan(8_000)
  })
})
