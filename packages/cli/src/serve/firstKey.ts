import { Effect } from "effect"
import { SecureRandom } from "effect/crypto"
import type { ProjectId, StoreUnavailable } from "@kiln/core/domain"
import { keyScopes } from "@kiln/core/kinds"
import { IdGenerator, KeyDirectory } from "@kiln/core/ports"
import { newKey } from "@kiln/http"
import { keyDocument } from "../keyDocument.ts"

/** A key with which a new installation can be tried at once. */
export type FirstKey = ReturnType<typeof keyDocument>

/** When a start shows a first key: `on` to a person at a terminal only, `print` on any standard output, `off` never. */
export type FirstKeySetting = "on" | "print" | "off"

const projectName = "default"

/** Makes a test key where the store holds no key. An installation from a checkout has sources, and is run with pnpm. */
export const keyCommand = `${import.meta.url.endsWith(".ts") ? "npx -y pnpm@12" : "npx"} kiln key create --project ${projectName} --mode test ${keyScopes
  .map((scope) => `--scope ${scope}`)
  .join(" ")}`

const wish = (projectId: ProjectId) =>
  ({ projectId, mode: "test", scopes: keyScopes, name: "first key", expiresAt: null }) as const

/**
 * Makes the project `default` and a test key with every scope where the store holds no key, both or neither, and returns
 * the key; `undefined` where there is a key. Of many processes that start at once, one makes them. A project `default` that
 * is there already gets the key; two terminals that start kiln in the same moment may then show one each.
 */
const makeFirstKey = Effect.gen(function* () {
  const directory = yield* KeyDirectory
  const projectId = yield* (yield* IdGenerator).next("prj")
  const { key, record } = yield* newKey(wish(projectId))
  if (yield* directory.createFirstKey({ id: projectId, name: projectName }, record)) return keyDocument(key, record)
  const project = (yield* directory.listProjects).find(({ name }) => name === projectName)
  if (project === undefined || (yield* directory.listKeys).length > 0) return undefined
  const other = yield* newKey(wish(project.id))
  return (yield* directory.createKey(other.record)) && keyDocument(other.key, other.record)
}).pipe(Effect.provide(SecureRandom.layerWebCrypto))

/**
 * Returns what a start says about keys: a new first key, or `"none"` where the store holds none and none is made, since
 * whatever reads standard output is not a person (the project is made, for `keyCommand` to work). `undefined` where there
 * is a key, or `setting` is `off`.
 */
export const firstKey = Effect.fnUntraced(function* (
  setting: FirstKeySetting,
  isShown: boolean,
): Effect.fn.Return<FirstKey | "none" | undefined, StoreUnavailable, KeyDirectory | IdGenerator> {
  const directory = yield* KeyDirectory
  if (setting === "off" || (yield* directory.listKeys).length > 0) return undefined
  if (isShown || setting === "print") return yield* makeFirstKey
  yield* directory.createProject({ id: yield* (yield* IdGenerator).next("prj"), name: projectName })
  return "none"
})
