import { Effect } from "effect"
import type { SecureRandom } from "effect/crypto"
import { keyScopes, type StoreUnavailable } from "@kiln/core/domain"
import { IdGenerator, KeyDirectory } from "@kiln/core/ports"
import { keyDocument, newKey } from "../../newKey.ts"

/** A key with which a new installation can be tried at once. */
export type FirstKey = ReturnType<typeof keyDocument>

/**
 * Where the store holds no key yet: a project `default` and a test key with every scope, both or
 * neither, however many processes start at once. `undefined` where there was nothing to do, or
 * where a project of that name waits for a key of its owner's choice.
 */
export const firstKey: Effect.Effect<
  FirstKey | undefined,
  StoreUnavailable,
  KeyDirectory | IdGenerator | SecureRandom.SecureRandom
> = Effect.gen(function* () {
  const directory = yield* KeyDirectory
  if ((yield* directory.listKeys).length > 0) return undefined
  const projectId = yield* (yield* IdGenerator).next("prj")
  const wish = { projectId, mode: "test", scopes: keyScopes, name: "first key", expiresAt: null } as const
  const { key, record } = yield* newKey(wish)
  const made = yield* directory.createFirstKey({ id: projectId, name: "default" }, record)
  if (made) return keyDocument(key, record)
  if ((yield* directory.listKeys).length === 0)
    yield* Effect.logWarning("the store holds no API key: kiln key create --help says how to make one")
  return undefined
})
