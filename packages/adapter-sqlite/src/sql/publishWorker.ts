import { lastServedStepMs } from "@kiln/core/domain"
import type { PublishedWorker } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

const upsertWorker = statement(
  (given: Given<{ workerId: string; liveKinds: string; providers: string; liveUntil: number }>) => {
    const published = { live_kinds: given.liveKinds, providers: given.providers, live_until: given.liveUntil }
    return query
      .insertInto("workers")
      .values({ worker_id: given.workerId, ...published })
      .onConflict((conflict) => conflict.column("worker_id").doUpdateSet(published))
  },
)

/** Every process that ever ran would leave a row. */
const forgetWorkers = statement((given: Given<{ now: number }>) =>
  query.deleteFrom("workers").where("live_until", "<=", given.now),
)

/** Outlives the workers. A row that is not yet older than `before` is left as it is. */
const noteServed = statement((given: Given<{ kind: string; now: number; before: number }>) =>
  query
    .insertInto("served_kinds")
    .values({ kind: given.kind, served_at: given.now })
    .onConflict((conflict) =>
      conflict.column("kind").doUpdateSet({ served_at: given.now }).where("served_kinds.served_at", "<", given.before),
    ),
)

export const publishWorker = (
  tx: Transaction,
  { liveKinds, providers, ttlMs, workerId }: PublishedWorker & { readonly ttlMs: number },
): void => {
  tx.run(forgetWorkers, { now: tx.now })
  tx.run(upsertWorker, {
    workerId,
    liveKinds: JSON.stringify(liveKinds),
    providers: JSON.stringify(providers),
    liveUntil: tx.now + ttlMs,
  })
  // The last word of a worker that stops is exact.
  const before = ttlMs > 0 ? tx.now - lastServedStepMs : tx.now
  for (const kind of liveKinds) tx.run(noteServed, { kind, now: tx.now, before })
}
