import { accepting } from "./accepting.ts"
import { claiming } from "./claiming.ts"
import { completing } from "./completing.ts"
import { deleting } from "./deleting.ts"
import type { PlantedBug } from "./PlantedBug.ts"

/** Bugs that some order of turns must expose. */
export const plantedBugs: ReadonlyArray<PlantedBug> = [...completing, ...claiming, ...accepting, ...deleting]
