import type { JobMode, Principal, ProjectId } from "../domain/index.ts"

const plainName = /^[A-Za-z0-9_-]{1,64}$/

/** The project a program names; its own where it names none. */
export const projectIdOf = (name = "embedded"): ProjectId => {
  const plain = name.startsWith("prj_") ? name.slice(4) : name
  if (!plainName.test(plain))
    throw new TypeError("a project is named with 1 to 64 letters, digits, hyphens and underscores")
  return `prj_${plain}`
}

/** One program is one caller in each of its projects; modes are kept apart, as everywhere. */
export const callerOf = (mode: JobMode, project: string | undefined, scopes: ReadonlyArray<string>): Principal => {
  const projectId = projectIdOf(project)
  return { projectId, keyId: `key_${projectId.slice(4)}_${mode}`, mode, scopes }
}
