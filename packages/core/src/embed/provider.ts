import type { ProviderName } from "../providers/builtInPorts.ts"
import {
  providerBroken as broken,
  providerRefused as refused,
  providerUnavailable as unavailable,
  resultInvalid as invalid,
} from "../providers/ProviderError.ts"
import type { AsyncProviders } from "./AsyncProviders.ts"

/** Type-checks built-in providers that return promises: `asyncProviders({ speech: async (request, call) => … })`. */
export const asyncProviders = <Providers extends AsyncProviders>(
  providers: Providers & { readonly [Name in Exclude<keyof Providers, ProviderName>]: never },
): Providers => providers

/** Thrown by a provider for a failure that may pass: a network error, a busy server. `retryAfterMs` is the delay it asked for. */
export const providerUnavailable = (detail: string, retryAfterMs?: number): Error => unavailable(detail, retryAfterMs)
/** Thrown by a provider, or by the check of a port, for an invalid answer. Retried. */
export const resultInvalid = (detail: string): Error => invalid(detail)
/**
 * Thrown by a provider that refuses a request permanently, because of its content (`content`) or for another reason (`input`).
 */
export const providerRefused = (what: "content" | "input", detail: string): Error => refused(what, detail)
/** Thrown by a provider that works for no job until its operator fixes it. It is paused, and jobs wait at no cost. */
export const providerBroken = (reason: "configuration" | "quota", detail: string, retryAfterMs?: number): Error =>
  broken(reason, detail, retryAfterMs)
