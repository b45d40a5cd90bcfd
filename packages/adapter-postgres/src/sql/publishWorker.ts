import type { Transaction } from "../Session.ts"
import { type Given, query, statement } from "../Statement.ts"

const upsertWorker = statement((given: Given<{ workerId: string; liveKinds: string; liveUntil: number }>) =>
  query
    .insertInto("workers")
    .values({ worker_id: given.workerId, live_kinds: given.liveKinds, live_until: given.liveUntil })
    .onConflict((conflict) =>
      conflict.column("worker_id").doUpdateSet((set) => ({
        live_kinds: set.ref("excluded.live_kinds"),
        live_until: set.ref("excluded.live_until"),
      })),
    ),
)

/** Every process that ever ran would leave a row. What another process is writing is left to it. */
const forgetWorkers = statement((given: Given<{ now: number }>) =>
  query
    .deleteFrom("workers")
    .where("worker_id", "in", (select) =>
      select
        .selectFrom("workers as old")
        .select("old.worker_id")
        .where("old.live_until", "<=", given.now)
        .forUpdate()
        .skipLocked(),
    ),
)

export const publishWorker = async (
  tx: Transaction,
  {
    liveKinds,
    ttlMs,
    workerId,
  }: { readonly workerId: string; readonly liveKinds: ReadonlyArray<string>; readonly ttlMs: number },
): Promise<void> => {
  await Promise.all([
    tx.run(forgetWorkers, { now: tx.now }),
    tx.run(upsertWorker, { workerId, liveKinds: JSON.stringify(liveKinds), liveUntil: tx.now + ttlMs }),
  ])
}
