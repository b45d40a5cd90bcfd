import { Clock, Context, Effect, Layer } from "effect"
import pg from "pg"
import type { Stores } from "@kiln/conformance"
import {
  AuditLog,
  JobDirectory,
  DeliveryStore,
  JobStore,
  KeyDirectory,
  MinuteHistory,
  OperatorTokens,
  RateLimitStore,
  ScheduleStore,
  SecretStore,
  Switchboard,
  UploadStore,
} from "@kiln/core/ports"

/** Replaces the clock of a schema by a table. */
export const clockText = (schema: string): string => `
  CREATE UNLOGGED TABLE "${schema}".test_clock (now bigint NOT NULL);
  INSERT INTO "${schema}".test_clock VALUES (0);
  CREATE OR REPLACE FUNCTION "${schema}".store_time() RETURNS bigint LANGUAGE sql VOLATILE AS
    'SELECT now FROM "${schema}".test_clock';`

/**
 * Puts the database's clock into the hands of a test: `store_time` reads a table, into which the Effect `Clock` is written
 * before every verb. The store is the one that is shipped; only its database has another clock.
 */
export const takeOverClock = async (url: string, schema = "kiln"): Promise<void> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(clockText(schema))
  } finally {
    await client.end()
  }
}

/** The stores, each verb of which first sets the database's clock to the Effect `Clock`. */
export const onEffectClock = <E>(
  stores: Layer.Layer<Stores | RateLimitStore | AuditLog | OperatorTokens | MinuteHistory, E>,
  setClock: (now: number) => Promise<void>,
): Layer.Layer<Stores | RateLimitStore | AuditLog | OperatorTokens | MinuteHistory, E> =>
  Layer.effectContext(
    Effect.map(Layer.build(stores), (context) => {
      let shown: number | undefined
      const sync = Effect.flatMap(Clock.currentTimeMillis, (now) =>
        now === shown
          ? Effect.void
          : Effect.promise(async () => {
              await setClock(now)
              shown = now
            }),
      )
      const onTime = <A, E2, R2>(verb: Effect.Effect<A, E2, R2>) => Effect.andThen(sync, verb)
      return Context.make(JobStore, withVerbs(Context.get(context, JobStore), onTime)).pipe(
        Context.add(JobDirectory, withVerbs(Context.get(context, JobDirectory), onTime)),
        Context.add(UploadStore, withVerbs(Context.get(context, UploadStore), onTime)),
        Context.add(KeyDirectory, withVerbs(Context.get(context, KeyDirectory), onTime)),
        Context.add(Switchboard, withVerbs(Context.get(context, Switchboard), onTime)),
        Context.add(SecretStore, withVerbs(Context.get(context, SecretStore), onTime)),
        Context.add(DeliveryStore, withVerbs(Context.get(context, DeliveryStore), onTime)),
        Context.add(ScheduleStore, withVerbs(Context.get(context, ScheduleStore), onTime)),
        Context.add(RateLimitStore, withVerbs(Context.get(context, RateLimitStore), onTime)),
        Context.add(OperatorTokens, withVerbs(Context.get(context, OperatorTokens), onTime)),
        Context.add(MinuteHistory, withVerbs(Context.get(context, MinuteHistory), onTime)),
        Context.add(AuditLog, withVerbs(Context.get(context, AuditLog), onTime)),
      )
    }),
  )

type Verb = <A, E, R>(verb: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** Every verb of a port, and every function that gives one, through `change`. */
const withVerbs = <S extends object>(port: S, change: Verb): S =>
  new Proxy(port, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name)
      if (Effect.isEffect(member)) return change(member)
      if (typeof member !== "function") return member
      return (...args: ReadonlyArray<unknown>) => {
        const given: unknown = Reflect.apply(member, target, args)
        return Effect.isEffect(given) ? change(given) : given
      }
    },
  })
