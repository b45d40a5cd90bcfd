import * as Schedule from "effect/Schedule"

/** The retry schedule of writes that must not be lost while a store is unavailable: from 50 ms up to every second. */
export const retrying = Schedule.jittered(
  Schedule.min([Schedule.exponential("50 millis"), Schedule.spaced("1 second")]),
)
