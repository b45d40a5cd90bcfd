import { type ErrorCode, isErrorCode } from "@kiln/core/domain"
import { type ProviderCall, ProviderFailure, ProviderPostponed } from "@kiln/core/ports"
import { Effect } from "effect"

const MAX_DELAY_SECONDS = 60

/** What a request may ask of the sandbox, so that a client can rehearse what a provider may do to it. */
export type Steering =
  | { readonly _tag: "Fail"; readonly errorCode: ErrorCode }
  | { readonly _tag: "Delay"; readonly seconds: number }
  | { readonly _tag: "Flaky"; readonly failures: number }

const STEERING = /^sandbox:(fail|delay|flaky):(.+)$/
const DECIMAL = /^\d+(?:\.\d+)?$/
const INTEGER = /^\d+$/

/**
 * Reads `sandbox:fail:<error_code>`, `sandbox:delay:<seconds>` (decimal, at most 60) and `sandbox:flaky:<n>` (whole
 * number). Anything else, however near, is ordinary text: `undefined`.
 */
export const parseSteering = (text: string): Steering | undefined => {
  const [, verb, argument = ""] = STEERING.exec(text) ?? []
  if (verb === "fail" && isErrorCode(argument)) return { _tag: "Fail", errorCode: argument }
  if (verb === "delay" && DECIMAL.test(argument) && Number(argument) <= MAX_DELAY_SECONDS)
    return { _tag: "Delay", seconds: Number(argument) }
  if (verb === "flaky" && INTEGER.test(argument)) return { _tag: "Flaky", failures: Number(argument) }
  return undefined
}

/**
 * Does what the text asks for, if it steers: fails, puts the job off, or succeeds for the answer to follow. A delay is asked
 * for once and holds no slot of a worker, so that test keys cannot fill a worker with jobs that wait.
 */
export type Steer = (
  text: string | undefined,
  call: ProviderCall,
) => Effect.Effect<void, ProviderFailure | ProviderPostponed>

export const followSteering: Steer = (text, call) => {
  const steering = text === undefined ? undefined : parseSteering(text)
  switch (steering?._tag) {
    case "Fail":
      return Effect.fail(askedFor(steering.errorCode, false))
    case "Delay":
      return steering.seconds === 0 || call.deferrals > 0
        ? Effect.void
        : Effect.fail(new ProviderPostponed({ delayMs: Math.ceil(steering.seconds * 1_000) }))
    case "Flaky":
      return call.failures < steering.failures ? Effect.fail(askedFor("provider_unavailable", true)) : Effect.void
    case undefined:
      return Effect.void
  }
}

export const ignoreSteering: Steer = () => Effect.void

const askedFor = (errorCode: ErrorCode, retry: boolean): ProviderFailure =>
  new ProviderFailure({ errorCode, retry, detail: "the request asked the sandbox to fail" })
