import { Clock, Effect } from "effect"
import type { Principal } from "@kiln/core/domain"
import { type Authenticate, type AuthenticateOptions, makeRefuseCredentials } from "./Authenticator.ts"
import type { Exchange } from "./Exchange.ts"
import { Refusal } from "./Refusal.ts"
import type { Caller } from "./Caller.ts"

/** Looks at a request; `undefined` for nobody it knows. */
export type AskCaller = (exchange: Exchange) => PromiseLike<Caller | undefined> | Caller | undefined

/** By what a program says about its own users, in the place of API keys. */
export const makeAuthenticateCaller = (options: AuthenticateOptions, ask: AskCaller): Authenticate => {
  const refuse = makeRefuseCredentials(options)
  return Effect.fnUntraced(function* (exchange) {
    const caller = yield* Effect.tryPromise({
      try: async () => ask(exchange),
      catch: (cause) => new Refusal({ code: "service_unavailable", cause }),
    })
    if (caller !== undefined) return principalOf(caller)
    // Sent with no `Authorization`, such as by a browser whose session has ended, it is no try at guessing one.
    if (exchange.header("authorization") === undefined) return yield* new Refusal({ code: "missing_api_key", message })
    return yield* Effect.fail(refuse(exchange, yield* Clock.currentTimeMillis))
  })
}

const message = "This request is not signed in."
const PROJECT = /^[A-Za-z0-9_-]{1,64}$/
const KEY = /^[A-Za-z0-9_.@~-]{1,128}$/

/** What a program says wrongly is its own defect, and must not become a caller that is somebody else. */
const principalOf = ({ keyId, mode, projectId, scopes }: Caller): Principal => {
  const project = typeof projectId === "string" ? projectId.replace(/^prj_/, "") : ""
  if (!PROJECT.test(project)) throw new TypeError("authenticate: projectId must be 1 to 64 letters, digits, - and _")
  if (keyId !== undefined && (typeof keyId !== "string" || !KEY.test(keyId)))
    throw new TypeError("authenticate: keyId must be 1 to 128 letters, digits and -_.@~")
  if (mode !== "sandbox" && mode !== "live") throw new TypeError('authenticate: mode must be "sandbox" or "live"')
  if (!Array.isArray(scopes)) throw new TypeError("authenticate: scopes must be an array of strings")
  // Colons are in no name: two callers never have one key between them. Without one, it is that of `submit`.
  const key = keyId === undefined ? `${project}_${mode}` : `${project}:${keyId}:${mode}`
  return { projectId: `prj_${project}`, keyId: `key_${key}`, mode, scopes }
}
