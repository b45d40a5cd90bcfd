import * as Effect from "effect/Effect"
import { untilStep } from "../../domain/Child.ts"
import { type Job, type Json, maxParkMs } from "../../domain/index.ts"
import { isDate } from "../../domain/realms.ts"
import { isSignalName, signalNameRule } from "../../domain/signalName.ts"
import { durationMs, type SignalResult } from "../../domain/WaitTime.ts"
import { type AttemptError, AttemptFailed, AttemptParked, type SignalOptions } from "../../kinds/AttemptContext.ts"
import { KindBug } from "../../kinds/KindBug.ts"
import { readBySchema } from "../../kinds/readBySchema.ts"
import type { JobStore } from "../../ports/index.ts"
import { shownCall } from "./UsedNames.ts"

/** The parts of an attempt that waiting needs. */
export interface WaitServices {
  readonly store: JobStore["Service"]
  readonly job: Job
  /** Returns the store time. */
  readonly now: () => number
  readonly keep: (step: string, value: Json) => Effect.Effect<void, AttemptError>
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

/** Returns the end of a wait, which the first attempt that gets there keeps. */
const keptEnd = Effect.fnUntraced(function* (
  { job, keep, now }: WaitServices,
  name: string,
  endFrom: (now: number) => number,
): Effect.fn.Return<number | typeof over, AttemptError> {
  const kept = Object.hasOwn(job.checkpoints, untilStep(name)) ? job.checkpoints[untilStep(name)] : undefined
  if (kept === over || typeof kept === "number") return kept
  const end = endFrom(now())
  yield* keep(untilStep(name), end)
  return end
})

/** Waits until a time. Fails with `AttemptParked` until then. */
export const sleepUntil = Effect.fnUntraced(function* (
  services: WaitServices,
  name: string,
  time: unknown,
): Effect.fn.Return<void, AttemptError> {
  const until = yield* keptEnd(services, name, (now) => endOf(shownCall("sleep", name), "the time", time, now))
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
  const until = yield* keptEnd(services, name, (now) => endOf(call, "timeout", options?.timeout, now))
  if (until === over) return { timedOut: true }
  const signal = (yield* services.store.listSignals(services.job.id)).find((each) => each.name === name)
  if (signal !== undefined) return { timedOut: false, value: yield* valueOf(call, signal.value, options?.schema) }
  if (until > services.now()) return yield* new AttemptParked({ park: { reason: "signal", subject: name, until } })
  yield* services.keep(untilStep(name), over)
  return { timedOut: true }
})

const valueOf = (call: string, value: Json, schema: SignalOptions["schema"]): Effect.Effect<Json, AttemptError> => {
  if (schema === undefined) return Effect.succeed(value)
  const read = readBySchema(schema, value)
  return "problem" in read
    ? Effect.fail(
        new AttemptFailed({
          errorCode: "internal_error",
          retry: false,
          detail: `${call}: the value of the signal does not match its schema${read.problem}`,
        }),
      )
    : Effect.succeed(read.value as Json)
}
