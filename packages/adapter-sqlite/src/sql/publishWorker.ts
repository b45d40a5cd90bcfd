import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

const upsertWorker = statement((given: Given<{ workerId: string; liveKinds: string; liveUntil: number }>) =>
  query
    .insertInto("workers")
    .values({ worker_id: given.workerId, live_kinds: given.liveKinds, live_until: given.liveUntil })
    .onConflict((conflict) =>
      conflict.column("worker_id").doUpdateSet({ live_kinds: given.liveKinds, live_until: given.liveUntil }),
    ),
)

/** Every process that ever ran would leave a row. */
const forgetWorkers = statement((given: Given<{ now: number }>) =>
  query.deleteFrom("workers").where("live_until", "<=", given.now),
)

export const publishWorker = (
  tx: Transaction,
  {
    liveKinds,
    ttlMs,
    workerId,
  }: { readonly workerId: string; readonly liveKinds: ReadonlyArray<string>; readonly ttlMs: number },
): void => {
  tx.run(forgetWorkers, { now: tx.now })
  tx.run(upsertWorker, { workerId, liveKinds: JSON.stringify(liveKinds), liveUntil: tx.now + ttlMs })
}
