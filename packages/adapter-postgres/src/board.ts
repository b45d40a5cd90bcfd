import { jsonArrayFrom } from "kysely/helpers/postgres"
import { sql } from "kysely"
import type * as Effect from "effect/Effect"
import type { Board } from "@kiln/core/domain"
import type { Switchboard } from "@kiln/core/ports"
import { boardOf, makeSwitchboard, type StoredBoard as CommonBoard } from "@kiln/sql-store"
import type { Session } from "./Session.ts"
import { query, statement, storeTime } from "./Statement.ts"
import type { Database } from "./Database.ts"
import { listSpending, setSpendCap } from "./spending.ts"
import { transactionsOf } from "./transactionsOf.ts"
import { publishWorker } from "./workers.ts"

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
