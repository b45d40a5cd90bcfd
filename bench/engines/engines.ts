import type { Engine } from "./Engine.ts"
import { bullmq } from "./bullmq.ts"
import { graphileWorker } from "./graphileWorker.ts"
import { kiln } from "./kiln.ts"
import { openworkflow } from "./openworkflow.ts"
import { pgBoss } from "./pgBoss.ts"
import { plainjob } from "./plainjob.ts"
import { rawPostgres } from "./rawPostgres.ts"
import { rawSqlite } from "./rawSqlite.ts"

/** The engines of each store by the names they have in tables. `limit` is the same work without an engine. */
export const engines = {
  sqlite: {
    kiln,
    "plainjob, fsync": plainjob("FULL"),
    "plainjob, no fsync": plainjob("NORMAL"),
    openworkflow,
    limit: rawSqlite,
  },
  postgres: {
    kiln,
    "pg-boss": pgBoss,
    "graphile-worker": graphileWorker,
    BullMQ: bullmq,
    openworkflow,
    limit: rawPostgres,
  },
} as const satisfies Record<string, Readonly<Record<string, Engine>>>

export type Store = keyof typeof engines

export const engineOf = (store: Store, name: string): Engine => {
  const engine = (engines[store] as Readonly<Record<string, Engine>>)[name]
  if (engine === undefined) throw new Error(`unknown engine "${name}"`)
  return engine
}
