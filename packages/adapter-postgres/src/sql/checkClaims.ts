import type { JobId } from "@kiln/core/domain"
import type { ClaimRef } from "@kiln/core/ports"
import type { Session } from "../Session.ts"
import { batchStatement, query } from "../Statement.ts"

const presentClaims = batchStatement<{ id: JobId; held: boolean; token: number }, {}, { readonly ord: number }>(
  { id: "text", held: "boolean", token: "bigint" },
  (item) =>
    query
      .selectFrom(item)
      .innerJoin("queue", (join) =>
        join
          .onRef("queue.id", "=", "item.id")
          .onRef("queue.held", "=", "item.held")
          .onRef("queue.token", "=", "item.token"),
      )
      .select("item.ord"),
)

/** The fence, without the lock that would make it hold. `held` is part of the item, see `extendLeases`. */
export const checkClaims = async (
  session: Session,
  items: ReadonlyArray<ClaimRef>,
): Promise<ReadonlyArray<boolean>> => {
  const claims = items.map(({ jobId: id, token }) => ({ id, held: true, token }))
  const present = new Set((await session.batch(presentClaims, claims, {})).map(({ ord }) => ord))
  return items.map((_, index) => present.has(index + 1))
}
