import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import type { SecretStore } from "@kiln/core/ports"
import { parseKeyring, signDownload, type SigningKey, type SigningKeyring } from "../wire/SignedUrls.ts"
import { HttpSettingInvalid } from "./HttpSettingInvalid.ts"
import { compareKeyrings, keyringConflicts } from "./compareKeyrings.ts"
import { sharedSigningKeys, type StoredKey, storedSigningKeys } from "./storedSigningKeys.ts"

/**
 * Loads the keys that sign URLs: the configured ones, or those in the store, where the first process generates one for all. If
 * keys are configured, those in the store only verify, because URLs that they signed before may still be in use. They stay
 * valid until they are removed from the store.
 */
export const signingKeyring = Effect.fnUntraced(function* (
  configured: string | undefined,
): Effect.fn.Return<SigningKeyring, HttpSettingInvalid | StoreUnavailable, SecretStore> {
  const stored = yield* read(configured === undefined ? yield* sharedSigningKeys : yield* storedSigningKeys)
  const [first, ...rest] = configured === undefined ? stored : [...(yield* parse(configured)), ...stored]
  if (first === undefined) return yield* Effect.die(new Error("sharedSigningKeys returned no key"))
  if (configured !== undefined && stored.length > 0)
    yield* Effect.logInfo(
      "URLs signed by the key in the store are accepted in addition to those of KILN_SIGNING_KEYS; " +
        "after 15 minutes with this setting on every process, run `kiln signing-key drop` to remove it",
    )
  const keyring: SigningKeyring = { keys: [first, ...rest] }
  yield* compareKeyrings(keyring, { configured: configured !== undefined, stored })
  return keyring
})

const parse = (text: string): Effect.Effect<SigningKeyring["keys"], HttpSettingInvalid> => {
  const parsed = parseKeyring(text)
  return parsed.ok
    ? Effect.succeed(parsed.keyring.keys)
    : Effect.fail(new HttpSettingInvalid({ setting: "signingKeys", problem: parsed.problem }))
}

/** One by one, because a key in the store may have the name of another. */
const read = (entries: ReadonlyArray<StoredKey>): Effect.Effect<ReadonlyArray<SigningKey>, HttpSettingInvalid> =>
  Effect.map(Effect.forEach(entries, parse), (keys) => keys.flat())

/** A key that signs or verifies URLs, without its secret. */
export interface ListedSigningKey {
  readonly kid: string
  /** Equal on two machines if the keys are. Does not reveal the key. */
  readonly fingerprint: string
  readonly source: "setting" | "store"
  /** Whether new URLs are signed with it. */
  readonly signs: boolean
}

/** Lists the keys of a process with this setting. Does not generate one. */
export const listSigningKeys = Effect.fnUntraced(function* (
  configured: string | undefined,
): Effect.fn.Return<ReadonlyArray<ListedSigningKey>, HttpSettingInvalid | StoreUnavailable, SecretStore> {
  const own = configured === undefined ? [] : yield* parse(configured)
  const stored = yield* read(yield* storedSigningKeys)
  const listed = (source: "setting" | "store") => (key: SigningKey) => ({ source, ...key })
  return [...own.map(listed("setting")), ...stored.map(listed("store"))].map(({ fingerprint, kid, source }, index) => ({
    kid,
    fingerprint,
    source,
    signs: index === 0,
  }))
})

/** The keys of a process with this setting. Does not generate one. */
const ownKeyring = Effect.fnUntraced(function* (configured: string | undefined) {
  const stored = yield* read(yield* storedSigningKeys)
  const [first, ...rest] = [...(configured === undefined ? [] : yield* parse(configured)), ...stored]
  return { stored, keyring: first && ({ keys: [first, ...rest] } satisfies SigningKeyring) }
})

/** A file that never existed. */
const noFile = `fil_${"0".repeat(26)}`
const probeSeconds = 60

/**
 * Returns a signed URL below this address that leads to no file; `undefined` if there is no key yet. A process that has the same key
 * answers with 410, and any other with 403.
 */
export const signProbe = Effect.fnUntraced(function* (
  configured: string | undefined,
  publicUrl: string,
): Effect.fn.Return<string | undefined, HttpSettingInvalid | StoreUnavailable, SecretStore> {
  const { keyring } = yield* ownKeyring(configured)
  const now = yield* Clock.currentTimeMillis
  const expiresAtSeconds = Math.floor(now / 1_000) + probeSeconds
  return keyring && signDownload(keyring, { publicUrl, fileId: noFile, expiresAtSeconds })
})

/** Returns how a process with this setting and the one that started last would reject each other's URLs. Changes nothing. */
export const findKeyringConflicts = Effect.fnUntraced(function* (
  configured: string | undefined,
): Effect.fn.Return<ReadonlyArray<string>, HttpSettingInvalid | StoreUnavailable, SecretStore> {
  const { keyring, stored } = yield* ownKeyring(configured)
  return keyring === undefined ? [] : yield* keyringConflicts(keyring, { configured: configured !== undefined, stored })
})
