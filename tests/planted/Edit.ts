import { join } from "node:path"

/** One change to the text of one module. */
export interface Edit {
  /** How the module's path ends, from a directory's beginning on. */
  readonly file: string
  /** Occurs exactly once. */
  readonly from: string
  readonly to: string
}

/** The environment of a Node process in which the modules are changed like this. */
export const planting = (edits: ReadonlyArray<Edit>): Readonly<Record<string, string>> => ({
  NODE_OPTIONS: `--import=${join(import.meta.dirname, "plant.ts")}`,
  PLANTED_BUG: JSON.stringify(edits),
})
