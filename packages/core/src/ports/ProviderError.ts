import { Schema } from "effect"
import { errorCodes } from "../domain/index.ts"

/** A provider did not deliver, and the job that asked has to live with it: it is tried again, or fails. */
export class ProviderFailure extends Schema.TaggedError<ProviderFailure>()("ProviderFailure", {
  /** What the job says if this is the end of it. */
  errorCode: Schema.Literals(errorCodes),
  /** Whether another attempt may succeed. */
  retry: Schema.Boolean,
  /** Milliseconds the provider asked us to wait. */
  retryAfterMs: Schema.optionalKey(Schema.Number),
  /** For the log. Never a prompt, a transcript or a secret. */
  detail: Schema.String,
}) {}

/** Why a provider cannot work for anybody. */
export const brokenReasons = ["configuration", "quota"] as const
export type BrokenReason = (typeof brokenReasons)[number]

/**
 * A provider will do nothing for any job until its operator has mended it: the key is wrong, the model is not there, the
 * quota is used up. It is paused, and no job pays for it: the one that asked goes back and waits like the others.
 */
export class ProviderBroken extends Schema.TaggedError<ProviderBroken>()("ProviderBroken", {
  reason: Schema.Literals(brokenReasons),
  /** Milliseconds the provider asked us to wait. */
  retryAfterMs: Schema.optionalKey(Schema.Number),
  /** For the log. Never a prompt, a transcript or a secret. */
  detail: Schema.String,
}) {}

/**
 * The provider wants to be asked again later, and nothing needs to wait for it: the job gives up its slot, is claimed again after
 * the delay and asks anew. Costs the job no budget, only time of its queue limit. `ProviderCall.deferrals` tells the provider that it has asked for this before.
 */
export class ProviderPostponed extends Schema.TaggedError<ProviderPostponed>()("ProviderPostponed", {
  /** Milliseconds; between a tenth of a second and the longest Retry-After that is honored (`attempts.retryAfterMaxMs`). */
  delayMs: Schema.Number,
}) {}

/** Every way a provider may fail. */
export type ProviderError = ProviderFailure | ProviderBroken

/** Every way a call may end without an answer. */
export type ProviderCallError = ProviderError | ProviderPostponed

/** It may go better later: a network that broke, a server that is busy. `retryAfterMs` is what it asked for itself. */
export const providerUnavailable = (detail: string, retryAfterMs?: number): ProviderFailure =>
  new ProviderFailure({
    errorCode: "provider_unavailable",
    retry: true,
    detail,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  })

/** It answered, with something that is no answer. */
export const resultInvalid = (detail: string): ProviderFailure =>
  new ProviderFailure({ errorCode: "result_invalid", retry: true, detail })

/** It will never do this: because of what is said in it (`content`), or for any other reason in the request (`input`). */
export const providerRefused = (what: "content" | "input", detail: string): ProviderFailure =>
  new ProviderFailure({
    errorCode: what === "content" ? "content_rejected" : "provider_rejected",
    retry: false,
    detail,
  })

/** It cannot work for anybody. */
export const providerBroken = (reason: BrokenReason, detail: string, retryAfterMs?: number): ProviderBroken =>
  new ProviderBroken({ reason, detail, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) })
