import * as Schedule from "effect/Schedule"

/** How a write that matters is repeated while a store is out of reach: soon at first, then every second. */
export const retrying = Schedule.jittered(
  Schedule.min([Schedule.exponential("50 millis"), Schedule.spaced("1 second")]),
)
