import { isError, isTaggedError } from "@kiln/core/domain"
import {
  type ProviderError,
  providerBroken,
  providerRefused,
  providerUnavailable,
  resultInvalid,
} from "@kiln/core/providers"
import { causes, classifyHttp, classifyThrown, FetchRefused, readErrorCode } from "@kiln/provider-http"
import { APICallError } from "ai"

/**
 * Classifies an error of the AI SDK. The original error is dropped: it holds the request, the response and messages, which
 * repeat prompts and parts of keys. An abort seen here comes from the provider, because an interrupted caller never gets
 * here. `nowMs` is the reference for a `Retry-After` that is a date.
 */
export const toProviderError = (error: unknown, nowMs: number): ProviderError => {
  const chain = causes(error)
  const known = chain.find((cause) => isTaggedError<ProviderError>(cause, "ProviderFailure", "ProviderBroken"))
  if (known !== undefined) return known
  if (chain.some((cause) => cause instanceof FetchRefused)) return classifyThrown(error)
  const answer = chain.find((cause) => APICallError.isInstance(cause))
  if (answer !== undefined) return ofAnswer(answer, chain, nowMs)
  const names = chain.map((cause) => (isError(cause) ? cause.name : ""))
  const meaning = names.map(meaningOf).find((candidate) => candidate !== undefined)
  if (meaning !== undefined) return meaning
  // Errors of the gateway, and of models that are not from the AI SDK.
  const status = chain.map(statusOf).find((candidate) => candidate !== undefined)
  return status === undefined ? providerUnavailable(`unexpected ${labelOf(names[0])}`) : classifyHttp({ status, nowMs })
}

const ofAnswer = (answer: APICallError, chain: ReadonlyArray<unknown>, nowMs: number): ProviderError => {
  const { statusCode: status, responseHeaders: headers } = answer
  if (status === undefined) return classifyThrown(answer)
  if (status < 200 || status > 299)
    return classifyHttp({ status, headers, ...readErrorCode(answer.responseBody), nowMs })
  const cause = chain[chain.indexOf(answer) + 1]
  // A complete response without a usable result; otherwise the response was cut off by the network.
  if (cause === undefined) return resultInvalid(`HTTP ${status} without a body`)
  if (isError(cause) && invalid.has(cause.name)) return resultInvalid(`HTTP ${status} ${cause.name}`)
  return classifyThrown(answer)
}

const invalid: ReadonlySet<string> = new Set([
  "AI_NoTranscriptGeneratedError",
  "AI_NoSpeechGeneratedError",
  "AI_NoImageGeneratedError",
  "AI_NoObjectGeneratedError",
  "AI_NoOutputGeneratedError",
  "AI_NoContentGeneratedError",
  "AI_EmptyResponseBodyError",
  "AI_InvalidResponseDataError",
  "AI_JSONParseError",
  "AI_TypeValidationError",
  // Invalid base64.
  "InvalidCharacterError",
])

/** Errors that no request content can cause. */
const configuration: ReadonlySet<string> = new Set([
  "AI_LoadAPIKeyError",
  "AI_LoadSettingError",
  "AI_NoSuchModelError",
  "AI_NoSuchProviderError",
  "AI_UnsupportedModelVersionError",
  "GatewayAuthenticationError",
])

/**
 * Errors that a request can cause: a model may not support the format of an upload, or instructions. They end the job and
 * do not break the provider.
 */
const refused: ReadonlySet<string> = new Set([
  "AI_InvalidArgumentError",
  "AI_InvalidPromptError",
  "AI_UnsupportedFunctionalityError",
])

const meaningOf = (name: string): ProviderError | undefined => {
  if (invalid.has(name)) return resultInvalid(name)
  if (configuration.has(name)) return providerBroken("configuration", name)
  return refused.has(name) ? providerRefused("input", name) : undefined
}

const statusOf = (error: unknown): number | undefined =>
  isError(error) && "statusCode" in error && typeof error.statusCode === "number" ? error.statusCode : undefined

/** Returns the class name of an error, which contains nothing from the request. */
const labelOf = (name: string | undefined): string =>
  name !== undefined && /^[A-Za-z_]{1,64}$/.test(name) ? name : "error"
