import { existsSync } from "node:fs"
import { pathToFileURL } from "node:url"
import * as Effect from "effect/Effect"
import type { UnstorageLike } from "@kiln/adapter-blobs"
import { causeMessage, type CommandFailed, misused } from "./CommandFailed.ts"
import { configProblems, type KilnConfig } from "./KilnConfig.ts"

/** Loads the default export of a user's module. */
const loadDefault = (setting: string, path: string): Effect.Effect<unknown, CommandFailed> =>
  Effect.tryPromise({
    try: async () => {
      if (!existsSync(path)) throw new Error("file not found")
      const loaded = (await import(pathToFileURL(path).href)) as { readonly default?: unknown }
      if (loaded.default === undefined) throw new Error("it has no default export")
      return loaded.default
    },
    catch: (cause) => misused(`${setting}: cannot load ${path}: ${causeMessage(cause)}`),
  })

/** Loads the file that `KILN_CONFIG` names. */
export const loadConfig = (path: string | undefined): Effect.Effect<KilnConfig, CommandFailed> =>
  Effect.gen(function* () {
    if (path === undefined) return {}
    const config = yield* loadDefault("KILN_CONFIG", path)
    const problems = configProblems(config)
    if (problems.length > 0) return yield* misused(`KILN_CONFIG: ${path}: ${problems.join("; ")}`)
    // Checked above, as far as possible at run time.
    return config as KilnConfig
  })

const unstorageMethods = ["getItemRaw", "setItemRaw", "removeItem", "getKeys"]

const isUnstorage = (value: unknown): value is UnstorageLike =>
  typeof value === "object" &&
  value !== null &&
  unstorageMethods.every((name) => typeof Reflect.get(value, name) === "function")

/** Loads the unstorage instance that the module named by a setting exports. */
export const loadUnstorage = (path: string, setting: string): Effect.Effect<UnstorageLike, CommandFailed> =>
  Effect.flatMap(loadDefault(setting, path), (storage) =>
    isUnstorage(storage)
      ? Effect.succeed(storage)
      : Effect.fail(misused(`${setting}: ${path}: its default export must be an unstorage instance`)),
  )
