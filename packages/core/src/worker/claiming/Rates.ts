import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import type { JobMode, StoreUnavailable } from "../../domain/index.ts"
import type { Rate } from "../../domain/Rate.ts"
import { givenField, valueOf } from "../../domain/givenValues.ts"
import { EngineConfig } from "../../engine/EngineConfig.ts"
import { installedKinds, portsOf } from "../../kinds/installedKinds.ts"
import { IdGenerator, RateLimitStore } from "../../ports/index.ts"
import { type CallRate, Providers } from "../../providers/index.ts"
import { limitedInSandbox } from "../../providers/sandboxLimits.ts"
import { SharedRate, type SharedRateOptions } from "./SharedRate.ts"

/** The rates of the installation that limit this worker, by the name of a provider, and by kind and mode. */
export class Rates extends Context.Service<
  Rates,
  {
    readonly ofProvider: (name: string) => CallRate<StoreUnavailable> | undefined
    readonly ofKind: (kind: string, mode: JobMode) => CallRate<StoreUnavailable> | undefined
    /**
     * Milliseconds until the first of those that had no room for the last claim may have some: 0 if it has some now, `undefined` if
     * none held back a job or only a running job can make room.
     */
    readonly nextInMs: Effect.Effect<number | undefined>
    /** Opened when a running job changes that time. */
    readonly change: Latch.Latch
    /** Open while a running job waits for a token. */
    readonly waits: Latch.Latch
    /** Forgets which rates held jobs back. Must be called before the rooms for a claim are determined. */
    readonly startClaim: () => void
  }
>()("@kiln/core/worker/Rates") {
  /** Dies with a `TypeError` if there are rates and the store cannot share them. */
  static readonly layer = Layer.effect(
    Rates,
    Effect.gen(function* () {
      const { providers: settings } = yield* EngineConfig
      const providers = yield* Providers
      const kinds = yield* installedKinds
      const ports = portsOf(kinds)
      const inSandbox = limitedInSandbox(providers, ports, settings)
      const isGuarded = (name: string) => givenField(providers.live, name) !== undefined || inSandbox.has(name)
      const ofProvider = ports.flatMap(({ bounds, name }) => {
        const { rate } = valueOf(settings, name) ?? bounds
        return rate === undefined || !isGuarded(name) ? [] : [[`provider ${name}`, rate] as const]
      })
      const ofKind = kinds.flatMap(({ limits: { rate }, name }) =>
        rate === undefined
          ? []
          : ([
              [`kind live ${name}`, rate],
              [`kind sandbox ${name}`, rate],
            ] as const),
      )
      const change = yield* Latch.make(false)
      const waits = yield* Latch.make(false)
      let waiting = 0
      const shared = yield* shareRates([...ofProvider, ...ofKind], {
        onChange: () => void change.openUnsafe(),
        onWait: (more) => {
          waiting += more
          if (waiting > 0) waits.openUnsafe()
          else waits.closeUnsafe()
        },
      })
      return Rates.of({
        ofProvider: (name) => shared.get(`provider ${name}`),
        // Asked several times for each job, most of which have no rate.
        ofKind: (kind, mode) => (shared.size === 0 ? undefined : shared.get(`kind ${mode} ${kind}`)),
        nextInMs: Effect.map(
          Effect.forEach([...shared.values()], ({ nextInMs }) => nextInMs),
          (times) => {
            const first = Math.min(...times.map((ms) => ms ?? Infinity))
            return first === Infinity ? undefined : first
          },
        ),
        change,
        waits,
        startClaim: () => {
          change.closeUnsafe()
          for (const rate of shared.values()) rate.startClaim()
        },
      })
    }),
  )
}

const shareRates = Effect.fnUntraced(function* (
  rates: ReadonlyArray<readonly [bucket: string, rate: Rate]>,
  on: Pick<SharedRateOptions, "onChange" | "onWait">,
) {
  const shared = new Map<string, SharedRate>()
  if (rates.length === 0) return shared
  const store = yield* Effect.serviceOption(RateLimitStore)
  if (store._tag === "None")
    return yield* Effect.die(
      new TypeError("the store has no RateLimitStore: remove the rates of providers and kinds, or use another store"),
    )
  const process = (yield* IdGenerator).next("req")
  for (const [bucket, rate] of rates)
    shared.set(bucket, yield* SharedRate.make({ bucket, rate, store: store.value, process, ...on }))
  return shared
})
