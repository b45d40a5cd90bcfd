import { isError } from "@kiln/core/domain"
import { type ProviderError, providerBroken, providerUnavailable, resultInvalid } from "@kiln/core/ports"
import { causes } from "./causes.ts"
import { FetchRefused } from "./FetchRefused.ts"

/**
 * What a fetch that rejected, or a body that broke off, means. A refusal of `guardedFetch` says why; everything else is the
 * network, which may do better next time. `detail` has the error's code (`ECONNRESET`), never its message.
 */
export const classifyThrown = (error: unknown): ProviderError => {
  const chain = causes(error)
  const refusal = chain.find((cause) => cause instanceof FetchRefused)
  if (refusal === undefined) return providerUnavailable(`no answer: ${nameOf(chain)}`)
  // The operator's own address sends us away. The other reasons lie in a URL or a body that the provider chose.
  if (refusal.reason === "redirected") return providerBroken("configuration", refusal.message)
  return resultInvalid(refusal.message)
}

const LABEL = /^[A-Z][A-Z_0-9]{1,40}$/

/** The innermost code is the one that says most: `ECONNREFUSED` under `fetch failed`. */
const nameOf = (chain: ReadonlyArray<unknown>): string =>
  chain
    .map((cause) => (isError(cause) && "code" in cause ? cause.code : undefined))
    .findLast((code) => typeof code === "string" && LABEL.test(code))
    ?.toString() ?? "unknown"
