import { acceptance } from "./acceptance.ts"
import { administration } from "./administration.ts"
import { claiming } from "./claiming.ts"
import { deletion } from "./deletion.ts"
import type { PlantedBug } from "./PlantedBug.ts"
import { running } from "./running.ts"
import { uploads } from "./uploads.ts"

export type { PlantedBug } from "./PlantedBug.ts"

/** Bugs that conformance suite and comparison must catch. */
export const plantedBugs: ReadonlyArray<PlantedBug> = [
  ...acceptance,
  ...claiming,
  ...running,
  ...deletion,
  ...uploads,
  ...administration,
]
