import { Context, Effect, Layer } from "effect"
import pg from "pg"
import { compareWithMemory, type Stores } from "@kiln/conformance"
import { type ClaimResult, JobStore } from "@kiln/core/ports"
import { tcpProxy } from "@kiln/postgres-lab"
import { MemoryStores } from "@kiln/testing"
import { PostgresStores } from "../src/index.ts"
import { makeTemplate, temporaryDatabase } from "./support/places.ts"
import { onEffectClock } from "./support/virtualTime.ts"

/** What is cut, in turn: the answer to a statement that the server has run, or the connection before it gets there. */
const faults = [
  ["dropAnswer", /end_jobs/],
  ["dropAnswer", /take_jobs/],
  ["cutBefore", /end_jobs/],
  ["dropAnswer", /accept_job/],
  ["dropAnswer", undefined],
  ["cutBefore", undefined],
  ["dropAnswer", /insert|update|delete/i],
  ["cutBefore", /take_jobs/],
  ["dropAnswer", /^select/i],
] as const

const template = makeTemplate()

/** A database that is reached through a network which loses one answer after the other. */
const place = Effect.gen(function* () {
  const url = yield* temporaryDatabase(yield* Effect.promise(() => template))
  const proxy = yield* Effect.acquireRelease(
    Effect.promise(() => tcpProxy(url)),
    (opened) => Effect.promise(() => opened.close()),
  )
  const clock = yield* Effect.acquireRelease(
    Effect.promise(async () => {
      const client = new pg.Client({ connectionString: url })
      await client.connect()
      return client
    }),
    (client) => Effect.promise(() => client.end()),
  )
  const lose = Effect.forEach(faults, ([cut, statement]) =>
    // A connection may end before its fault happens, with the store.
    Effect.ignore(Effect.tryPromise(() => proxy[cut](statement))),
  )
  yield* Effect.forkScoped(Effect.forever(lose))
  return inOrderOfIds(
    onEffectClock(
      PostgresStores.layer({ url: proxy.url, poolSize: 3, notifications: false, noteLanesEveryMs: 0, migrate: false }),
      async (now) => void (await clock.query(`UPDATE "kiln".test_clock SET now = $1`, [now])),
    ),
  )
})

const sorted = (result: ClaimResult): ClaimResult => ({
  ...result,
  claims: result.claims.toSorted((one, other) => (one.job.id < other.job.id ? -1 : 1)),
})

const withSorted = <Result extends { readonly claimed: ClaimResult | undefined }>(result: Result): Result => ({
  ...result,
  claimed: result.claimed && sorted(result.claimed),
})

/** A claim that is repeated finds the jobs of the one before, whose order is lost. */
const inOrderOfIds = <Out extends Stores, E>(stores: Layer.Layer<Out, E>): Layer.Layer<Out, E> =>
  Layer.effectContext(
    Effect.map(Layer.build(stores), (context) => {
      const store = Context.get(context as Context.Context<Stores>, JobStore)
      return Context.add(
        context,
        JobStore,
        JobStore.of({
          ...store,
          claimJobs: (request) => Effect.map(store.claimJobs(request), sorted),
          createAndClaimJobs: (items, request) => Effect.map(store.createAndClaimJobs(items, request), withSorted),
          completeAndClaimJobs: (items, request) => Effect.map(store.completeAndClaimJobs(items, request), withSorted),
        }),
      )
    }),
  )

compareWithMemory({
  name: "Postgres, whose answers get lost,",
  place,
  reference: inOrderOfIds(MemoryStores.layer),
  capabilities: { durable: true, multiProcess: true },
  runs: 10,
})
