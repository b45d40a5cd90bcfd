import { type EmbeddedEngine, jobKind } from "@kiln/core"
import { CallerTransactions, WakeUp } from "@kiln/core/ports"
import { testEngine } from "@kiln/testing"
import { callerTransactionsConformance, type CallerPlace } from "@kiln/conformance"
import { Context, Effect, Layer, Scope } from "effect"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { emptyState } from "../../src/memory/MemoryState.ts"
import { portsOf } from "../../src/memory/MemoryStores.ts"
import { makeMemoryTransactions } from "../../src/memory/MemoryTransactions.ts"

const place: Effect.Effect<CallerPlace> = Effect.gen(function* () {
  const state = emptyState()
  const wakeUp = Context.get(yield* Layer.buildWithScope(WakeUp.layer, yield* Scope.make()), WakeUp)
  const transactions = makeMemoryTransactions(state, yield* Effect.clockWith(Effect.succeed))
  return {
    layer: Layer.succeedContext(
      portsOf(state).pipe(Context.add(WakeUp, wakeUp), Context.add(CallerTransactions, transactions.callers)),
    ),
    begin: async () => {
      const transaction = {}
      transactions.begin(transaction)
      return {
        transaction,
        commit: async () => {
          transactions.commit(transaction)
          Effect.runSync(wakeUp.notify)
        },
        rollback: async () => transactions.rollback(transaction),
      }
    },
  }
})

callerTransactionsConformance({
  name: "testEngine",
  place,
  concurrent: true,
  seesOpen: false,
  reason: "each decides on a copy",
})
callerTransactionsConformance({
  name: "testEngine, synchronously",
  place,
  through: "synchronous",
  concurrent: false,
  reason: "nothing can wait",
})

const receipt = jobKind({
  name: "receipt",
  request: z.object({ order: z.int() }),
  output: z.object({ order: z.number() }),
  run: async ({ request }) => ({ output: { order: request.order } }),
})

/** A client as a program's own code expects it. */
interface Client {
  readonly query: (text: string) => Promise<void>
}

/** Code of a program, written for its engine on Postgres. */
const placeOrder = async (engine: EmbeddedEngine<typeof receipt, Client>, client: Client, order: number) => {
  await client.query(`INSERT INTO orders (id) VALUES (${order})`)
  return engine.submit("receipt", { order }, { transaction: client, idempotencyKey: `order-${order}` })
}

const fakeClient = () => {
  const queries: Array<string> = []
  return { queries, query: async (text: string) => void queries.push(text) }
}

describe("a transaction of a test", () => {
  it("makes its jobs exist when it commits, and they have run then", async () => {
    await using engine = await testEngine({ kinds: [receipt] })
    const client = engine.beginTransaction(fakeClient())
    const job = await placeOrder(engine, client, 1)
    expect(job.status).toBe("queued")
    await expect(engine.get(job)).rejects.toMatchObject({ code: "job_not_found" })
    expect(await engine.drain()).toBe(0)
    expect(await engine.submitted()).toEqual([])
    await client.commit()
    expect(client.queries).toEqual(["INSERT INTO orders (id) VALUES (1)"])
    expect(await engine.get(job)).toMatchObject({ status: "done", output: { order: 1 } })
    expect(await engine.submitted()).toMatchObject([{ id: job.id, kind: "receipt", status: "done" }])
  })

  it("leaves no job when it rolls back", async () => {
    await using engine = await testEngine({ kinds: [receipt] })
    const client = engine.beginTransaction(fakeClient())
    const job = await placeOrder(engine, client, 1)
    await client.rollback()
    await expect(engine.get(job)).rejects.toMatchObject({ code: "job_not_found" })
    expect((await engine.operator.list()).jobs).toEqual([])
    // The idempotency key is free again.
    const again = engine.beginTransaction(fakeClient())
    const accepted = await placeOrder(engine, again, 1)
    await again.commit()
    expect(accepted.id).not.toBe(job.id)
    expect(await engine.get(accepted)).toMatchObject({ status: "done" })
  })

  it("is for every way to submit, and replays within itself", async () => {
    await using engine = await testEngine({ kinds: [receipt], mode: "manual" })
    const transaction = engine.beginTransaction()
    const key = { idempotencyKey: "k" }
    const first = engine.submitSync("receipt", { order: 1 }, { ...key, transaction })
    expect(first.createdAt).toEqual(engine.now())
    expect((await engine.submit("receipt", { order: 1 }, { ...key, transaction })).id).toBe(first.id)
    const many = await engine.submitMany("receipt", [{ request: { order: 2 } }], { transaction })
    const sync = engine.submitManySync("receipt", [{ request: { order: 3 } }], { transaction })
    expect([...many, ...sync].map(({ error }) => error)).toEqual([undefined, undefined])
    expect(await engine.drain()).toBe(0)
    await transaction.commit()
    // In manual mode they wait for the test.
    expect((await engine.get(first)).status).toBe("queued")
    expect(await engine.drain()).toBe(3)
  })

  it("runs its jobs in a live test engine", async () => {
    await using engine = await testEngine({ kinds: [receipt], mode: "live" })
    const transaction = engine.beginTransaction()
    const job = await engine.submit("receipt", { order: 1 }, { transaction })
    await transaction.commit()
    expect(await engine.wait(job)).toMatchObject({ status: "done" })
  })

  it("is refused once it has ended, and so is anything else", async () => {
    await using engine = await testEngine({ kinds: [receipt] })
    const transaction = engine.beginTransaction()
    await transaction.commit()
    const message = /must be one that beginTransaction\(\)/
    await expect(engine.submit("receipt", { order: 1 }, { transaction })).rejects.toThrow(message)
    await expect(transaction.commit()).rejects.toThrow(message)
    await expect(transaction.rollback()).rejects.toThrow(message)
    await expect(engine.submit("receipt", { order: 1 }, { transaction: fakeClient() })).rejects.toThrow(message)
    const open = engine.beginTransaction(fakeClient())
    expect(() => engine.beginTransaction(open)).toThrow("already has an open transaction")
  })
})
