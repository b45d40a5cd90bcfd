import { sql } from "kysely"
import { InHand, isLimiting } from "@kiln/core/domain"
import type { ClaimRequest } from "@kiln/core/ports"
import type { Session } from "../Session.ts"
import { query, statement, storeTime } from "../Statement.ts"

/** Claims that ask for limits go one after the other: each counts what the one before it handed out. Ends with the transaction. */
const oneAtATime = statement(() =>
  query.selectNoFrom(
    sql`pg_advisory_xact_lock(hashtextextended(current_database() || ' "kiln".claims', 0))`.as("lock"),
  ),
)

/** Counted in an index of held jobs alone: however many jobs there are, those in hand are few. */
export const jobsInHand = statement(() =>
  query
    .selectFrom("queue")
    .select(["mode", "kind", "project_id as projectId"])
    .select((select) => [
      select.fn.countAll<number>().as("count"),
      select.fn.min<number>("claimable_at").as("firstEnd"),
    ])
    .where("held", "=", true)
    .where("claimable_at", ">", storeTime)
    .groupBy(["mode", "kind", "project_id"]),
)

/** The jobs in hand, if limits ask for them. What the worker has in its own slots it says itself: no claim waits for another because of it. */
export const loadInHand = async (session: Session, { limits, worker }: ClaimRequest): Promise<InHand> => {
  if (!isLimiting(limits)) return new InHand(limits, [], worker)
  await session.all(oneAtATime, {})
  return new InHand(limits, await session.all(jobsInHand, {}), worker)
}

/** Projects of which no further job may be claimed in a mode, each as `mode id`. */
export const fullProjectNames = (inHand: InHand): ReadonlyArray<string> =>
  (["sandbox", "live"] as const).flatMap((mode) => inHand.fullProjects(mode).map((id) => `${mode} ${id}`))
