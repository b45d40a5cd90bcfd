import type { JobMode, Principal, ProjectId } from "../domain/index.ts"

const plainName = /^[A-Za-z0-9_-]{1,64}$/

/**
 * Returns the id of a named project, by default `embedded`. Rejects names that look like an id, because two names would then mean
 * one project.
 */
export const projectIdOf = (name = "embedded"): ProjectId => {
  if (typeof name !== "string" || !plainName.test(name) || name.startsWith("prj_"))
    throw new TypeError(
      'a project name must be 1 to 64 letters, digits, hyphens or underscores, and must not start with "prj_"',
    )
  return `prj_${name}`
}

/** Does the same for queries, which may also name a project by its id. */
export const projectAskedFor = (nameOrId?: string): ProjectId =>
  projectIdOf(nameOrId?.startsWith("prj_") === true ? nameOrId.slice(4) : nameOrId)

/** Returns the program's principal in one of its projects. Modes are separate, as everywhere. */
export const callerOf = (mode: JobMode, project: string | undefined, scopes: ReadonlyArray<string>): Principal => {
  const projectId = projectIdOf(project)
  return { projectId, keyId: `key_${projectId.slice(4)}_${mode}`, mode, scopes }
}
