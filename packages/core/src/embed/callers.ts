import type { JobMode, Principal, ProjectId } from "../domain/index.ts"

const plainName = /^[A-Za-z0-9_-]{1,64}$/

/** The project a program names; its own where it names none. What looks like an identifier is no name, or two names would be one project. */
export const projectIdOf = (name = "embedded"): ProjectId => {
  if (typeof name !== "string" || !plainName.test(name) || name.startsWith("prj_"))
    throw new TypeError(
      'a project is named with 1 to 64 letters, digits, hyphens and underscores, and not with "prj_" in front',
    )
  return `prj_${name}`
}

/** The same for questions, which may name a project by its identifier as well. */
export const projectAskedFor = (nameOrId?: string): ProjectId =>
  projectIdOf(nameOrId?.startsWith("prj_") === true ? nameOrId.slice(4) : nameOrId)

/** One program is one caller in each of its projects; modes are kept apart, as everywhere. */
export const callerOf = (mode: JobMode, project: string | undefined, scopes: ReadonlyArray<string>): Principal => {
  const projectId = projectIdOf(project)
  return { projectId, keyId: `key_${projectId.slice(4)}_${mode}`, mode, scopes }
}
