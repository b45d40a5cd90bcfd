import {
  providerBroken as broken,
  providerRefused as refused,
  providerUnavailable as unavailable,
  resultInvalid as invalid,
} from "../ports/index.ts"
import type { ProviderName } from "../ports/ProviderName.ts"
import type { AsyncProviders } from "./AsyncProviders.ts"

/** Providers as functions that return promises, checked to be such: `asyncProviders({ speech: async (request, call) => … })`. */
export const asyncProviders = <Providers extends AsyncProviders>(
  providers: Providers & { readonly [Name in Exclude<keyof Providers, ProviderName>]: never },
): Providers => providers

/** To be thrown by a provider: it may go better later. `retryAfterMs` is what was asked for. */
export const providerUnavailable = (detail: string, retryAfterMs?: number): Error => unavailable(detail, retryAfterMs)
/** To be thrown by a provider: it answered, with something that is no answer. */
export const resultInvalid = (detail: string): Error => invalid(detail)
/** To be thrown by a provider: it will never do this, because of what is said in it (`content`), or for another reason in the request. */
export const providerRefused = (what: "content" | "input", detail: string): Error => refused(what, detail)
/** To be thrown by a provider: it cannot work for anybody until its operator has mended it. It is paused, and no job pays for it. */
export const providerBroken = (reason: "configuration" | "quota", detail: string, retryAfterMs?: number): Error =>
  broken(reason, detail, retryAfterMs)
