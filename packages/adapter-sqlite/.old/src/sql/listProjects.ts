import type { Project } from "@kiln/core/ports"
import { query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** In the order of their creation. */
const allProjects = statement(() =>
  query.selectFrom("projects").select(["id", "name", "created_at as createdAt"]).orderBy("seq"),
)

export const listProjects = (tx: Transaction): ReadonlyArray<Project> => tx.all(allProjects, {})
