import * as Effect from "effect/Effect"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Base64Url from "effect/encoding/Base64Url"
import type { StoreUnavailable } from "@kiln/core/domain"
import { SecretStore } from "@kiln/core/ports"
import { parseKeyring, type SigningKeyring } from "../wire/SignedUrls.ts"
import { HttpSettingInvalid } from "./HttpSettingInvalid.ts"

const keyBytes = 32

/** Name of the signing key in the store. */
export const signingSecret = "signing"

/**
 * Loads the keys that sign URLs: the configured ones, or one that is generated once and kept in the store for all processes.
 * If keys are configured, the key in the store only verifies, because URLs that it signed before may still be in use. It
 * stays valid until it is removed from the store.
 */
export const signingKeyring = Effect.fnUntraced(function* (
  configured: string | undefined,
): Effect.fn.Return<SigningKeyring, HttpSettingInvalid | StoreUnavailable, SecretStore> {
  if (configured === undefined) return yield* read(stored(yield* sharedKey))
  const { keys } = yield* read(configured)
  const superseded = yield* (yield* SecretStore).find(signingSecret)
  if (superseded === undefined) return { keys }
  yield* Effect.logInfo(
    "URLs signed by the key in the store are accepted in addition to those of KILN_SIGNING_KEYS; " +
      "after 15 minutes with this setting on every process, run `kiln signing-key drop` to remove it",
  )
  return { keys: [...keys, ...(yield* read(stored(superseded))).keys] }
})

const read = (text: string): Effect.Effect<SigningKeyring, HttpSettingInvalid> => {
  const parsed = parseKeyring(text)
  return parsed.ok
    ? Effect.succeed(parsed.keyring)
    : Effect.fail(new HttpSettingInvalid({ setting: "signingKeys", problem: parsed.problem }))
}

const stored = (key: Uint8Array): string => `k1:${Base64Url.encode(key)}`

const sharedKey: Effect.Effect<Uint8Array, StoreUnavailable, SecretStore> = Effect.gen(function* () {
  const secrets = yield* SecretStore
  const random = yield* SecureRandom.SecureRandom
  return yield* secrets.getOrCreate(signingSecret, yield* random.randomBytes(keyBytes))
}).pipe(Effect.provide(SecureRandom.layerWebCrypto))
