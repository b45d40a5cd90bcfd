import { jsonArrayFrom } from "kysely/helpers/postgres"
import type { Board, PriceSnapshot } from "@kiln/core/domain"
import { decodeAmounts, decodeStrings } from "@kiln/core/ports"
import type { Session } from "../Session.ts"
import { query, statement, storeTime } from "../Statement.ts"

/** One statement, and so one moment. What a worker published counts until its time is up, exclusive. */
const board = statement(() =>
  query.selectNoFrom((select) => [
    jsonArrayFrom(select.selectFrom("switches").select("name").where("enabled", "=", true)).as("enabled"),
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
    jsonArrayFrom(select.selectFrom("served_kinds").select(["kind", "served_at as servedAt"])).as("served"),
  ]),
)

/** The board, with the rows of its prices, which jobs refer to. */
export interface StoredBoard extends Board {
  readonly stored: Readonly<Record<string, { readonly id: number; readonly snapshot: PriceSnapshot }>>
}

export const loadBoard = async (session: Session): Promise<StoredBoard> => {
  const row = await session.get(board, {})
  const enabled = new Set(row?.enabled.map(({ name }) => name))
  const prices = (row?.prices ?? []).map(({ id, unitAmounts, ...price }) => ({
    id,
    snapshot: { ...price, unitAmounts: decodeAmounts(unitAmounts, `price ${price.name} ${price.version}`) },
  }))
  const kinds = (row?.workers ?? []).flatMap(({ liveKinds, workerId }) =>
    decodeStrings(liveKinds, `worker ${workerId}`),
  )
  return {
    switches: { ai: enabled.has("ai"), audio: enabled.has("audio"), images: enabled.has("images") },
    prices: Object.fromEntries(prices.map(({ snapshot }) => [snapshot.name, snapshot])),
    liveKinds: [...new Set(kinds)].sort(),
    lastServedAt: Object.fromEntries((row?.served ?? []).map(({ kind, servedAt }) => [kind, servedAt])),
    pausedKinds: (row?.paused ?? []).map(({ kind }) => kind),
    stored: Object.fromEntries(prices.map((price) => [price.snapshot.name, price])),
  }
}

export const readBoard = async (session: Session): Promise<Board> => {
  const { stored: _, ...read } = await loadBoard(session)
  return read
}
