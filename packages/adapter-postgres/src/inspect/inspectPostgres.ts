import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type pg from "pg"
import { sql } from "kysely"
import { StoreUnavailable } from "@kiln/core/domain"
import type { MigrationStatus, QueueGroup, StoreInspection } from "@kiln/core/ports"
import { commonChecks, dueRetention } from "@kiln/sql-store"
import { readBoard } from "../board.ts"
import { cutOff, newClient } from "../connection/pool.ts"
import { migrations } from "../migrations/index.ts"
import { postgresMigrations } from "../connection/openDatabase.ts"
import { connectionOptions, type PostgresOptions } from "../connection/options.ts"
import { readPlace } from "../place.ts"
import { Session } from "../connection/Session.ts"
import { isNotNeeded, readFinishedKinds } from "../jobs/finishedKinds.ts"
import { retainedPart } from "../jobs/jobRow.ts"
import { findOrphans, named } from "../jobs/findJobs.ts"
import { runOn } from "../transactionsOf.ts"
import { schemaDrift } from "./schemaDrift.ts"
import { findUpkeep } from "./upkeep.ts"
import { query, statement, storeTime } from "../Statement.ts"

const state = sql<QueueGroup["state"]>`case
  when not queue.held then case when queue.claimable_at <= ${storeTime} then 'ready' else 'delayed' end
  when queue.claimable_at <= ${storeTime} then 'lapsed' else 'running' end`

const groupsOfQueue = statement(() =>
  query
    .selectFrom("queue")
    .select((of) => [
      "queue.kind",
      "queue.mode",
      state.as("state"),
      of.fn.countAll<number>().as("count"),
      sql<number>`greatest(${storeTime} - min(queue.claimable_at), 0)`.as("oldestMs"),
    ])
    .groupBy([sql.ref("queue.kind"), sql.ref("queue.mode"), sql`3`])
    .orderBy(sql`1`)
    .orderBy(sql`2`)
    .orderBy(sql`3`),
)

const readDueRetention = dueRetention({ table: "results", seq: "job_seq", retained: retainedPart, isNotNeeded })

const countQueue = (session: Session): Promise<ReadonlyArray<QueueGroup>> =>
  session.all(groupsOfQueue, {}) as Promise<ReadonlyArray<QueueGroup>>

/** Opens a store for inspection, also while servers use it. Returns `undefined` if the schema does not exist. */
export const inspectPostgres = (
  options: PostgresOptions,
): Effect.Effect<StoreInspection | undefined, StoreUnavailable, Scope.Scope> =>
  Effect.gen(function* () {
    const { schema = "kiln" } = options
    const client = yield* Effect.acquireRelease(connect(options), goodbye)
    const { rowCount } = yield* ask(() => client.query("SELECT FROM pg_namespace WHERE nspname = $1", [schema]))
    return rowCount === 0 ? undefined : inspectionOf(client, options, postgresMigrations.status(options))
  })

/** Milliseconds to wait for a server that does not close the connection. */
const goodbyeMs = 1_000

const goodbye = (client: pg.Client): Effect.Effect<void> =>
  Effect.promise(() => client.end().catch(() => undefined)).pipe(
    Effect.interruptible,
    Effect.timeoutOrElse({ duration: goodbyeMs, orElse: () => Effect.sync(() => cutOff(client)) }),
  )

const inspectionOf = (
  client: pg.Client,
  options: PostgresOptions,
  status: Effect.Effect<MigrationStatus, StoreUnavailable>,
): StoreInspection => {
  const wire = connectionOptions(options)
  const session = new Session(client, { ...wire, prepared: false })
  return {
    ...commonChecks((_, program) => ask(() => runOn(session, program)), named),
    migrations: status,
    schemaDrift: Effect.flatMap(status, ({ applied, unknown }) => {
      const done = new Set(applied.map(({ name }) => name))
      const known = migrations.filter(({ name }) => done.has(name))
      return ask(() => schemaDrift(session, wire.schema, known, unknown.length > 0))
    }),
    damage: ask(() => failedChecksums(client)),
    dueRetention: (periods) =>
      ask(async () => {
        const kept = await readFinishedKinds(session, "kept")
        const expired = await readFinishedKinds(session, "expired")
        const deleted = await readFinishedKinds(session, "deleted")
        return runOn(session, (tx) => readDueRetention(tx, periods, { kept, expired, deleted }))
      }),
    upkeep: ask(() => findUpkeep(client, wire.schema)),
    countQueue: ask(() => countQueue(session)),
    readBoard: ask(() => readBoard(session)),
    readPlace: options.allowCopies === true ? Effect.undefined : ask(() => readPlace(session, wire)),
    findOrphans: (blobs) => ask(() => findOrphans(session, blobs)),
  }
}

/** The server verifies the checksums of pages when it reads them, and counts failures. */
const failedChecksums = async (client: pg.Client): Promise<ReadonlyArray<string>> => {
  const { rows } = await client.query<{ readonly failures: number | null }>(
    "SELECT checksum_failures AS failures FROM pg_stat_database WHERE datname = current_database()",
  )
  const failures = rows[0]?.failures ?? 0
  return failures > 0 ? [`${failures} pages failed their checksum`] : []
}

const connect = (options: PostgresOptions): Effect.Effect<pg.Client, StoreUnavailable> =>
  ask(async () => {
    const client = newClient(connectionOptions(options), "kiln doctor")
    // Errors of an idle connection are events, and an unhandled one would end the process.
    client.on("error", () => undefined)
    await client.connect()
    return client
  })

const ask = <A>(work: () => Promise<A>): Effect.Effect<A, StoreUnavailable> =>
  Effect.tryPromise({ try: work, catch: (cause) => new StoreUnavailable({ operation: "inspect", cause }) })
