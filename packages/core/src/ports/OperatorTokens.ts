import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { OperatorTokenId } from "../domain/Ids.ts"
import type { StoreUnavailable } from "../domain/index.ts"

/**
 * The rights of an operator: `view` reads everything but callers' data, `operate` also changes what the command line can change, and
 * `content` reads callers' data: requests, results, and error messages, which may quote them.
 */
export const operatorRoles = ["view", "operate", "content"] as const
export type OperatorRole = (typeof operatorRoles)[number]

/** A token of the operator's page, without its secret, which is not stored. Times are unix milliseconds of store time. */
export interface OperatorToken {
  readonly id: OperatorTokenId
  /** The person or program that uses it, for the audit log. */
  readonly name: string
  readonly roles: ReadonlyArray<OperatorRole>
  readonly createdAt: number
  readonly expiresAt: number | null
  readonly revokedAt: number | null
}

export interface NewOperatorToken extends Omit<OperatorToken, "createdAt" | "revokedAt"> {
  /** SHA-256 of the whole secret, in lower-case hex. */
  readonly secretHash: string
}

/** Tokens of the operator's page and its API. Not every store has them. */
export class OperatorTokens extends Context.Service<
  OperatorTokens,
  {
    readonly createToken: (token: NewOperatorToken) => Effect.Effect<OperatorToken, StoreUnavailable>
    /** Lists all tokens in order of creation. */
    readonly listTokens: Effect.Effect<ReadonlyArray<OperatorToken>, StoreUnavailable>
    /** Revokes a token; `undefined` for an unknown one. Repeating it keeps the time of the first call. */
    readonly revokeToken: (id: OperatorTokenId) => Effect.Effect<OperatorToken | undefined, StoreUnavailable>
    /** Returns the token with this secret; `undefined` if it is unknown, revoked or expired. */
    readonly findToken: (secretHash: string) => Effect.Effect<OperatorToken | undefined, StoreUnavailable>
  }
>()("@kiln/core/ports/OperatorTokens") {}
