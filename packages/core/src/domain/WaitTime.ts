import type { Json } from "./givenValues.ts"

const unitsMs = {
  millisecond: 1,
  second: 1_000,
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
  week: 604_800_000,
} as const

type Unit = keyof typeof unitsMs

/** A duration: milliseconds, or a number and a unit such as `"90 seconds"` or `"1 hour"`. */
export type WaitDuration = number | `${number} ${Unit | `${Unit}s`}`

/** A duration, or a point in time. */
export type WaitTime = WaitDuration | Date

/** The outcome of `waitFor`: the value of the signal, or its timeout. */
export type SignalResult<Value = Json> =
  | { readonly timedOut: false; readonly value: Value }
  | { readonly timedOut: true }

/** Returns a duration in milliseconds; `undefined` for anything else, including negative and infinite ones. */
export const durationMs = (duration: unknown): number | undefined => {
  const [, amount, unit] =
    typeof duration === "string"
      ? (/^(\d+(?:\.\d+)?) ([a-z]+?)s?$/.exec(duration) ?? [])
      : [undefined, duration, "millisecond"]
  if (unit === undefined || !Object.hasOwn(unitsMs, unit) || (typeof amount !== "string" && typeof amount !== "number"))
    return undefined
  const ms = Number(amount) * unitsMs[unit as Unit]
  return Number.isFinite(ms) && ms >= 0 ? Math.ceil(ms) : undefined
}
