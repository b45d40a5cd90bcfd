import { type RawBuilder, sql } from "kysely"
import { lastServedStepMs } from "@kiln/core/domain"
import type { PublishedWorker } from "@kiln/core/ports"
import { encodeScope } from "@kiln/sql-store"
import type { Session } from "./Session.ts"
import { excluded, type Given, query, statement, storeTime, whole } from "./Statement.ts"

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

export const publishWorker = async (
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
