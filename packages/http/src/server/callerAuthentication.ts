import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { type KeyLimits, keyLimitsProblem, type Principal } from "@kiln/core/domain"
import { type Authenticate, type AuthenticateOptions, makeRefuseCredentials } from "./admission.ts"
import { type Exchange, Refusal } from "./Exchange.ts"
import type { Caller } from "./Caller.ts"

/** Identifies the caller of a request; `undefined` for unknown callers. */
export type AskCaller = (exchange: Exchange) => PromiseLike<Caller | undefined> | Caller | undefined

/** Authenticates callers through the program's own function instead of API keys. */
export const makeAuthenticateCaller = (options: AuthenticateOptions, ask: AskCaller): Authenticate => {
  const refuse = makeRefuseCredentials(options, invalid)
  return Effect.fnUntraced(function* (exchange) {
    const caller = yield* Effect.tryPromise({
      try: async () => ask(exchange),
      catch: (cause) => new Refusal({ code: "service_unavailable", cause }),
    })
    if (caller !== undefined) {
      exchange.keyLimits = limitsOf(caller)
      return principalOf(caller)
    }
    // A request without `Authorization`, such as from a browser whose session has ended, is not an attempt to guess credentials.
    if (exchange.header("authorization") === undefined) return yield* new Refusal({ code: "missing_api_key", message })
    return yield* Effect.fail(refuse(exchange, yield* Clock.currentTimeMillis))
  })
}

const message = "This request is not authenticated. Send the credentials that this service expects."
const invalid = "These credentials are not valid. Check that they are complete and neither revoked nor expired."
const PROJECT = /^[A-Za-z0-9_-]{1,64}$/
const KEY = /^[A-Za-z0-9_.@~-]{1,128}$/

const limitsOf = ({ limits = {} }: Caller): KeyLimits => {
  const problem = keyLimitsProblem(limits)
  if (problem !== undefined) throw new TypeError(`authenticate: ${problem}`)
  return limits
}

/** Validates the program's result. An invalid caller is a bug in the program, and must not match another caller. */
const principalOf = ({ keyId, mode, projectId, scopes }: Caller): Principal => {
  const project = typeof projectId === "string" ? projectId.replace(/^prj_/, "") : ""
  if (!PROJECT.test(project)) throw new TypeError("authenticate: projectId must be 1 to 64 letters, digits, - and _")
  if (keyId !== undefined && (typeof keyId !== "string" || !KEY.test(keyId)))
    throw new TypeError("authenticate: keyId must be 1 to 128 letters, digits and -_.@~")
  if (mode !== "sandbox" && mode !== "live") throw new TypeError('authenticate: mode must be "sandbox" or "live"')
  if (!Array.isArray(scopes)) throw new TypeError("authenticate: scopes must be an array of strings")
  // Names contain no colons, so two callers never share a key. Without `keyId`, the key is the one of `submit`.
  const key = keyId === undefined ? `${project}_${mode}` : `${project}:${keyId}:${mode}`
  return { projectId: `prj_${project}`, keyId: `key_${key}`, mode, scopes }
}
