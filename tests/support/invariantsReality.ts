import { existsSync, globSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { requiredCoverage } from "@kiln/simulation"
import type { Reality } from "./invariantsPage.ts"
import { repository } from "./plantTree.ts"

export const read = (path: string): string | undefined => {
  const file = join(repository, path)
  return existsSync(file) ? readFileSync(file, "utf8") : undefined
}
export const page = read("docs/invariants.md") ?? ""

const simulation = globSync("packages/simulation/src/**/*.ts", { cwd: repository }).map((path) => read(path))

/** Where the simulation reports that an invariant is broken, with the name it reports. */
export const complaints = simulation.flatMap((text = "") => [...text.matchAll(/\.violate\(\s*("[^"]+")?/g)])
export const invariants = [...new Set(complaints.flatMap(([, name]) => (name === undefined ? [] : [JSON.parse(name)])))]

/** What docs/invariants.md is compared with. */
export const reality: Reality = { read, promises: 88, invariants, reached: requiredCoverage }
