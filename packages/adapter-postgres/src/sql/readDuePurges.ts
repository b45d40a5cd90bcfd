import type { DuePurges } from "@kiln/core/ports"
import { sql } from "kysely"
import type { Session } from "../Session.ts"
import { query, statement } from "../Statement.ts"

const purgesDue = statement(() =>
  query
    .selectFrom("purges")
    .select((select) => [
      select.fn.countAll<number>().as("count"),
      sql<number>`coalesce(greatest("kiln".store_time() - min(recorded_at), 0), 0)`.as("oldestAgeMs"),
    ]),
)

export const readDuePurges = async (session: Session): Promise<DuePurges> =>
  (await session.get(purgesDue, {})) ?? { count: 0, oldestAgeMs: 0 }
