import type { KeyId } from "@kiln/core/domain"
import type { Transaction } from "../Session.ts"
import { batchStatement, query } from "../Statement.ts"

/** In the order of their ids, so that no two processes wait for each other. */
const lockKeys = batchStatement<{ keyId: KeyId }, {}, unknown>({ keyId: "text" }, (item) =>
  query
    .selectFrom("api_keys")
    .innerJoin(item, (join) => join.onRef("item.keyId", "=", "api_keys.id"))
    .select("api_keys.id")
    .orderBy("api_keys.id")
    .forNoKeyUpdate("api_keys"),
)

/** Notes arrive late and out of order; "last used" never goes back. */
const touch = batchStatement<{ keyId: KeyId; usedAt: number }, {}, unknown>(
  { keyId: "text", usedAt: "bigint" },
  (item) =>
    query
      .updateTable("api_keys")
      .from(item)
      .set((set) => ({ last_used_at: set.ref("item.usedAt") }))
      .whereRef("api_keys.id", "=", "item.keyId")
      .where((where) =>
        where.or([
          where("api_keys.last_used_at", "is", null),
          where("api_keys.last_used_at", "<", where.ref("item.usedAt")),
        ]),
      ),
)

export const touchKeys = async (
  tx: Transaction,
  uses: ReadonlyArray<{ readonly keyId: KeyId; readonly usedAt: number }>,
): Promise<void> => {
  // One row a key: an update sees a row once.
  const latest = new Map<KeyId, number>()
  for (const { keyId, usedAt } of uses) latest.set(keyId, Math.max(usedAt, latest.get(keyId) ?? usedAt))
  const keys = [...latest].map(([keyId, usedAt]) => ({ keyId, usedAt }))
  await Promise.all([tx.runBatch(lockKeys, keys, {}), tx.runBatch(touch, keys, {})])
}
