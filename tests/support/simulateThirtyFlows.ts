// Prints the number of violations in thirty simulated flows, after one without kills.
import { simulateFlows } from "@kiln/simulation"
import { Effect } from "effect"

let { length: violations } = (await Effect.runPromise(simulateFlows(0, 0))).violations
for (let seed = 1; seed <= 30; seed++)
  violations += (await Effect.runPromise(simulateFlows(seed, 0.03))).violations.length
console.log(violations)
