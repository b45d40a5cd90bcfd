import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { JobMode, StoreUnavailable } from "../domain/index.ts"
import type { Rate } from "../domain/Rate.ts"
import { givenField, valueOf } from "../domain/realms.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { IdGenerator, RateLimitStore } from "../ports/index.ts"
import { type CallRate, Providers } from "../providers/index.ts"
import { installedKinds } from "../kinds/installedKinds.ts"
import { portsOf } from "../kinds/portsOf.ts"
import { SharedRate } from "./SharedRate.ts"

/** The rates of the installation that limit this worker, by the name of a provider, and by kind and mode. */
export class Rates extends Context.Service<
  Rates,
  {
    readonly ofProvider: (name: string) => CallRate<StoreUnavailable> | undefined
    readonly ofKind: (kind: string, mode: JobMode) => CallRate<StoreUnavailable> | undefined
    /** Milliseconds until the first of those without room has some; `undefined` if all have room. */
    readonly nextInMs: Effect.Effect<number | undefined>
  }
>()("@kiln/core/worker/Rates") {
  /** Dies with a `TypeError` if there are rates and the store cannot share them. */
  static readonly layer = Layer.effect(
    Rates,
    Effect.gen(function* () {
      const { providers: settings } = yield* EngineConfig
      const { live } = yield* Providers
      const kinds = yield* installedKinds
      const ofProvider = portsOf(kinds).flatMap(({ bounds, name }) => {
        const { rate } = valueOf(settings, name) ?? bounds
        return rate === undefined || givenField(live, name) === undefined ? [] : [[`provider ${name}`, rate] as const]
      })
      const ofKind = kinds.flatMap(({ limits: { rate }, name }) =>
        rate === undefined
          ? []
          : ([
              [`kind live ${name}`, rate],
              [`kind sandbox ${name}`, rate],
            ] as const),
      )
      const shared = yield* shareRates([...ofProvider, ...ofKind])
      return Rates.of({
        ofProvider: (name) => shared.get(`provider ${name}`),
        // Asked several times for each job, most of which have no rate.
        ofKind: (kind, mode) => (shared.size === 0 ? undefined : shared.get(`kind ${mode} ${kind}`)),
        nextInMs: Effect.map(
          Effect.forEach([...shared.values()], ({ nextInMs }) => nextInMs),
          (waits) => {
            const first = Math.min(...waits.map((ms) => ms ?? Infinity))
            return first === Infinity ? undefined : first
          },
        ),
      })
    }),
  )
}

const shareRates = Effect.fnUntraced(function* (rates: ReadonlyArray<readonly [bucket: string, rate: Rate]>) {
  const shared = new Map<string, CallRate<StoreUnavailable>>()
  if (rates.length === 0) return shared
  const store = yield* Effect.serviceOption(RateLimitStore)
  if (store._tag === "None")
    return yield* Effect.die(
      new TypeError("the store has no RateLimitStore: remove the rates of providers and kinds, or use another store"),
    )
  const process = (yield* IdGenerator).next("req")
  for (const [bucket, rate] of rates)
    shared.set(bucket, yield* SharedRate.make({ bucket, rate, store: store.value, process }))
  return shared
})
