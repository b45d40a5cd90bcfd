import { assert, describe, it } from "@effect/vitest"
import { defaultEngineSettings, Engine, type EngineSettings } from "@kiln/core/effect"
import { JobKind, JobKinds } from "@kiln/core/kinds"
import { JobStore, RateLimitStore } from "@kiln/core/ports"
import { effectProvider, providerPort } from "@kiln/core/providers"
import { MemoryStores } from "@kiln/testing"
import { Clock, Context, Effect, Layer, Schema } from "effect"
import { storesWith } from "./support/faults.ts"
import { grantOf, within } from "./support/harness.ts"
import { running } from "./support/jobs.ts"
import { live } from "./support/liveSpeech.ts"
import { passEvenly } from "./support/virtualTime.ts"
import { anotherWorker } from "./providers/support/twoWorkers.ts"

const minute = 60_000
const voices = providerPort({ name: "voices", check: String })

/** Each with the time for which it is measured, in milliseconds. */
const rates = [
  [{ limit: 1, perMs: minute }, 30 * minute],
  [{ limit: 10, perMs: minute }, 6 * minute],
  [{ limit: 1, perMs: 1_000 }, minute],
  [{ limit: 5, perMs: 1_000 }, 12_000],
  [{ limit: 10, perMs: 1_000 }, 6_000],
  [{ limit: 50, perMs: 1_000 }, 2_000],
  [{ limit: 200, perMs: 1_000 }, 500],
  [{ limit: 1_000, perMs: 1_000 }, 600],
] as const
type Rate = { readonly limit: number; readonly perMs: number }

const burstOf = ({ limit }: Rate) => Math.max(2, Math.ceil(limit / 10))
const allowedIn = ({ limit, perMs }: Rate, forMs: number) => (limit * forMs) / perMs

const result = { output: {}, files: [], usage: {} }

/** Notes the time, and returns the value. */
const noting = <A>(times: Array<number>, value: A): Effect.Effect<A> =>
  Effect.map(Clock.currentTimeMillis, (now) => {
    times.push(now)
    return value
  })

/** Runs a backlog of a kind. */
const runBacklog = (kind: JobKind, count: number, forMs: number, workers: number, settings: Partial<EngineSettings>) =>
  Effect.gen(function* () {
    const grant = grantOf(live)
    const asked = Array.from({ length: count }, (_, n) => ({ grant, kind, request: {}, idempotencyKey: `k${n}` }))
    yield* (yield* Engine).createJobs(asked)
    yield* running
    for (let n = 1; n < workers; n++) yield* anotherWorker(settings)
    yield* passEvenly(forMs, 300)
    yield* passEvenly(500, 25)
  })

/** Asserts that as many as allowed have started since the burst at the beginning, but no more. */
const assertDelivered = (starts: ReadonlyArray<number>, rate: Rate, forMs: number) => {
  const [first = 0] = starts
  const allowed = allowedIn(rate, forMs)
  const delivered = starts.filter((at) => at < first + forMs).length - burstOf(rate)
  assert.isAtLeast(delivered, Math.floor(0.95 * allowed))
  assert.isAtMost(delivered, Math.ceil(allowed))
}

describe("a backlog runs at the rate of its kind", () => {
  for (const [rate, forMs] of rates)
    for (const workers of [1, 3])
      it.effect(`${rate.limit} in ${rate.perMs} ms, with ${workers} workers`, () => {
        const starts: Array<number> = []
        const ping = JobKind({
          name: "ping",
          keyScope: "audio.create",
          request: Schema.Struct({}),
          limits: { rate },
          run: () => noting(starts, result),
        })
        const settings = { queueCap: 0, concurrency: 40 }
        const count = Math.ceil(1.1 * allowedIn(rate, forMs)) + burstOf(rate)
        return runBacklog(ping, count, forMs, workers, settings).pipe(
          Effect.map(() => assertDelivered(starts, rate, forMs)),
          within({ settings }),
          Effect.provideService(JobKinds, [ping]),
        )
      })
})

describe("a backlog runs at the rate of its provider", () => {
  const rate = { limit: 10, perMs: 1_000 } as const
  const forMs = 6_000
  for (const workers of [1, 3])
    it.effect(`even if its jobs work for half a second before they call, with ${workers} workers`, () => {
      const calls: Array<number> = []
      const tell = effectProvider(voices, () => noting(calls, "told"))
      const talk = JobKind({
        name: "talk",
        keyScope: "audio.create",
        request: Schema.Struct({}),
        providers: [voices],
        run: ({ ask }) => Effect.as(Effect.andThen(Effect.sleep(500), ask.voices({})), result),
      })
      const settings = {
        queueCap: 0,
        providers: { ...defaultEngineSettings.providers, voices: { concurrency: 0, callLimitMs: 60_000, rate } },
      }
      return runBacklog(talk, 100, forMs, workers, settings).pipe(
        Effect.map(() => assertDelivered(calls, rate, forMs)),
        within({ live: { voices: tell }, settings }),
        Effect.provideService(JobKinds, [talk]),
      )
    })
  for (const workers of [1, 3])
    it.effect(`even if its jobs work for up to 1.5 seconds before they call, with ${workers} workers`, () => {
      const calls: Array<number> = []
      let begun = 0
      const tell = effectProvider(voices, () => noting(calls, "told"))
      // Evenly spread, in an irregular order.
      const work = Effect.suspend(() => Effect.sleep(((begun++ * 0.618) % 1) * 1_500))
      const talk = JobKind({
        name: "talk",
        keyScope: "audio.create",
        request: Schema.Struct({}),
        providers: [voices],
        run: ({ ask }) => Effect.as(Effect.andThen(work, ask.voices({})), result),
      })
      const settings = {
        queueCap: 0,
        concurrency: 40,
        providers: { ...defaultEngineSettings.providers, voices: { concurrency: 0, callLimitMs: 60_000, rate } },
      }
      return runBacklog(talk, 200, 15_000, workers, settings).pipe(
        Effect.map(() => {
          const [first = 0] = calls
          const delivered = calls.filter((at) => at >= first + 3_000 && at < first + 13_000).length
          assert.isAtLeast(delivered, 95)
          assert.isAtMost(delivered, 100 + burstOf(rate))
        }),
        within({ live: { voices: tell }, settings }),
        Effect.provideService(JobKinds, [talk]),
      )
    })
})

describe("tokens of processes that do not use them", () => {
  const rate = { limit: 10, perMs: 1_000 } as const
  const forMs = 30_000

  it.effect("are missing for a moment: two processes die with the whole burst, a third is idle", () => {
    const starts: Array<number> = []
    const ping = JobKind({
      name: "ping",
      keyScope: "audio.create",
      request: Schema.Struct({}),
      limits: { rate },
      run: () => noting(starts, result),
    })
    let ttlMs = 0
    const stores = Layer.effectContext(
      Effect.map(Layer.build(MemoryStores.layer), (context) => {
        const { takePortions } = Context.get(context, RateLimitStore)
        const noting: typeof takePortions = (requests) => {
          // Both take one of the two tokens just before this process asks for the first time, and are never heard of again.
          const [request] = requests
          const died = ttlMs > 0 || request === undefined ? [] : ["a", "b"]
          ttlMs = request?.ttlMs ?? 0
          const theirs = died.flatMap((name) => requests.map((one) => ({ ...one, process: name, wanted: 1 })))
          return Effect.andThen(takePortions(theirs), takePortions(requests))
        }
        return Context.add(context, RateLimitStore, RateLimitStore.of({ takePortions: noting }))
      }),
    )
    const settings = { queueCap: 0, concurrency: 40 }
    return runBacklog(ping, 400, forMs, 2, settings).pipe(
      Effect.map(() => {
        assert.isAtMost(ttlMs, 5_000)
        assert.isAtLeast(starts.length, 0.95 * allowedIn(rate, forMs - 5_000))
      }),
      within({ settings, stores }),
      Effect.provideService(JobKinds, [ping]),
    )
  })
})

/** Stores that take this long to hand out portions and to claim. They must be fast at the end, when no time passes. */
const slowStores = (latencyMs: () => number) =>
  Layer.effectContext(
    Effect.map(
      Layer.build(storesWith(JobStore, ({ claimJobs }) => ({ claimJobs: delayed(claimJobs, latencyMs) }))),
      (context) => {
        const { takePortions } = Context.get(
          context as Context.Context<never> as Context.Context<RateLimitStore>,
          RateLimitStore,
        )
        return Context.add(
          context,
          RateLimitStore,
          RateLimitStore.of({ takePortions: delayed(takePortions, latencyMs) }),
        )
      },
    ),
  )

const delayed =
  <Request, A, E>(verb: (request: Request) => Effect.Effect<A, E>, latencyMs: () => number) =>
  (request: Request): Effect.Effect<A, E> =>
    Effect.suspend(() => Effect.andThen(Effect.sleep(latencyMs()), verb(request)))

describe("a store that takes 5 ms for each call", () => {
  for (const [rate, forMs] of [
    [{ limit: 10, perMs: 1_000 }, 6_000],
    [{ limit: 50, perMs: 1_000 }, 2_000],
    [{ limit: 200, perMs: 1_000 }, 1_000],
    [{ limit: 1_000, perMs: 1_000 }, 1_000],
  ] as const)
    it.effect(`does not keep a backlog from its rate of ${rate.limit} a second`, () => {
      const starts: Array<number> = []
      const ping = JobKind({
        name: "ping",
        keyScope: "audio.create",
        request: Schema.Struct({}),
        limits: { rate },
        run: () => noting(starts, result),
      })
      let latencyMs = 5
      const settings = { queueCap: 0, concurrency: 100 }
      const count = Math.ceil(1.1 * allowedIn(rate, forMs)) + burstOf(rate)
      return runBacklog(ping, count, forMs, 1, settings).pipe(
        Effect.map(() => {
          latencyMs = 0
          assertDelivered(starts, rate, forMs)
        }),
        within({ settings, stores: slowStores(() => latencyMs) }),
        Effect.provideService(JobKinds, [ping]),
      )
    })
})
