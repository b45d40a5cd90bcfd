import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { KeyId, KeyMode, KeyScope, ProjectId, StoreUnavailable } from "../domain/index.ts"

export interface Project {
  readonly id: ProjectId
  readonly name: string
  /** Unix milliseconds. */
  readonly createdAt: number
}

/** A key without its secret, which nobody knows any more. Times are unix milliseconds. */
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
  /** SHA-256 of the whole secret, lower-case hex. The secret itself is never stored. */
  readonly secretHash: string
}

/** Projects and their keys. A record may have several secrets during a rotation; it stays the same key. */
export class KeyDirectory extends Context.Service<
  KeyDirectory,
  {
    /** `undefined` when a project of that name exists already. */
    readonly createProject: (project: {
      readonly id: ProjectId
      readonly name: string
    }) => Effect.Effect<Project | undefined, StoreUnavailable>
    readonly listProjects: Effect.Effect<ReadonlyArray<Project>, StoreUnavailable>
    /** `undefined` when the project does not exist. */
    readonly createKey: (key: NewApiKey) => Effect.Effect<ApiKeyRecord | undefined, StoreUnavailable>
    /** Makes a project and a key, both or neither, and only where the directory holds no key yet; says whether it did. */
    readonly createFirstKey: (
      project: { readonly id: ProjectId; readonly name: string },
      key: NewApiKey,
    ) => Effect.Effect<boolean, StoreUnavailable>
    readonly listKeys: Effect.Effect<ReadonlyArray<ApiKeyRecord>, StoreUnavailable>
    /** The record, as it is after the call; `undefined` when there is none. Revoking again changes nothing. */
    readonly revokeKey: (keyId: KeyId) => Effect.Effect<ApiKeyRecord | undefined, StoreUnavailable>
    /** The record that owns this secret, expired and revoked ones included; `undefined` when unknown or the secret's overlap has ended. */
    readonly findKey: (secretHash: string) => Effect.Effect<ApiKeyRecord | undefined, StoreUnavailable>
    /** Notes when keys were last used. May be lost in a crash. */
    readonly touchKeys: (
      uses: ReadonlyArray<{ readonly keyId: KeyId; readonly usedAt: number }>,
    ) => Effect.Effect<void, StoreUnavailable>
  }
>()("@kiln/core/ports/KeyDirectory") {}
