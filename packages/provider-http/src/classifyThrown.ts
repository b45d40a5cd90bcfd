import { isError } from "@kiln/core/domain"
import { type ProviderError, providerBroken, providerUnavailable, resultInvalid } from "@kiln/core/providers"
import { causes } from "./causes.ts"
import { FetchRefused } from "./FetchRefused.ts"

/**
 * Classifies the error of a rejected fetch or an aborted body. A refusal of `guardedFetch` gives its reason; everything
 * else is a network failure and is retried. `detail` has the error's code (`ECONNRESET`), never its message.
 */
export const classifyThrown = (error: unknown): ProviderError => {
  const chain = causes(error)
  const refusal = chain.find((cause) => cause instanceof FetchRefused)
  if (refusal === undefined) return providerUnavailable(`no response: ${nameOf(chain)}`)
  // The configured address redirects. The other reasons are about a URL or a body that the provider chose.
  if (refusal.reason === "redirected") return providerBroken("configuration", refusal.message)
  return resultInvalid(refusal.message)
}

const LABEL = /^[A-Z][A-Z_0-9]{1,40}$/

/** Returns the innermost code, which is the most specific one: `ECONNREFUSED` under `fetch failed`. */
const nameOf = (chain: ReadonlyArray<unknown>): string =>
  chain
    .map((cause) => (isError(cause) && "code" in cause ? cause.code : undefined))
    .findLast((code) => typeof code === "string" && LABEL.test(code))
    ?.toString() ?? "unknown"
