import { type OptionNames, requireOneOf, requireOptions, switchNames } from "../domain/index.ts"
import { providerNames } from "../providers/builtInPorts.ts"
import { fieldOf } from "../providers/checks.ts"
import type { KindDefinition, KindLimits } from "./KindDefinition.ts"

type AnyDefinition = KindDefinition<string, never, object, string, never, never, string> & {
  readonly run: unknown
  readonly sandbox?: unknown
}

const definitionNames: OptionNames<AnyDefinition> = {
  name: true,
  description: true,
  request: true,
  example: true,
  output: true,
  files: true,
  keeps: true,
  version: true,
  readsFrom: true,
  keyScope: true,
  price: true,
  meters: true,
  switches: true,
  providers: true,
  orProviders: true,
  limits: true,
  upload: true,
  run: true,
  sandbox: true,
}

const limitNames: OptionNames<KindLimits> = {
  queueLimitMs: true,
  runLimitMs: true,
  maxFailures: true,
  concurrency: true,
}

/** Throws `TypeError` for a definition with an unknown or missing option. */
export const checkDefinition = (definition: object): void => {
  requireOptions("a job kind", definition, definitionNames)
  const given: { readonly [Name in keyof typeof definitionNames]?: unknown } = definition
  const place = `job kind "${String(given.name)}"`
  if (typeof given.name !== "string") throw new TypeError("job kind: name is required")
  for (const name of ["run", "sandbox"] as const)
    if (typeof given[name] !== "function" && (name === "run" || given[name] !== undefined))
      throw new TypeError(`${place}: ${name} must be a function`)
  for (const name of ["upload", "description"] as const)
    if (given[name] !== undefined && typeof given[name] !== "string")
      throw new TypeError(`${place}: ${name} must be a string`)
  requireSchema(place, "request", given.request)
  if (given.output !== undefined) requireSchema(place, "output", given.output)
  if (given.limits !== undefined) requireOptions(`limits of ${place}`, given.limits, limitNames)
  requireList(place, "switches", given.switches, switchNames)
  for (const name of ["providers", "orProviders"] as const)
    requireList(place, name, namesIn(given[name]), providerNames)
  for (const name of ["keeps", "meters"] as const) requireList(place, name, given[name])
  requireFiles(place, given.files)
}

/** Leaves out provider ports that are given by their declaration. */
const namesIn = (refs: unknown): unknown =>
  Array.isArray(refs) ? refs.filter((ref: unknown) => fieldOf(ref, "check") === undefined) : refs

/** Schemas of some libraries are functions. */
const requireSchema = (place: string, name: "request" | "output", schema: unknown): void => {
  const isSchema =
    (typeof schema === "object" || typeof schema === "function") &&
    schema !== null &&
    ("~standard" in schema || (name === "output" ? "ast" in schema : "fields" in schema))
  if (isSchema) return
  const struct = name === "request" ? "a struct of Effect Schema" : "a schema of Effect Schema"
  throw new TypeError(`${place}: ${name} must be a Standard Schema (Zod, Valibot, ArkType, …) or ${struct}`)
}

/** A list of names, or an object with a description for each. */
const requireFiles = (place: string, files: unknown): void => {
  if (files === undefined || typeof files !== "object" || files === null || Array.isArray(files))
    return requireList(place, "files", files)
  for (const [name, description] of Object.entries(files))
    if (typeof description !== "string")
      throw new TypeError(`${place}: the description of file "${name}" must be a string`)
}

const requireList = (place: string, name: string, list: unknown, known?: ReadonlyArray<string>): void => {
  if (list === undefined) return
  if (!Array.isArray(list)) throw new TypeError(`${place}: ${name} must be an array`)
  for (const one of list) {
    if (typeof one !== "string") throw new TypeError(`${place}: ${name} must be an array of strings`)
    if (known !== undefined) requireOneOf(`${place}: ${name.replace(/s$/, "")}`, one, known)
  }
}
