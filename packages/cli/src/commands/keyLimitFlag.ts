import * as Effect from "effect/Effect"
import * as Flag from "effect/cli/Flag"
import { keyLimitNames, type KeyLimits, keyLimitsProblem, type RateLimitPolicy } from "@kiln/core/domain"
import { misused } from "../CommandFailed.ts"

/** `--limit`, which may be repeated. */
export const keyLimitFlag = Flag.String("limit").pipe(
  Flag.withDescription(
    `A rate limit of the key, like create=120/min:60 (120 a minute, 60 at once), read=off or upload=default; may be repeated. Limits: ${keyLimitNames.join(", ")}`,
  ),
  Flag.withMetavar("LIMIT"),
  Flag.atLeast(0),
)

const syntax = "must look like create=120/min:60, create=off or create=default"

/** `undefined` for the installation's limit. */
const policyOf = (text: string): RateLimitPolicy | "default" | undefined => {
  if (text === "default") return text
  if (text === "off") return { perMinute: 0, burst: 0 }
  const [, perMinute, burst = perMinute] = /^(\d{1,7})\/min(?::(\d{1,7}))?$/.exec(text) ?? []
  return perMinute === undefined ? undefined : { perMinute: Number(perMinute), burst: Number(burst) }
}

/** Applies the flags to the limits that a key has. */
export const limitsWith = Effect.fnUntraced(function* (present: KeyLimits, given: ReadonlyArray<string>) {
  const limits: { -readonly [Name in keyof KeyLimits]: KeyLimits[Name] } = { ...present }
  for (const text of given) {
    const [word, value = ""] = text.split(/=(.*)/s)
    const name = keyLimitNames.find((known) => known === word)
    const policy = policyOf(value)
    if (policy === undefined) return yield* misused(`--limit ${syntax}, not ${JSON.stringify(text)}`)
    if (name === undefined)
      return yield* misused(`--limit: ${word} is not a limit; the limits are ${keyLimitNames.join(", ")}`)
    if (policy === "default") delete limits[name]
    else limits[name] = policy
  }
  const problem = keyLimitsProblem(limits)
  return problem === undefined ? limits : yield* misused(`--limit: ${problem}`)
})

const given = (limits: KeyLimits) =>
  keyLimitNames.flatMap((name) => {
    const policy = limits[name]
    return policy === undefined ? [] : [[name, policy] as const]
  })

/** Formats limits for people: `create=120/min:60 read=off`; empty without any. */
export const limitsText = (limits: KeyLimits): string =>
  given(limits)
    .map(([name, { burst, perMinute }]) => `${name}=${perMinute === 0 ? "off" : `${perMinute}/min:${burst}`}`)
    .join(" ")

/** Formats limits as `--json` prints them, and as `KILN_RATE_LIMITS` does. */
export const limitFields = (limits: KeyLimits) =>
  Object.fromEntries(given(limits).map(([name, { burst, perMinute }]) => [name, { per_minute: perMinute, burst }]))
