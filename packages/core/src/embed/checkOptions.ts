import { requireFlag, requireOneOf, requireOptions, requireProviderNames } from "../domain/index.ts"
import { unknownName } from "../domain/knownNames.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { portsOf } from "../kinds/portsOf.ts"
import { contextOptions, engineOptions, modeNames } from "./optionNames.ts"

const modes = Object.keys(modeNames)

/** Throws `TypeError` unless this is a mode of a job. */
export const requireMode = (mode: unknown): void => {
  if (mode !== "sandbox" && mode !== "live") requireOneOf("mode", mode, modes)
}

/** Throws `TypeError` for a provider whose name no kind uses. */
export const checkProviders = (providers: unknown, kinds: ReadonlyArray<JobKind>): void => {
  if (providers === undefined) return
  requireOptions("providers", providers, modeNames)
  const names = portsOf(kinds).map(({ name }) => name)
  const sets = providers as { readonly [Mode in keyof typeof modeNames]?: unknown }
  for (const mode of ["sandbox", "live"] as const)
    if (sets[mode] !== undefined) requireProviderNames(`providers.${mode}`, sets[mode], names)
}

/** Throws `TypeError` for options of `createEngine` that do not exist or have another type. */
export const checkEngineOptions = (options: object): void => {
  requireOptions("createEngine()", options, engineOptions)
  const given: { readonly [Name in keyof typeof engineOptions]?: unknown } = options
  if (given.kinds !== undefined && !Array.isArray(given.kinds)) throw new TypeError("kinds must be an array")
  if (given.mode !== undefined) requireMode(given.mode)
  requireFlag("worker", given.worker)
  requireFlag("autoStart", given.autoStart)
  if (given.log !== undefined && given.log !== false && typeof given.log !== "function")
    throw new TypeError("log must be a function, or false")
  for (const name of ["onError", "onFinished"] as const)
    if (given[name] !== undefined && typeof given[name] !== "function")
      throw new TypeError(`${name} must be a function`)
  if (given.context !== undefined) checkContext(given.context)
}

const checkContext = (context: unknown): void => {
  requireOptions("context", context, contextOptions)
  const { capture, restore } = context as { readonly [Name in keyof typeof contextOptions]?: unknown }
  if (typeof capture !== "function" || typeof restore !== "function")
    throw new TypeError("context must have the functions capture and restore")
}

/** Throws `TypeError` for limits of kinds that this engine does not have: they would have no effect. */
export const checkLimits = (perKind: object, kinds: ReadonlyArray<JobKind>): void => {
  const known = kinds.map(({ name }) => name)
  const unknown = Object.keys(perKind).find((name) => !known.includes(name))
  if (unknown !== undefined)
    throw new TypeError(unknownName(`kind "${unknown}" in settings.limits.perKind`, unknown, known))
}
