import { sql } from "kysely"
import type { ProjectId } from "@kiln/core/domain"
import type { NewApiKey } from "@kiln/core/ports"
import type { Transaction } from "../Session.ts"
import { query, statement } from "../Statement.ts"
import { createKey } from "./createKey.ts"
import { createProject } from "./createProject.ts"

/** Ends with the transaction. */
const oneAtATime = statement(() =>
  query.selectNoFrom(
    sql`pg_advisory_xact_lock(hashtextextended(current_database() || ' "kiln".first key', 0))`.as("lock"),
  ),
)

const anyKey = statement(() => query.selectFrom("api_keys").select("seq").limit(1))

/** Of several processes that start on an empty store, the one that gets the lock first makes it. */
export const createFirstKey = async (
  tx: Transaction,
  project: { readonly id: ProjectId; readonly name: string },
  key: NewApiKey,
): Promise<boolean> => {
  await tx.all(oneAtATime, {})
  if ((await tx.get(anyKey, {})) !== undefined || (await createProject(tx, project)) === undefined) return false
  if ((await createKey(tx, key)) === undefined)
    throw new TypeError("the first key must belong to the project created with it")
  return true
}
