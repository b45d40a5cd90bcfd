import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { KeyId, KeyMode, KeyScope, ProjectId, StoreUnavailable } from "../domain/index.ts"

export interface Project {
  readonly id: ProjectId
  readonly name: string
  /** Unix milliseconds. */
  readonly createdAt: number
}

/** A key without its secret, which is not stored. Times are unix milliseconds. */
export interface ApiKeyRecord {
  readonly id: KeyId
  readonly projectId: ProjectId
  readonly mode: KeyMode
  readonly scopes: ReadonlyArray<KeyScope>
  readonly name: string | null
  readonly createdAt: number
  readonly expiresAt: number | null
  readonly revokedAt: number | null
  readonly lastUsedAt: number | null
}

export interface NewApiKey {
  readonly id: KeyId
  readonly projectId: ProjectId
  readonly mode: KeyMode
  readonly scopes: ReadonlyArray<KeyScope>
  readonly name: string | null
  readonly expiresAt: number | null
  /** SHA-256 of the whole secret, in lower-case hex. The secret itself is never stored. */
  readonly secretHash: string
}

/** Projects and their keys. A record may have several secrets during a rotation; it stays the same key. */
export class KeyDirectory extends Context.Service<
  KeyDirectory,
  {
    /** Creates a project. Returns `undefined` if its name is taken. */
    readonly createProject: (project: {
      readonly id: ProjectId
      readonly name: string
    }) => Effect.Effect<Project | undefined, StoreUnavailable>
    readonly listProjects: Effect.Effect<ReadonlyArray<Project>, StoreUnavailable>
    /** Creates a key. Returns `undefined` if the project does not exist. */
    readonly createKey: (key: NewApiKey) => Effect.Effect<ApiKeyRecord | undefined, StoreUnavailable>
    /** Creates a project and a key together, but only if the directory has no keys yet. Returns whether it did. */
    readonly createFirstKey: (
      project: { readonly id: ProjectId; readonly name: string },
      key: NewApiKey,
    ) => Effect.Effect<boolean, StoreUnavailable>
    readonly listKeys: Effect.Effect<ReadonlyArray<ApiKeyRecord>, StoreUnavailable>
    /** Revokes a key and returns its record; `undefined` for an unknown key. Revoking it again is a no-op. */
    readonly revokeKey: (keyId: KeyId) => Effect.Effect<ApiKeyRecord | undefined, StoreUnavailable>
    /**
     * Returns the record that owns this secret, even if expired or revoked; `undefined` if it is unknown or the secret's overlap
     * has ended.
     */
    readonly findKey: (secretHash: string) => Effect.Effect<ApiKeyRecord | undefined, StoreUnavailable>
    /** Records when keys were last used. Best effort: updates may be lost in a crash. */
    readonly touchKeys: (
      uses: ReadonlyArray<{ readonly keyId: KeyId; readonly usedAt: number }>,
    ) => Effect.Effect<void, StoreUnavailable>
  }
>()("@kiln/core/ports/KeyDirectory") {}
