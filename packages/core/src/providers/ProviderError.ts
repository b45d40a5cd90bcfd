import * as Data from "effect/Data"
import type { BuiltInErrorCode } from "../domain/ErrorCode.ts"

/** A call failed, and the failure counts against the job: the attempt is retried, or the job fails. */
export class ProviderFailure extends Data.TaggedError("ProviderFailure")<{
  /** The job's error code if it is not retried. */
  readonly errorCode: BuiltInErrorCode
  /** True if another attempt may succeed. */
  readonly retry: boolean
  /** Milliseconds until the next attempt, as requested by the provider. */
  readonly retryAfterMs?: number
  /** For the log. Never a prompt, a transcript or a secret. */
  readonly detail: string
  /** What the code of the provider threw unexpectedly, for its developer. */
  readonly cause?: unknown
}> {
  override get message(): string {
    return this.detail
  }
  /** Writable, so that code which catches the error can add to it. */
  override set message(message: string) {
    Object.defineProperty(this, "message", { value: message, writable: true, configurable: true })
  }
}

/** Why a provider works for no job: `quota` is used up, or its `configuration` is wrong. */
export const brokenReasons = ["configuration", "quota"] as const
export type BrokenReason = (typeof brokenReasons)[number]

/**
 * The provider works for no job until its operator fixes it: the key is wrong, the model does not exist, the quota is used up.
 * It is paused. The job that called is released and waits like the others, at no cost to its budget of failures.
 */
export class ProviderBroken extends Data.TaggedError("ProviderBroken")<{
  readonly reason: BrokenReason
  /** Milliseconds until the next call, as requested by the provider. */
  readonly retryAfterMs?: number
  /** For the log. Never a prompt, a transcript or a secret. */
  readonly detail: string
}> {
  override get message(): string {
    return this.detail
  }
  /** Writable, so that code which catches the error can add to it. */
  override set message(message: string) {
    Object.defineProperty(this, "message", { value: message, writable: true, configurable: true })
  }
}

/**
 * The provider asks to be called again later. The job leaves its slot, is claimed again after the delay and repeats the call.
 * This costs no budget, only time of the queue limit. `ProviderCall.deferrals` tells the provider how often it has happened.
 */
export class ProviderPostponed extends Data.TaggedError("ProviderPostponed")<{
  /** Milliseconds, limited to between 100 and `attempts.retryAfterMaxMs`. */
  readonly delayMs: number
}> {}

/** A failed call. */
export type ProviderError = ProviderFailure | ProviderBroken

/** Every way a call can end without an answer. */
export type ProviderCallError = ProviderError | ProviderPostponed

/** A failure that may pass: a network error, a busy server. `retryAfterMs` is the delay the provider asked for. */
export const providerUnavailable = (detail: string, retryAfterMs?: number): ProviderFailure =>
  new ProviderFailure({
    errorCode: "provider_unavailable",
    retry: true,
    detail,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  })

/** The provider returned an invalid answer. Retried. */
export const resultInvalid = (detail: string): ProviderFailure =>
  new ProviderFailure({ errorCode: "result_invalid", retry: true, detail })

/** The provider refuses the request permanently, because of its content (`content`) or for another reason (`input`). */
export const providerRefused = (what: "content" | "input", detail: string): ProviderFailure =>
  new ProviderFailure({
    errorCode: what === "content" ? "content_rejected" : "provider_rejected",
    retry: false,
    detail,
  })

/** The provider works for no job until its operator fixes it. */
export const providerBroken = (reason: BrokenReason, detail: string, retryAfterMs?: number): ProviderBroken =>
  new ProviderBroken({ reason, detail, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) })
