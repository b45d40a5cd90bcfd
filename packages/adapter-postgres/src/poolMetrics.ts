import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import type * as Scope from "effect/Scope"

const inUse = Metric.gauge("kiln_database_pool_connections_in_use", {
  description: "Connections of the pool that run a statement or a transaction",
})
const idle = Metric.gauge("kiln_database_pool_connections_idle", {
  description: "Open connections of the pool that nothing uses",
})
const most = Metric.gauge("kiln_database_pool_connections_limit", { description: "Maximum connections of the pool" })
const waiting = Metric.gauge("kiln_database_pool_requests_waiting", {
  description: "Steps that wait for a connection because all are in use",
})

/** A pool that counts its connections. */
export interface CountedPool {
  readonly totalCount: number
  readonly idleCount: number
  readonly waitingCount: number
}

/** Registers gauges of a pool until the scope closes. They are read when metrics are, and cost nothing before. */
export const measurePool = (pool: CountedPool, name: string, max: number): Effect.Effect<void, never, Scope.Scope> =>
  Effect.flatMap(Effect.context(), (context) => {
    const register = (gauge: typeof inUse, read: () => number) =>
      Metric.registerUnsafe(Metric.withAttributes(gauge, { pool: name }), context, {
        get: () => ({ value: read() }),
        update: () => undefined,
        modify: () => undefined,
      })
    return Effect.asVoid(
      Effect.acquireRelease(
        Effect.sync(() => [
          register(inUse, () => pool.totalCount - pool.idleCount),
          register(idle, () => pool.idleCount),
          register(most, () => max),
          register(waiting, () => pool.waitingCount),
        ]),
        (registered) =>
          Effect.sync(() => {
            for (const { remove } of registered) remove()
          }),
      ),
    )
  })
