import { Effect } from "effect"
import { SecureRandom } from "effect/crypto"
import { isDate, type OptionNames, requireOneOf, requireOptions } from "@kiln/core/domain"
import { projectAskedFor } from "@kiln/core/effect"
import { isStorableText } from "@kiln/core/domain"
import { KeyDirectory } from "@kiln/core/ports"
import { newKey } from "../newKey.ts"
import { inEngine } from "./inEngine.ts"
import type { MountedEngine } from "./MountOptions.ts"

/** An API key as it is asked for. */
export interface ApiKeyOptions {
  /** The project's name, as `submit` takes it, or its identifier; made where there is none. Default `embedded`. */
  readonly project?: string
  /** `test` makes sandbox jobs, `live` live ones. Default `test`. */
  readonly mode?: "test" | "live"
  /** What it may do: `audio.create`, `images.create`, and the scopes of kinds of one's own. */
  readonly scopes: ReadonlyArray<string>
  /** For the operator's list. */
  readonly name?: string
  /** When it stops working. Default: never. */
  readonly expiresAt?: Date
}

/** A new key. Its text is shown here and never again: the store has its SHA-256 alone. */
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
}

/** Makes a key for the mounted API, in the engine's own store; `kiln key` lists and revokes it like any other. */
export const createApiKey = async (engine: MountedEngine, options: ApiKeyOptions): Promise<ApiKey> => {
  requireOptions("createApiKey()", options, optionNames)
  const { expiresAt, mode = "test", name, project, scopes } = options
  requireOneOf("mode", mode, ["test", "live"])
  if (!Array.isArray(scopes) || scopes.some((scope) => typeof scope !== "string"))
    throw new TypeError("scopes must be an array of strings")
  if (expiresAt !== undefined && (!isDate(expiresAt) || Number.isNaN(expiresAt.getTime())))
    throw new TypeError("expiresAt must be a valid Date; leave it out for a key that never expires")
  const projectId = projectAskedFor(project)
  if (name !== undefined && !isStorableText(name))
    throw new TypeError("the name of an API key must have no U+0000 and no unpaired surrogates")
  return inEngine(
    engine,
    Effect.gen(function* () {
      const keys = yield* KeyDirectory
      const isThere = (yield* keys.listProjects).some(({ id }) => id === projectId)
      // Of two at once one makes it, and the other finds it made.
      if (!isThere) yield* keys.createProject({ id: projectId, name: projectId.slice(4) })
      const wish = { projectId, mode, scopes, name: name ?? null, expiresAt: expiresAt?.getTime() ?? null }
      const { key, record } = yield* Effect.provide(newKey(wish), SecureRandom.layerWebCrypto)
      const made = yield* keys.createKey(record)
      if (made === undefined) return yield* Effect.die(new Error(`another project has the name ${projectId.slice(4)}`))
      return { key, keyId: made.id }
    }),
  )
}
