import { jsonArrayFrom } from "kysely/helpers/postgres"
import { type RawBuilder, sql } from "kysely"
import type * as Effect from "effect/Effect"
import type { Board } from "@kiln/core/domain"
import { lastServedStepMs } from "@kiln/core/rules"
import type { PublishedWorker, Switchboard } from "@kiln/core/ports"
import { boardOf, encodeScope, makeSwitchboard, type StoredBoard as CommonBoard } from "@kiln/sql-store"
import type { Session } from "./connection/Session.ts"
import { excluded, type Given, query, statement, storeTime, whole } from "./Statement.ts"
import type { Database } from "./connection/Database.ts"
import { listSpending, setSpendCap } from "./spending.ts"
import { transactionsOf } from "./transactionsOf.ts"

/** One statement, so from one snapshot. A worker's entry counts until it expires, exclusive. */
const board = statement(() =>
  query.selectNoFrom((select) => [
    jsonArrayFrom(select.selectFrom("switches").select(["name", "enabled"])).as("switches"),
    jsonArrayFrom(
      select
        .selectFrom("prices")
        .select(["id", "name", "version", "currency", "unit_amounts as unitAmounts"])
        .where("active", "=", true),
    ).as("prices"),
    jsonArrayFrom(
      select
        .selectFrom("workers")
        .select(["worker_id as workerId", "live_kinds as liveKinds"])
        .where("live_until", ">", storeTime),
    ).as("workers"),
    jsonArrayFrom(select.selectFrom("paused_kinds").select("kind").orderBy("kind")).as("paused"),
    jsonArrayFrom(select.selectFrom("project_limits").select(["project_id as projectId", "concurrency"])).as("limits"),
    jsonArrayFrom(select.selectFrom("served_kinds").select(["kind", "served_at as servedAt"])).as("served"),
    select.selectFrom("board_version").select("version").where("id", "=", 1).as("version"),
    sql<number>`${storeTime}`.as("readAt"),
  ]),
)

/** The board, with the ids of its prices, which jobs refer to. */
export interface StoredBoard extends CommonBoard {
  /** Changes with every change of switches and prices. Compared by `accept_jobs`. */
  readonly version: string
  /** Store time. */
  readonly readAt: number
}

export const loadBoard = async (session: Session): Promise<StoredBoard> => {
  const row = await session.get(board, {})
  if (row === undefined) throw new TypeError("a statement without a table returned no row")
  const { paused, readAt, version, ...rows } = row
  return { ...boardOf({ ...rows, paused: paused.map(({ kind }) => kind) }), version: version ?? "", readAt }
}

export const readBoard = async (session: Session): Promise<Board> => {
  const { readAt: _readAt, stored: _stored, version: _version, ...read } = await loadBoard(session)
  return read
}

/** `hint` wakes idle workers when a gate may have opened. */
export const makePostgresSwitchboard = (
  db: Pick<Database, "read" | "write">,
  hint: Effect.Effect<void>,
): Switchboard["Service"] =>
  makeSwitchboard(
    transactionsOf(db),
    {
      readBoard: db.read("Switchboard.readBoard", readBoard),
      setSpendCap: (owner, cap) => db.write("Switchboard.setSpendCap", (tx) => setSpendCap(tx, owner, cap)),
      listSpending: db.read("Switchboard.listSpending", listSpending),
      publishWorker: (worker) => db.read("Switchboard.publishWorker", (session) => publishWorker(session, worker)),
    },
    hint,
  )

/** A JSON text of an array, as rows. */
const kindsIn = (liveKinds: RawBuilder<string>) =>
  sql<{ kind: string }>`json_array_elements_text(${liveKinds}::json)`.as<"served">(sql`served(kind)`)

/**
 * Every process that ever ran would leave a row; what another process is writing is left to it. One statement for both, since
 * every worker says this again and again. Said twice, it is as if said once.
 *
 * When a kind was last served is written only where that is `stepMs` ago or more: rows that are fresh enough are not locked.
 * In the order of the kinds, so that no two workers wait for each other.
 */
const publish = statement(
  (
    given: Given<{
      workerId: string
      liveKinds: string
      providers: string
      scope: string | null
      ttlMs: number
      stepMs: number
    }>,
  ) =>
    query
      .with("forgotten", (forget) =>
        forget
          .deleteFrom("workers")
          .where("worker_id", "in", (select) =>
            select
              .selectFrom("workers as old")
              .select("old.worker_id")
              .where("old.live_until", "<=", storeTime)
              .where("old.worker_id", "<>", given.workerId)
              .forUpdate()
              .skipLocked(),
          ),
      )
      .with("served", (note) =>
        note
          .insertInto("served_kinds")
          .columns(["kind", "served_at"])
          .expression(
            query
              .selectFrom(kindsIn(given.liveKinds))
              .select(["served.kind", sql<number>`${storeTime}`.as("served_at")])
              .where((where) =>
                where.not(
                  where.exists(
                    where
                      .selectFrom("served_kinds as known")
                      .select("known.kind")
                      .whereRef("known.kind", "=", "served.kind")
                      .where("known.served_at", ">=", sql<number>`${storeTime} - ${whole(given.stepMs)}`),
                  ),
                ),
              )
              .orderBy("served.kind"),
          )
          .onConflict((conflict) =>
            conflict.column("kind").doUpdateSet({
              served_at: sql<number>`greatest(served_kinds.served_at, excluded.served_at)`,
            }),
          ),
      )
      .insertInto("workers")
      .values({
        worker_id: given.workerId,
        live_kinds: given.liveKinds,
        providers: given.providers,
        scope: given.scope,
        live_until: sql<number>`${storeTime} + ${whole(given.ttlMs)}`,
      })
      .onConflict((conflict) =>
        conflict.column("worker_id").doUpdateSet(excluded("live_kinds", "providers", "scope", "live_until")),
      ),
)

const publishWorker = async (
  session: Session,
  { liveKinds, providers, scope, ttlMs, workerId }: PublishedWorker & { readonly ttlMs: number },
): Promise<void> => {
  await session.run(publish, {
    workerId,
    liveKinds: JSON.stringify(liveKinds),
    providers: JSON.stringify(providers),
    scope: encodeScope(scope),
    ttlMs: Math.ceil(ttlMs),
    // A worker that shuts down writes the exact time.
    stepMs: ttlMs > 0 ? lastServedStepMs : 0,
  })
}
