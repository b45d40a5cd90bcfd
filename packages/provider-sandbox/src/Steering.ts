import { type ErrorCode, isErrorCode } from "@kiln/core/domain"
import { type ProviderCall, ProviderFailure } from "@kiln/core/ports"
import { Duration, Effect } from "effect"

/** Longer than a job may run; keeps the number of seconds a number. */
const MAX_DELAY_SECONDS = 86_400

/** What a request may ask of the sandbox, so that a client can rehearse what a provider may do to it. */
export type Steering =
  | { readonly _tag: "Fail"; readonly errorCode: ErrorCode }
  | { readonly _tag: "Delay"; readonly seconds: number }
  | { readonly _tag: "Flaky"; readonly failures: number }

const STEERING = /^sandbox:(fail|delay|flaky):(.+)$/
const DECIMAL = /^\d+(?:\.\d+)?$/
const INTEGER = /^\d+$/

/**
 * Reads `sandbox:fail:<error_code>`, `sandbox:delay:<seconds>` (decimal, at most a day) and `sandbox:flaky:<n>` (whole
 * number). Anything else, however near, is ordinary text: `undefined`.
 */
export const parseSteering = (text: string): Steering | undefined => {
  const [, verb, argument = ""] = STEERING.exec(text) ?? []
  if (verb === "fail" && isErrorCode(argument)) return { _tag: "Fail", errorCode: argument }
  if (verb === "delay" && DECIMAL.test(argument))
    return { _tag: "Delay", seconds: Math.min(Number(argument), MAX_DELAY_SECONDS) }
  if (verb === "flaky" && INTEGER.test(argument)) return { _tag: "Flaky", failures: Number(argument) }
  return undefined
}

/** Does what the text asks for, if it steers: waits, fails, or succeeds for the answer to follow. */
export type Steer = (text: string | undefined, call: ProviderCall) => Effect.Effect<void, ProviderFailure>

export const followSteering: Steer = (text, call) => {
  const steering = text === undefined ? undefined : parseSteering(text)
  switch (steering?._tag) {
    case "Fail":
      return Effect.fail(askedFor(steering.errorCode, false))
    case "Delay":
      return Effect.sleep(Duration.seconds(steering.seconds))
    case "Flaky":
      return call.failures < steering.failures ? Effect.fail(askedFor("provider_unavailable", true)) : Effect.void
    case undefined:
      return Effect.void
  }
}

export const ignoreSteering: Steer = () => Effect.void

const askedFor = (errorCode: ErrorCode, retry: boolean): ProviderFailure =>
  new ProviderFailure({ errorCode, retry, detail: "the request asked the sandbox to fail" })
