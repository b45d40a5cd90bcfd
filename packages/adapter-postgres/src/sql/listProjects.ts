import type { Project } from "@kiln/core/ports"
import type { Session } from "../Session.ts"
import { query, statement } from "../Statement.ts"

/** In the order of their creation. */
const allProjects = statement(() =>
  query.selectFrom("projects").select(["id", "name", "created_at as createdAt"]).orderBy("seq"),
)

export const listProjects = (session: Session): Promise<ReadonlyArray<Project>> => session.all(allProjects, {})
