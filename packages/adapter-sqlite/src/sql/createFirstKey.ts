import type { ProjectId } from "@kiln/core/domain"
import type { NewApiKey } from "@kiln/core/ports"
import { query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { createKey } from "./createKey.ts"
import { createProject } from "./createProject.ts"

const anyKey = statement(() => query.selectFrom("api_keys").select("seq").limit(1))

/** Of several processes that start on an empty store, the one that gets the lock first makes it. */
export const createFirstKey = (
  tx: Transaction,
  project: { readonly id: ProjectId; readonly name: string },
  key: NewApiKey,
): boolean => {
  if (tx.get(anyKey, {}) !== undefined || createProject(tx, project) === undefined) return false
  if (createKey(tx, key) === undefined) throw new TypeError("the first key must belong to the project created with it")
  return true
}
