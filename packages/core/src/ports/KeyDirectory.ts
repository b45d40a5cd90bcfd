import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { KeyId, KeyLimits, KeyMode, ProjectId, StoreUnavailable } from "../domain/index.ts"
import type { KeyScope } from "../domain/Access.ts"

export interface Project {
  readonly id: ProjectId
  readonly name: string
  /** Unix milliseconds. */
  readonly createdAt: number
  /** When an operator disabled it; `null` while its keys work. Unix milliseconds. */
  readonly disabledAt: number | null
}

/** A key without its secret, which is not stored. Times are unix milliseconds. */
export interface ApiKeyRecord {
  readonly id: KeyId
  readonly projectId: ProjectId
  readonly mode: KeyMode
  readonly scopes: ReadonlyArray<KeyScope>
  readonly name: string | null
  /** Rate limits that replace the installation's. */
  readonly limits: KeyLimits
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
  /** Rate limits that replace the installation's; none by default. */
  readonly limits?: KeyLimits
  /** SHA-256 of the whole secret, in lower-case hex. The secret itself is never stored. */
  readonly secretHash: string
}

/** A new secret for a key. */
export interface KeyRotation {
  readonly keyId: KeyId
  /** SHA-256 of the whole new secret, in lower-case hex. */
  readonly secretHash: string
  /** Milliseconds for which the key's other secrets stay valid; 0 ends them at once. */
  readonly overlapMs: number
}
export type RotateOutcome =
  | {
      readonly _tag: "Rotated"
      readonly key: ApiKeyRecord
      /** When the last of the other secrets ends, exclusive; unix milliseconds. */
      readonly oldSecretsEndAt: number
    }
  | { readonly _tag: "NotFound" }
  /** The key is revoked or has expired, so a new secret would be useless. */
  | { readonly _tag: "Ended"; readonly key: ApiKeyRecord }

/** A secret that a key has or had. */
export interface KeySecretRecord {
  readonly key: ApiKeyRecord
  /** When the secret ends or ended, exclusive; `null` for the key's current secret. Unix milliseconds. */
  readonly validUntil: number | null
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
    /**
     * Disables a project, whose keys then count as unknown, or enables it again. Returns the project; `undefined` if it does not
     * exist. Repeating it keeps the time of the first call.
     */
    readonly disableProject: (
      projectId: ProjectId,
      disabled: boolean,
    ) => Effect.Effect<Project | undefined, StoreUnavailable>
    readonly listProjects: Effect.Effect<ReadonlyArray<Project>, StoreUnavailable>
    /** Creates a key. Returns `undefined` if the project does not exist. */
    readonly createKey: (key: NewApiKey) => Effect.Effect<ApiKeyRecord | undefined, StoreUnavailable>
    /** Creates a project and a key together, but only if the directory has no keys yet. Returns whether it did. */
    readonly createFirstKey: (
      project: { readonly id: ProjectId; readonly name: string },
      key: NewApiKey,
    ) => Effect.Effect<boolean, StoreUnavailable>
    readonly listKeys: Effect.Effect<ReadonlyArray<ApiKeyRecord>, StoreUnavailable>
    /** Replaces the rate limits of a key, and returns its record; `undefined` for an unknown key. */
    readonly limitKey: (keyId: KeyId, limits: KeyLimits) => Effect.Effect<ApiKeyRecord | undefined, StoreUnavailable>
    /** Revokes a key and returns its record; `undefined` for an unknown key. Revoking it again is a no-op. */
    readonly revokeKey: (keyId: KeyId) => Effect.Effect<ApiKeyRecord | undefined, StoreUnavailable>
    /** Removes the keys of a project that expired at least `olderThanMs` ago, with their secrets. Returns how many. */
    readonly pruneKeys: (projectId: ProjectId, olderThanMs: number) => Effect.Effect<number, StoreUnavailable>
    /**
     * Adds a secret to a key that is neither revoked nor expired. The key's other secrets end when the overlap does, or earlier
     * if an earlier rotation said so. The record stays the same, so its jobs stay reachable.
     */
    readonly rotateKey: (rotation: KeyRotation) => Effect.Effect<RotateOutcome, StoreUnavailable>
    /** Returns the owner of a secret, even if its overlap has ended; `undefined` if no key ever had it. */
    readonly identifyKey: (secretHash: string) => Effect.Effect<KeySecretRecord | undefined, StoreUnavailable>
    /**
     * Returns the record that owns this secret, even if expired or revoked; `undefined` if it is unknown, if the secret's overlap
     * has ended, or if the project is disabled.
     */
    readonly findKey: (secretHash: string) => Effect.Effect<ApiKeyRecord | undefined, StoreUnavailable>
    /** Records when keys were last used. Best effort: updates may be lost in a crash. */
    readonly touchKeys: (
      uses: ReadonlyArray<{ readonly keyId: KeyId; readonly usedAt: number }>,
    ) => Effect.Effect<void, StoreUnavailable>
  }
>()("@kiln/core/ports/KeyDirectory") {}
