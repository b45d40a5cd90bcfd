import { createHash } from "node:crypto"
import * as Effect from "effect/Effect"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Option from "effect/Option"
import { formatOperatorToken, isOperatorToken } from "@kiln/core/domain"
import { IdGenerator, type NewOperatorToken, OperatorTokens } from "@kiln/core/ports"

/** SHA-256 of a secret, as it is stored. */
export const hashOf = (secret: string): string => createHash("sha256").update(secret).digest("hex")

/** Generates a token: its text, which is shown once and not stored, and the record to store. */
export const newOperatorToken = Effect.fnUntraced(function* (wish: Omit<NewOperatorToken, "id" | "secretHash">) {
  const random = yield* SecureRandom.SecureRandom
  const secret = formatOperatorToken(yield* random.randomBytes(32))
  const record: NewOperatorToken = { ...wish, id: (yield* IdGenerator).next("tok"), secretHash: hashOf(secret) }
  return { secret, record }
})

/** Returns the operator with this token; `undefined` if it is not valid. */
export const operatorOf = (secret: string) =>
  Effect.gen(function* () {
    const tokens = yield* Effect.serviceOption(OperatorTokens)
    if (Option.isNone(tokens) || !isOperatorToken(secret)) return undefined
    const token = yield* tokens.value.findToken(hashOf(secret))
    return token && { name: token.name, roles: token.roles }
  })
