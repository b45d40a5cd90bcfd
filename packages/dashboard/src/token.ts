import { createHash } from "node:crypto"
import * as Effect from "effect/Effect"
import * as SecureRandom from "effect/crypto/SecureRandom"
import { formatOperatorToken } from "@kiln/core/domain"
import { IdGenerator, type NewOperatorToken } from "@kiln/core/ports"

/** SHA-256 of a secret, as it is stored. */
export const hashOf = (secret: string): string => createHash("sha256").update(secret).digest("hex")

/** Generates a token: its text, which is shown once and not stored, and the record to store. */
export const newOperatorToken = Effect.fnUntraced(function* (wish: Omit<NewOperatorToken, "id" | "secretHash">) {
  const random = yield* SecureRandom.SecureRandom
  const secret = formatOperatorToken(yield* random.randomBytes(32))
  const record: NewOperatorToken = { ...wish, id: (yield* IdGenerator).next("tok"), secretHash: hashOf(secret) }
  return { secret, record }
})
