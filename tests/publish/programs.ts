import { readFileSync } from "node:fs"
import { stripTypeScriptTypes } from "node:module"
import { join } from "node:path"
import { extractSnippets } from "../docs/extractSnippets.ts"
import { repository } from "../support/plantTree.ts"

export interface Example {
  readonly code: string
  /** What it prints. */
  readonly output: string
}

/** The program of the README that puts the engine into a program: the first of its snippets. */
export const readmeExample = (): Example => {
  const [snippet] = extractSnippets("README.md", readFileSync(join(repository, "README.md"), "utf8"))
  if (snippet?.output === undefined) throw new Error("the README begins with no example that promises an output")
  return { code: snippet.code, output: snippet.output.trim() }
}

/** The same program without its types. */
export const asJavaScript = (code: string): string => stripTypeScriptTypes(code)

/** The same program as it is written where `import` and `await` have no place at the top. */
export const asCommonJs = (code: string): string => {
  const required = asJavaScript(code).replaceAll(
    /^import (\{[^}]*\}) from ("[^"]+")/gm,
    (_, names: string, from: string) => `const ${names} = require(${from})`,
  )
  return `const main = async () => {\n${required}\n}\nmain()\n`
}

/** Loads every entry point with `load`, and prints failures. */
const tryDoors = (doors: ReadonlyArray<string>, load: string): string => `
const doors = ${JSON.stringify(doors)}
const tryAll = async () => {
  for (const door of doors) {
    try {
      if (Object.keys(await ${load}(door)).length === 0) console.log(door + " is empty")
    } catch (error) {
      console.log(door + ": " + error.code + " " + error.message)
    }
  }
  console.log(doors.length + " tried")
}
tryAll()
`
export const importDoors = (doors: ReadonlyArray<string>): string => tryDoors(doors, "import")
/** `require` takes a module only when no module it loads awaits anything at its top. */
export const requireDoors = (doors: ReadonlyArray<string>): string => tryDoors(doors, "require")

/** A program that mentions every entry point, so that the compiler reads all their declarations. */
export const nameDoors = (doors: ReadonlyArray<string>): string =>
  [
    ...doors.map((door, index) => `import * as door${index} from ${JSON.stringify(door)}`),
    `console.log(${doors.map((_, index) => `door${index}`).join(", ")})`,
  ].join("\n")
