import {
  type ApiKeyRecord,
  KeyDirectory,
  type KeyRotation,
  type NewApiKey,
  type Project,
  type RotateOutcome,
} from "@kiln/core/ports"
import { keep, type MemoryState, step } from "./MemoryState.ts"

/** The reference model of `KeyDirectory`. */
export const makeMemoryKeyDirectory = (state: MemoryState): KeyDirectory["Service"] =>
  KeyDirectory.of({
    createProject: (project) => step((now) => createProject(state, project, now)),
    disableProject: (projectId, disabled) =>
      step((now) => {
        const project = state.projects.get(projectId)
        if (project === undefined || (project.disabledAt !== null) === disabled) return project
        const changed = Object.freeze({ ...project, disabledAt: disabled ? now : null })
        state.projects.set(projectId, changed)
        return changed
      }),
    listProjects: step(() => [...state.projects.values()]),
    createKey: (key) => step((now) => createKey(state, key, now)),
    createFirstKey: (project, key) =>
      step((now) => {
        if (state.keys.size > 0 || createProject(state, project, now) === undefined) return false
        if (createKey(state, key, now) !== undefined) return true
        throw new TypeError("the first key must belong to the project created with it")
      }),
    listKeys: step(() => [...state.keys.values()]),
    limitKey: (keyId, limits) =>
      step(() => {
        const key = state.keys.get(keyId)
        return key && putKey(state, { ...key, limits: keep(limits) })
      }),
    revokeKey: (keyId) =>
      step((now) => {
        const key = state.keys.get(keyId)
        return key === undefined || key.revokedAt !== null ? key : putKey(state, { ...key, revokedAt: now })
      }),
    pruneKeys: (projectId, olderThanMs) =>
      step((now) => {
        const isEnded = (key: ApiKeyRecord): boolean =>
          key.projectId === projectId && key.expiresAt !== null && key.expiresAt <= now - olderThanMs
        const ended = new Set([...state.keys.values()].filter(isEnded).map(({ id }) => id))
        for (const id of ended) state.keys.delete(id)
        for (const [hash, { keyId }] of state.secrets) if (ended.has(keyId)) state.secrets.delete(hash)
        return ended.size
      }),
    rotateKey: (rotation) => step((now) => rotateKey(state, rotation, now)),
    identifyKey: (secretHash) =>
      step(() => {
        const secret = state.secrets.get(secretHash)
        const key = secret && state.keys.get(secret.keyId)
        return key && secret && { key, validUntil: secret.validUntil }
      }),
    findKey: (secretHash) => step((now) => findKey(state, secretHash, now)),
    touchKeys: (uses) =>
      step(() => {
        for (const { keyId, usedAt } of uses) {
          const key = state.keys.get(keyId)
          // Updates arrive late and out of order; "last used" never goes back.
          if (key !== undefined) putKey(state, { ...key, lastUsedAt: Math.max(key.lastUsedAt ?? usedAt, usedAt) })
        }
      }),
  })

const createProject = (state: MemoryState, project: Pick<Project, "id" | "name">, now: number): Project | undefined => {
  if ([...state.projects.values()].some((other) => other.name === project.name)) return undefined
  if (state.projects.has(project.id)) throw new TypeError(`the id ${project.id} belongs to another project`)
  const made = Object.freeze({ id: project.id, name: project.name, createdAt: now, disabledAt: null })
  state.projects.set(made.id, made)
  return made
}

const createKey = (state: MemoryState, key: NewApiKey, now: number): ApiKeyRecord | undefined => {
  if (!state.projects.has(key.projectId)) return undefined
  const { secretHash, ...record } = key
  if (state.keys.has(key.id) || state.secrets.has(secretHash)) throw new TypeError(`key ${key.id} already exists`)
  state.secrets.set(secretHash, { keyId: key.id, validUntil: null })
  return putKey(state, keep({ limits: {}, ...record, createdAt: now, revokedAt: null, lastUsedAt: null }))
}

const rotateKey = (state: MemoryState, { keyId, overlapMs, secretHash }: KeyRotation, now: number): RotateOutcome => {
  const key = state.keys.get(keyId)
  if (key === undefined) return { _tag: "NotFound" }
  if (key.revokedAt !== null || (key.expiresAt !== null && key.expiresAt <= now)) return { _tag: "Ended", key }
  if (state.secrets.has(secretHash)) throw new TypeError(`a secret of ${keyId} already exists`)
  const oldSecretsEndAt = now + overlapMs
  for (const [hash, secret] of state.secrets)
    if (secret.keyId === keyId)
      state.secrets.set(hash, { keyId, validUntil: Math.min(secret.validUntil ?? Infinity, oldSecretsEndAt) })
  state.secrets.set(secretHash, { keyId, validUntil: null })
  return { _tag: "Rotated", key, oldSecretsEndAt }
}

const putKey = (state: MemoryState, key: ApiKeyRecord): ApiKeyRecord => {
  state.keys.set(key.id, Object.freeze(key))
  return key
}

const findKey = (state: MemoryState, secretHash: string, now: number): ApiKeyRecord | undefined => {
  const secret = state.secrets.get(secretHash)
  if (secret === undefined || (secret.validUntil !== null && secret.validUntil <= now)) return undefined
  const key = state.keys.get(secret.keyId)
  return key !== undefined && state.projects.get(key.projectId)?.disabledAt === null ? key : undefined
}
