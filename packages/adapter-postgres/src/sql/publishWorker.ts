import { sql } from "kysely"
import type { PublishedWorker } from "@kiln/core/ports"
import type { Session } from "../Session.ts"
import { type Given, query, statement, storeTime, whole } from "../Statement.ts"

/**
 * Every process that ever ran would leave a row; what another process is writing is left to it. One statement for both, since
 * every worker says this again and again. Said twice, it is as if said once.
 */
const publish = statement((given: Given<{ workerId: string; liveKinds: string; providers: string; ttlMs: number }>) =>
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
    .insertInto("workers")
    .values({
      worker_id: given.workerId,
      live_kinds: given.liveKinds,
      providers: given.providers,
      live_until: sql<number>`${storeTime} + ${whole(given.ttlMs)}`,
    })
    .onConflict((conflict) =>
      conflict.column("worker_id").doUpdateSet((set) => ({
        live_kinds: set.ref("excluded.live_kinds"),
        providers: set.ref("excluded.providers"),
        live_until: set.ref("excluded.live_until"),
      })),
    ),
)

export const publishWorker = async (
  session: Session,
  { liveKinds, providers, ttlMs, workerId }: PublishedWorker & { readonly ttlMs: number },
): Promise<void> => {
  await session.run(publish, {
    workerId,
    liveKinds: JSON.stringify(liveKinds),
    providers: JSON.stringify(providers),
    ttlMs: Math.ceil(ttlMs),
  })
}
