import { describe, expect, it } from "@effect/vitest"
import { plantedBugs } from "./plantedBugs/index.ts"
import { races } from "./races/index.ts"
import { explore } from "./support/Race.ts"

/** At most: most show within the first ten. */
const numRuns = 600

describe("some order of turns reveals that", () => {
  for (const { bug, plant, promise, race: beginning, shows } of plantedBugs)
    it(`${bug} (promise ${promise})`, async () => {
      const [race, ...others] = races.filter((one) => one.name.startsWith(beginning))
      if (race === undefined || others.length > 0) throw new Error(`not one race begins with ${beginning}`)
      const { details } = await explore(race, numRuns, { plant })
      // For its own reason, and not because what plants it is broken.
      expect(`${details.failed} ${String(details.errorInstance)}`).toMatch(shows)
    })
})
