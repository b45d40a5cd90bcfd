import * as Effect from "effect/Effect"
import * as SecureRandom from "effect/crypto/SecureRandom"
import {
  isDate,
  type KeyId,
  type KeyLimits,
  keyLimitsProblem,
  type OptionNames,
  requireOneOf,
  requireOptions,
} from "@kiln/core/domain"
import { projectAskedFor } from "@kiln/core/effect"
import { isStorableText } from "@kiln/core/domain"
import { KeyDirectory } from "@kiln/core/ports"
import { newKey } from "../newKey.ts"
import { inEngine } from "./inEngine.ts"
import type { MountedEngine } from "./MountOptions.ts"

/** Options of a new API key. */
export interface ApiKeyOptions {
  /** The project's name, as in `submit`, or its identifier; created if it does not exist. Default `embedded`. */
  readonly project?: string
  /** `test` keys create sandbox jobs, `live` keys create live jobs. Default `test`. */
  readonly mode?: "test" | "live"
  /** Permissions: `audio.create`, `images.create`, and the scopes of custom kinds. */
  readonly scopes: ReadonlyArray<string>
  /** Display name in the operator's list. */
  readonly name?: string
  /** Expiry. Default: never. */
  readonly expiresAt?: Date
  /** Rate limits of this key that replace the service's: `{ create: { perMinute: 120, burst: 60 } }`. */
  readonly limits?: KeyLimits
}

/** A new key. This is the only time its text is available: the store has only its SHA-256. */
export interface ApiKey {
  readonly key: string
  readonly keyId: string
}

const optionNames: OptionNames<ApiKeyOptions> = {
  project: true,
  mode: true,
  scopes: true,
  name: true,
  expiresAt: true,
  limits: true,
}

const requireLimits = (limits: KeyLimits): void => {
  const problem = keyLimitsProblem(limits)
  if (problem !== undefined) throw new TypeError(problem)
}

/**
 * Replaces the rate limits of a key; `{}` removes them, so that those of the service apply. Takes effect within 5 s. Rejects if there
 * is no such key.
 */
export const limitApiKey = async (engine: MountedEngine, keyId: string, limits: KeyLimits): Promise<void> => {
  requireLimits(limits)
  return inEngine(
    engine,
    Effect.gen(function* () {
      const limited = yield* (yield* KeyDirectory).limitKey(keyId as KeyId, limits)
      if (limited === undefined) return yield* Effect.die(new TypeError(`there is no key ${keyId}`))
    }),
  )
}

/** Creates a key for the mounted API in the engine's store. `kiln key` lists and revokes it like any other. */
export const createApiKey = async (engine: MountedEngine, options: ApiKeyOptions): Promise<ApiKey> => {
  requireOptions("createApiKey()", options, optionNames)
  const { expiresAt, limits = {}, mode = "test", name, project, scopes } = options
  requireLimits(limits)
  requireOneOf("mode", mode, ["test", "live"])
  if (!Array.isArray(scopes) || scopes.some((scope) => typeof scope !== "string"))
    throw new TypeError("scopes must be an array of strings")
  if (expiresAt !== undefined && (!isDate(expiresAt) || Number.isNaN(expiresAt.getTime())))
    throw new TypeError("expiresAt must be a valid Date; leave it out for a key that never expires")
  const projectId = projectAskedFor(project)
  if (name !== undefined && !isStorableText(name))
    throw new TypeError("the name of an API key must not contain U+0000 or unpaired surrogates")
  return inEngine(
    engine,
    Effect.gen(function* () {
      const keys = yield* KeyDirectory
      const isThere = (yield* keys.listProjects).some(({ id }) => id === projectId)
      // Of two concurrent calls, one creates the project and the other finds it.
      if (!isThere) yield* keys.createProject({ id: projectId, name: projectId.slice(4) })
      const wish = { projectId, mode, scopes, name: name ?? null, expiresAt: expiresAt?.getTime() ?? null, limits }
      const { key, record } = yield* Effect.provide(newKey(wish), SecureRandom.layerWebCrypto)
      const made = yield* keys.createKey(record)
      if (made === undefined)
        return yield* Effect.die(
          new Error(`the project name ${projectId.slice(4)} is already used by a project with another id`),
        )
      return { key, keyId: made.id }
    }),
  )
}
