import { createHash } from "node:crypto"
import * as Effect from "effect/Effect"
import * as SecureRandom from "effect/crypto/SecureRandom"
import { formatApiKey, type KeyLimits, type KeyMode, type ProjectId } from "@kiln/core/domain"
import { IdGenerator, type NewApiKey } from "@kiln/core/ports"

/** Options of a new key. */
export interface KeyWish {
  readonly projectId: ProjectId
  readonly mode: KeyMode
  readonly scopes: ReadonlyArray<string>
  readonly name: string | null
  /** Expiry in Unix milliseconds; `null` for never. */
  readonly expiresAt: number | null
  /** Rate limits that replace the installation's; none by default. */
  readonly limits?: KeyLimits
}

/** Generates a secret: its text, which is shown once and not stored, and the hash to store. */
export const newSecret = Effect.fnUntraced(function* (mode: KeyMode) {
  const random = yield* SecureRandom.SecureRandom
  const key = formatApiKey(mode, yield* random.randomBytes(32))
  return { key, secretHash: createHash("sha256").update(key).digest("hex") }
})

/** Generates a key: its text, which is shown once and not stored, and the record to store. */
export const newKey: (
  wish: KeyWish,
) => Effect.Effect<
  { readonly key: string; readonly record: NewApiKey },
  never,
  IdGenerator | SecureRandom.SecureRandom
> = Effect.fnUntraced(function* (wish) {
  const ids = yield* IdGenerator
  const { key, secretHash } = yield* newSecret(wish.mode)
  return { key, record: { ...wish, id: ids.next("key"), secretHash } }
})
