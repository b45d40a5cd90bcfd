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

/** A module that exports what programs make. With `declaration`, the compiler must be able to name the types of all of it. */
export const exportsAll = `
import { createClient, jobRoute } from "@kiln/client"
import { builtInKinds, createEngine, jobKind } from "@kiln/core"
import { webhook } from "@kiln/provider-http"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { memoryBlobs, memoryStore, testEngine } from "@kiln/testing"

/** A Standard Schema, because a program with pnpm imports nothing that it does not declare. */
interface Text {
  readonly text: string
}
interface TextSchema {
  readonly "~standard": {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => { readonly value: Text }
    readonly types?: { readonly input: Text; readonly output: Text }
  }
}
export const request: TextSchema = {
  "~standard": { version: 1, vendor: "app", validate: (value) => ({ value: value as Text }) },
}
export const kind = jobKind({
  name: "count_words",
  request,
  files: { list: {} },
  errorCodes: ["no_words"],
  run: async ({ request, writeFile }) => {
    const words = request.text.split(" ")
    await writeFile("list", async () => ({ mediaType: "text/plain", data: new TextEncoder().encode(words.join()) }))
    return { output: { count: words.length } }
  },
})
const set = sandboxProviders()
export const start = () =>
  createEngine({ store: memoryStore(), blobs: memoryBlobs(), kinds: [...builtInKinds(), kind], providers: { sandbox: set } })
type Started = Awaited<ReturnType<typeof start>>
export const count = (engine: Started) => engine.submitAndWait("count_words", { text: "one two" })
export const speak = (engine: Started) => engine.submit("speech_synthesis", { input: "one two" })
export const route = jobRoute(kind, { path: "/v1/counts" })
export const client = createClient({ baseUrl: "", routes: [route] })
export const countOverHttp = () => client.countWords.run({ text: "one two" })
export const test = () => testEngine({ kinds: [kind] })
export const post = webhook({ url: "https://example.com", secret: "whsec_" })
`

/** The same for a program with Effect, which npm finds although the program does not declare it. */
export const exportsEffects = `
import { waitForJob } from "@kiln/client/effect"
import { Engine, Operator } from "@kiln/core/effect"
import { Effect } from "effect"

export const waitUntilDone = (poll: Parameters<typeof waitForJob>[0]) => waitForJob(poll)
export const engine = Effect.gen(function* () {
  return yield* Engine
})
export const operator = Effect.gen(function* () {
  return yield* Operator
})
`
