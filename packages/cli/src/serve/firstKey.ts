import * as Effect from "effect/Effect"
import * as SecureRandom from "effect/crypto/SecureRandom"
import type { ProjectId, StoreUnavailable } from "@kiln/core/domain"
import { keyScopes } from "@kiln/core/kinds"
import { type AuditLog, IdGenerator, KeyDirectory, type NewApiKey } from "@kiln/core/ports"
import { newKey } from "@kiln/http"
import { keyDetails, keyDocument } from "../keyDocument.ts"
import { programCommand } from "../programCommand.ts"
import { recordChange } from "../recordChange.ts"

/** A key for trying a new installation. */
export type FirstKey = ReturnType<typeof keyDocument>

/** When startup shows a first key: `on` only on a terminal, `print` on any standard output, `off` never. */
export type FirstKeySetting = "on" | "print" | "off"

const projectName = "default"

/** Returns the command that creates a test key. */
export const keyCommand = (): string =>
  [
    programCommand(),
    `key create --project ${projectName} --mode test`,
    ...keyScopes.map((scope) => `--scope ${scope}`),
  ].join(" ")

const wish = (projectId: ProjectId) =>
  ({ projectId, mode: "test", scopes: keyScopes, name: "first key", expiresAt: null }) as const

const recordFirst = (record: NewApiKey) =>
  recordChange({ action: "key.create", subject: record.id, details: { ...keyDetails(record), by: "kiln serve" } })

/**
 * Creates the project `default` and a test key with every scope, atomically, if the store has no key, and returns the key;
 * `undefined` if there is a key. Only one of several processes that start concurrently creates them. An existing project
 * `default` gets the key; two terminals that start kiln at the same time may then show one key each.
 */
const makeFirstKey = Effect.gen(function* () {
  const directory = yield* KeyDirectory
  const projectId = (yield* IdGenerator).next("prj")
  const { key, record } = yield* newKey(wish(projectId))
  const created = yield* directory
    .createFirstKey({ id: projectId, name: projectName }, record)
    .pipe(recordFirst(record))
  if (created) return keyDocument(key, record)
  const project = (yield* directory.listProjects).find(({ name }) => name === projectName)
  if (project === undefined || (yield* directory.listKeys).length > 0) return undefined
  const other = yield* newKey(wish(project.id))
  const added = yield* directory.createKey(other.record).pipe(recordFirst(other.record))
  return added && keyDocument(other.key, other.record)
}).pipe(Effect.provide(SecureRandom.layerWebCrypto))

/**
 * Returns the first key to show on startup: a new key, or `"none"` if the store has no key and none is created because
 * standard output is not a terminal (the project is created, so that `keyCommand` works). `undefined` if there is a key, or if
 * `setting` is `off`.
 */
export const firstKey = Effect.fnUntraced(function* (
  setting: FirstKeySetting,
  isShown: boolean,
): Effect.fn.Return<FirstKey | "none" | undefined, StoreUnavailable, AuditLog | KeyDirectory | IdGenerator> {
  const directory = yield* KeyDirectory
  if (setting === "off" || (yield* directory.listKeys).length > 0) return undefined
  if (isShown || setting === "print") return yield* makeFirstKey
  yield* directory.createProject({ id: (yield* IdGenerator).next("prj"), name: projectName })
  return "none"
})
