import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { isOperatorToken } from "@kiln/core/domain"
import { OperatorTokens } from "@kiln/core/ports"
import { hashOf } from "../token.ts"

/** Returns the operator with this token; `undefined` if it is not valid. */
export const operatorOf = (secret: string) =>
  Effect.gen(function* () {
    const tokens = yield* Effect.serviceOption(OperatorTokens)
    if (Option.isNone(tokens) || !isOperatorToken(secret)) return undefined
    const token = yield* tokens.value.findToken(hashOf(secret))
    return token && { name: token.name, roles: token.roles }
  })
