import { type BuiltInErrorCode, errorCodes } from "@kiln/core/domain"
import { type ProviderCall, ProviderFailure, ProviderPostponed } from "@kiln/core/ports"
import * as Effect from "effect/Effect"

const MAX_DELAY_SECONDS = 60

/** The behavior that a request can ask the sandbox for, so that a client can rehearse provider failures. */
export type Steering =
  | { readonly _tag: "Fail"; readonly errorCode: BuiltInErrorCode }
  | { readonly _tag: "Delay"; readonly seconds: number }
  | { readonly _tag: "Flaky"; readonly failures: number }

/** The codes of jobs that depend on other jobs, which are submitted in code: no job that a request creates has them. */
const ofDependentJobs: ReadonlySet<BuiltInErrorCode> = new Set(["prerequisite_failed", "not_accepted"])

const STEERING = /^sandbox:(fail|delay|flaky):(.+)$/
const DECIMAL = /^\d+(?:\.\d+)?$/
const INTEGER = /^\d+$/

/**
 * Reads `sandbox:fail:<error_code>`, `sandbox:delay:<seconds>` (decimal, at most 60) and `sandbox:flaky:<n>`
 * (integer). Returns `undefined` for any other text, however similar.
 */
export const parseSteering = (text: string): Steering | undefined => {
  const [, verb, argument = ""] = STEERING.exec(text) ?? []
  const errorCode = errorCodes.find((code) => code === argument)
  if (verb === "fail" && errorCode !== undefined && !ofDependentJobs.has(errorCode)) return { _tag: "Fail", errorCode }
  if (verb === "delay" && DECIMAL.test(argument) && Number(argument) <= MAX_DELAY_SECONDS)
    return { _tag: "Delay", seconds: Number(argument) }
  if (verb === "flaky" && INTEGER.test(argument)) return { _tag: "Flaky", failures: Number(argument) }
  return undefined
}

/**
 * Does what a steering text asks for: fails, defers the job, or succeeds so that the normal answer follows. A delay is
 * requested once and holds no worker slot, so that test keys cannot fill a worker with waiting jobs.
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

const askedFor = (errorCode: BuiltInErrorCode, retry: boolean): ProviderFailure =>
  new ProviderFailure({ errorCode, retry, detail: "the request told the sandbox to fail" })
