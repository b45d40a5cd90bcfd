import { Effect } from "effect"
import { SecureRandom } from "effect/crypto"
import { Base64Url } from "effect/encoding"
import type { StoreUnavailable } from "@kiln/core/domain"
import { SecretStore } from "@kiln/core/ports"
import { parseKeyring, type SigningKeyring } from "../wire/SignedUrls.ts"
import { HttpSettingInvalid } from "./HttpSettingInvalid.ts"

const keyBytes = 32

/** The keys that sign URLs: the configured ones, or one that is made once and kept in the store for all processes. */
export const signingKeyring = Effect.fnUntraced(function* (
  configured: string | undefined,
): Effect.fn.Return<SigningKeyring, HttpSettingInvalid | StoreUnavailable, SecretStore> {
  const parsed = parseKeyring(configured ?? (yield* sharedKey))
  if (!parsed.ok) return yield* new HttpSettingInvalid({ setting: "signingKeys", problem: parsed.problem })
  return parsed.keyring
})

const sharedKey: Effect.Effect<string, StoreUnavailable, SecretStore> = Effect.gen(function* () {
  const secrets = yield* SecretStore
  const random = yield* SecureRandom.SecureRandom
  const key = yield* secrets.getOrCreate("signing", yield* random.randomBytes(keyBytes))
  return `k1:${Base64Url.encode(key)}`
}).pipe(Effect.provide(SecureRandom.layerWebCrypto))
