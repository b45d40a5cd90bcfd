import * as Effect from "effect/Effect"
import { signalStep, untilStep } from "../../domain/Child.ts"
import { type Job, type Json, maxParkMs } from "../../domain/index.ts"
import { isDate } from "../../domain/givenValues.ts"
import { isSignalName, signalNameRule } from "../../domain/Parking.ts"
import { durationMs, type SignalResult } from "../../domain/WaitTime.ts"
import { type AttemptError, AttemptFailed, AttemptParked, type SignalOptions } from "../../kinds/AttemptContext.ts"
import { KindBug } from "../../kinds/KindBug.ts"
import { readBySchema } from "../../kinds/readBySchema.ts"
import type { JobStore } from "../../ports/index.ts"
import type { Inherited } from "./inherited.ts"
import { shownCall } from "./Attempt.ts"

/** The parts of an attempt that waiting needs. */
export interface WaitServices {
  readonly store: JobStore["Service"]
  readonly job: Job
  /** Returns the store time. */
  readonly now: () => number
  readonly keep: (step: string, value: Json) => Effect.Effect<void, AttemptError>
  /** What the jobs that this one retries had finished; `undefined` for a job that is no retry. */
  readonly inherited: Effect.Effect<Inherited, AttemptError> | undefined
}

/** The value that is kept once a wait has timed out. */
const over = "over"

/** Returns the end of a wait that begins now. Throws `KindBug` for anything but a duration or a date. */
const endOf = (call: string, option: string, time: unknown, now: number): number => {
  const ms = isDate(time) ? time.getTime() - now : durationMs(time)
  if (ms === undefined || Number.isNaN(ms) || ms > maxParkMs)
    throw new KindBug(
      `${call}: ${option} must be milliseconds, text such as "90 seconds" or "1 hour", or a Date, at most 366 days from now`,
    )
  return now + Math.max(0, ms)
}

const ownValue = (values: Readonly<Record<string, Json>>, name: string): Json | undefined =>
  Object.hasOwn(values, name) ? values[name] : undefined

/** Returns the end of a wait, which the first attempt that gets there keeps. `earlier`: the end for a job that this one retries. */
const keptEnd = Effect.fnUntraced(function* (
  { job, keep, now }: WaitServices,
  name: string,
  endFrom: (now: number) => number,
  earlier?: Json,
): Effect.fn.Return<number | typeof over, AttemptError> {
  const kept = ownValue(job.checkpoints, untilStep(name))
  if (kept === over || typeof kept === "number") return kept
  const end = typeof earlier === "number" ? earlier : endFrom(now())
  yield* keep(untilStep(name), end)
  return end
})

/** Waits until a time. Fails with `AttemptParked` until then. */
export const sleepUntil = Effect.fnUntraced(function* (
  services: WaitServices,
  name: string,
  time: unknown,
): Effect.fn.Return<void, AttemptError> {
  const earlier = services.inherited && (yield* services.inherited).steps.get(untilStep(name))
  const until = yield* keptEnd(services, name, (now) => endOf(shownCall("sleep", name), "the time", time, now), earlier)
  if (until === over || until <= services.now()) return
  return yield* new AttemptParked({ park: { reason: "sleep", subject: name, until } })
})

/** Waits for a signal. Fails with `AttemptParked` until it has come or the wait has timed out. */
export const awaitSignal = Effect.fnUntraced(function* (
  services: WaitServices,
  name: string,
  options: SignalOptions | undefined,
): Effect.fn.Return<SignalResult, AttemptError> {
  const call = shownCall("waitFor", name)
  if (!isSignalName(name)) throw new KindBug(`${call}: ${signalNameRule}`)
  const kept = ownValue(services.job.checkpoints, signalStep(name))
  if (kept !== undefined) return { timedOut: false, value: yield* valueOf(call, kept, options?.schema) }
  const until = yield* keptEnd(services, name, (now) => endOf(call, "timeout", options?.timeout, now))
  if (until === over) return { timedOut: true }
  // Before the signals are read: one that comes in time, while a slow answer is on its way, is found by the next attempt.
  const askedAt = services.now()
  const signal = (yield* services.store.listSignals(services.job.id)).find((each) => each.name === name)
  if (signal !== undefined) return { timedOut: false, value: yield* valueOf(call, signal.value, options?.schema) }
  const earlier = services.inherited && (yield* services.inherited).signals.find((each) => each.name === name)
  if (earlier !== undefined) {
    yield* services.keep(signalStep(name), earlier.value)
    return { timedOut: false, value: yield* valueOf(call, earlier.value, options?.schema) }
  }
  if (until > askedAt) return yield* new AttemptParked({ park: { reason: "signal", subject: name, until } })
  yield* services.keep(untilStep(name), over)
  return { timedOut: true }
})

const valueOf = (call: string, value: Json, schema: SignalOptions["schema"]): Effect.Effect<Json, AttemptError> => {
  if (schema === undefined) return Effect.succeed(value)
  const read = readBySchema(schema, value, "value")
  return "wrongAt" in read
    ? Effect.fail(
        new AttemptFailed({
          errorCode: "internal_error",
          retry: false,
          detail: `${call}: the value of the signal does not match its schema: ${read.wrongAt}`,
        }),
      )
    : Effect.succeed(read.value as Json)
}
