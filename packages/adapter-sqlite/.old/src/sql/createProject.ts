import type { ProjectId } from "@kiln/core/domain"
import type { Project } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** Names are unique; only a name that is taken is an answer, an id that is taken is a defect. */
const insertProject = statement((given: Given<{ id: ProjectId; name: string; now: number }>) =>
  query
    .insertInto("projects")
    .values({ id: given.id, name: given.name, created_at: given.now })
    .onConflict((conflict) => conflict.column("name").doNothing()),
)

export const createProject = (
  tx: Transaction,
  { id, name }: { readonly id: ProjectId; readonly name: string },
): Project | undefined =>
  tx.run(insertProject, { id, name, now: tx.now }) === 1 ? { id, name, createdAt: tx.now } : undefined
