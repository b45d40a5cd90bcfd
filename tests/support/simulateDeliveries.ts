// Prints the number of violations in the deliveries of a hundred jobs.
import { simulateDeliveries } from "@kiln/simulation"
import { Effect } from "effect"

const { violations } = await Effect.runPromise(simulateDeliveries(1, 100))
console.log(violations.length)
