import { acceptance } from "./acceptance.ts"
import { administration } from "./administration.ts"
import { type CaughtBy, caughtBy } from "./caughtBy.ts"
import { claiming } from "./claiming.ts"
import { deletion } from "./deletion.ts"
import { limiting } from "./limiting.ts"
import { operating } from "./operating.ts"
import type { PlantedBug } from "./PlantedBug.ts"
import { running } from "./running.ts"
import { uploads } from "./uploads.ts"

export interface CaughtBug extends PlantedBug {
  readonly caughtBy: CaughtBy
}

const unstated: CaughtBy = { checks: [], promises: false }

/** Bugs that conformance suite and comparison must catch, with the tests that do. */
export const plantedBugs: ReadonlyArray<CaughtBug> = [
  ...acceptance,
  ...claiming,
  ...limiting,
  ...running,
  ...deletion,
  ...uploads,
  ...administration,
  ...operating,
].map((planted) => ({ ...planted, caughtBy: caughtBy[planted.bug] ?? unstated }))
