import type { StoreUnavailable } from "@kiln/core/domain"
import { JobDirectory, JobStore, KeyDirectory, SecretStore, Switchboard, UploadStore } from "@kiln/core/ports"
import { Context, Effect, Layer } from "effect"
import type { Stores } from "./harness.ts"

/** Wraps each call of a verb. */
export type AroundCall = <A, E, R>(
  verb: string,
  call: Effect.Effect<A, E, R>,
) => Effect.Effect<A, E | StoreUnavailable, R>

const around = <Verbs extends object>(verbs: Verbs, change: AroundCall): Verbs =>
  new Proxy(verbs, {
    get: (target, name) => {
      const verb: unknown = Reflect.get(target, name)
      if (Effect.isEffect(verb)) return change(String(name), verb)
      if (typeof verb !== "function") return verb
      return (...args: ReadonlyArray<unknown>) => {
        const call: unknown = Reflect.apply(verb, target, args)
        return Effect.isEffect(call) ? change(String(name), call) : call
      }
    },
  })

/** The same stores, with something around each call of each verb. */
export const everyVerb = (stores: Context.Context<Stores>, change: AroundCall): Context.Context<Stores> =>
  Context.make(JobStore, around(Context.get(stores, JobStore), change)).pipe(
    Context.add(JobDirectory, around(Context.get(stores, JobDirectory), change)),
    Context.add(UploadStore, around(Context.get(stores, UploadStore), change)),
    Context.add(Switchboard, around(Context.get(stores, Switchboard), change)),
    Context.add(KeyDirectory, around(Context.get(stores, KeyDirectory), change)),
    Context.add(SecretStore, around(Context.get(stores, SecretStore), change)),
  )

/** The same for stores that are yet to be opened. */
export const everyVerbOf = <E>(stores: Layer.Layer<Stores, E>, change: AroundCall): Layer.Layer<Stores, E> =>
  Layer.effectContext(Effect.map(Layer.build(stores), (built) => everyVerb(built, change)))
