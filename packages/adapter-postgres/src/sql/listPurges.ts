import type { Purge } from "@kiln/core/ports"
import type { Session } from "../Session.ts"
import { type Given, query, statement } from "../Statement.ts"

/** In the order in which they were recorded. */
const oldestPurges = statement((given: Given<{ limit: number }>) =>
  query.selectFrom("purges").select("blob_prefix as blobPrefix").orderBy("id").limit(given.limit),
)

export const listPurges = (session: Session, limit: number): Promise<ReadonlyArray<Purge>> =>
  session.all(oldestPurges, { limit })
