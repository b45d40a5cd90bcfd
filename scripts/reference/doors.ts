import { join } from "node:path"
import { publicPackages, repository } from "../publish/publicPackages.ts"

export interface DoorOfReference {
  /** Such as `@kiln/core/domain`. */
  readonly name: string
  /** Such as `core.domain.md`. */
  readonly page: string
  /** One sentence: for whom it is. */
  readonly forWhom: string
  /** The declarations it is built to. */
  readonly entry: string
}

/** Every door of every package. A name that several of them let through is told by the first. */
const forWhom = {
  "@kiln/core": "Programs that use the engine with promises: `createEngine`, its options, results, errors and events.",
  "@kiln/adapter-sqlite": "Records in SQLite, in one file, for one machine.",
  "@kiln/adapter-postgres": "Records in Postgres, for several processes and machines.",
  "@kiln/adapter-blobs": "Uploaded and generated files in a directory, or in any store that unstorage knows.",
  "@kiln/media-probe": "Measures uploaded audio.",
  "@kiln/provider-ai-sdk": "Models through the AI SDK: OpenAI, and servers that speak its language.",
  "@kiln/provider-http": "For who writes a provider of their own: requests, downloads and their errors.",
  "@kiln/provider-sandbox": "Sandbox models: the same answers each time, at no cost.",
  "@kiln/testing": "Tests of programs that use kiln: an engine in memory, with fakes and a clock of the test's own.",
  "@kiln/testing/assert": "The same tests' assertions, for any test runner.",
  "@kiln/testing/vitest": "The same assertions as matchers of vitest.",
  "@kiln/client": "Programs that call kiln over HTTP, with promises.",
  "@kiln/http/mount": "The HTTP surface within a server that is there already.",
  "@kiln/core/domain": "The vocabulary for code with Effect: jobs, their states and moves, uploads, access, billing.",
  "@kiln/core/ports": "What kiln needs from outside: for who writes an adapter or a provider with Effect.",
  "@kiln/core/effect": "Programs that use the engine with Effect: its services, layers and job kinds.",
  "@kiln/core/worker": "The worker and its sweeps, for programs with Effect that run them by themselves.",
  "@kiln/client/api": "The HTTP surface as a declaration, without the server behind it.",
  "@kiln/client/effect": "Programs that call kiln over HTTP, with Effect.",
  "@kiln/http": "The HTTP service, for programs with Effect that put it together by themselves.",
  "@kiln/cli": "The type of the config file that the `kiln` program loads.",
  "@kiln/conformance": "Authors of adapters: the test suites that every adapter passes.",
  "@kiln/conformance/model": "The model the suites judge a job by: which fields a move may change.",
  "@kiln/testing/openai": "A small server that answers like OpenAI, for tests of live providers.",
} as const

const order: ReadonlyArray<string> = Object.keys(forWhom)

/** Throws where a door is not in the list above, or one of the list is no more. */
export const doorsOfReference = (root = repository): ReadonlyArray<DoorOfReference> => {
  const doors = publicPackages(root).flatMap(({ directory, manifest }) =>
    Object.entries(manifest.exports).map(([door, { types = "" }]) => {
      const name = manifest.name + door.slice(1)
      return {
        name,
        page: `${name.replace("@kiln/", "").replace("/", ".")}.md`,
        entry: join(root, directory, types),
      }
    }),
  )
  const names = doors.map(({ name }) => name)
  const strange = [...names, ...order].filter((name) => !names.includes(name) || !order.includes(name))
  if (strange.length > 0)
    throw new Error(`a door that scripts/reference/doors.ts does not know, or no more: ${strange.join(", ")}`)
  return doors
    .map((door) => ({ ...door, forWhom: forWhom[door.name as keyof typeof forWhom] }))
    .sort((one, other) => order.indexOf(one.name) - order.indexOf(other.name))
}
