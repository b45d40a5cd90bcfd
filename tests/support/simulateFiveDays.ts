// Prints the number of violations in five simulated days of schedules.
import { simulateSchedules } from "@kiln/simulation"
import { Effect } from "effect"

const { violations } = await Effect.runPromise(simulateSchedules(1, 5))
console.log(violations.length)
