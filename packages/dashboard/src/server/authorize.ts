import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import { type ApiError, refuse } from "./ApiError.ts"
import type { Operator } from "./Caller.ts"
import { operatorOf } from "../token.ts"

/** A request, with the address of its client where that is known. */
export interface Incoming {
  readonly request: Request
  readonly remoteAddress: string | undefined
}

export type Authorize = (incoming: Incoming) => Effect.Effect<Operator, ApiError | StoreUnavailable>

const bearerOf = ({ headers }: Request): string | undefined =>
  /^Bearer +(\S+) *$/i.exec(headers.get("authorization") ?? "")?.[1]

const isLoopbackAddress = (address: string | undefined): boolean =>
  address !== undefined && (address === "::1" || /^(?:::ffff:)?127\./.test(address))

/** A name in `Host` that only this machine resolves to itself. Another one may be a page's attempt to read this one by DNS. */
const isLoopbackHost = (host: string): boolean => /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?$/i.test(host)

/** True for a direct request from this machine, which no proxy has passed on. */
const isLocal = ({ remoteAddress, request: { headers, url } }: Incoming): boolean =>
  isLoopbackAddress(remoteAddress) &&
  isLoopbackHost(headers.get("host") ?? new URL(url).host) &&
  !["forwarded", "x-forwarded-for", "x-real-ip", "via"].some((name) => headers.has(name))

/**
 * Accepts the tokens of `kiln token create`. Without one, a request from this machine may view, if `allowLocal` is set. `staticToken`
 * may view, too.
 */
export const byToken =
  (options: { readonly allowLocal: boolean; readonly isStaticToken?: (token: string) => boolean }): Authorize =>
  (incoming) =>
    Effect.gen(function* () {
      const token = bearerOf(incoming.request)
      if (token === undefined) {
        if (options.allowLocal && isLocal(incoming)) return { name: "local viewer", roles: ["view"] } satisfies Operator
        return yield* Effect.fail(refuse("missing_token"))
      }
      if (options.isStaticToken?.(token) === true) return { name: "metrics token", roles: ["view"] } satisfies Operator
      return (yield* operatorOf(token)) ?? (yield* Effect.fail(refuse("invalid_token")))
    })
