// A separate process, so that bugs can be planted into the modules it loads. Prints the outcome of the scenario.
import { Effect, Logger } from "effect"
import { twoWorkers } from "./twoWorkers.ts"

const { calls, failures } = await Effect.runPromise(Effect.provide(twoWorkers, Logger.layer([])))
console.log(
  `${calls <= 68 ? "the rate holds" : "too many calls"}, ${calls >= 60 ? "is used" : "is not used"}, ${failures > 0 ? "jobs failed" : "no job failed"}`,
)
