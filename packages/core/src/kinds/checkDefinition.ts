import { errorCodeForm, isBuiltInErrorCode } from "../domain/ErrorCode.ts"
import { switchNameForm } from "../domain/Gate.ts"
import { type OptionNames, requireOptions } from "../domain/givenValues.ts"
import { requireFlag, requireNumber, requireOneOf } from "../domain/index.ts"
import { rateProblem } from "../domain/Rate.ts"
import { providerNames } from "../providers/builtInPorts.ts"
import { fieldOf } from "../providers/checks.ts"
import type { BatchOptions, FileOptions, KindDefinition, KindLimits, RetryPolicy } from "./KindDefinition.ts"

/** The `files` of a definition: names, or an object with what it says about each. */
type Files = ReadonlyArray<string> | Readonly<Record<string, string | FileOptions>>

const fileOptionNames: OptionNames<FileOptions> = { description: true, maxBytes: true }

const optionsIn = (files: Files): ReadonlyArray<readonly [string, FileOptions]> =>
  isFileList(files)
    ? []
    : Object.entries(files).map(([name, given]) => [name, typeof given === "string" ? { description: given } : given])

const isFileList = (files: Files): files is ReadonlyArray<string> => Array.isArray(files)

/** Throws `TypeError` for an unknown or invalid option of a file. */
const checkFileOptions = (place: string, files: Files): void => {
  for (const [name, options] of optionsIn(files)) {
    requireOptions(`files.${name} of ${place}`, options, fileOptionNames)
    const { description, maxBytes } = options
    if (description !== undefined && typeof description !== "string")
      throw new TypeError(`${place}: the description of "${name}" in files must be a string`)
    if (maxBytes !== undefined && !(Number.isSafeInteger(maxBytes) && maxBytes >= 1))
      throw new TypeError(`${place}: files.${name}.maxBytes must be a positive integer, not ${String(maxBytes)}`)
  }
}

/** Returns the descriptions of the files that have one. */
export const fileDescriptionsOf = (files: Files): Readonly<Record<string, string>> =>
  Object.fromEntries(
    optionsIn(files).flatMap(([name, { description }]) => (description === undefined ? [] : [[name, description]])),
  )

/** Returns the limits of the files that state one, in bytes. */
export const fileLimitsOf = (files: Files): Readonly<Record<string, number>> =>
  Object.fromEntries(
    optionsIn(files).flatMap(([name, { maxBytes }]) => (maxBytes === undefined ? [] : [[name, maxBytes]])),
  )

type AnyDefinition = KindDefinition<
  string,
  never,
  object,
  string,
  never,
  never,
  string,
  string,
  string,
  string,
  unknown
> & {
  readonly batch?: unknown
  readonly run: unknown
  readonly sandbox?: unknown
  readonly onFinished?: unknown
  readonly requestOnFailure?: unknown
}

const definitionNames: OptionNames<AnyDefinition> = {
  name: true,
  description: true,
  request: true,
  example: true,
  output: true,
  chunk: true,
  files: true,
  metadata: true,
  version: true,
  readsFrom: true,
  keyScope: true,
  price: true,
  meters: true,
  maxUsage: true,
  switches: true,
  providers: true,
  orProviders: true,
  limits: true,
  retry: true,
  upload: true,
  errorCodes: true,
  batch: true,
  run: true,
  sandbox: true,
  onFinished: true,
  requestOnFailure: true,
}

type Given = { readonly [Name in keyof typeof definitionNames]?: unknown }

const limitNames: OptionNames<KindLimits> = {
  queueLimitMs: true,
  runLimitMs: true,
  attemptTimeoutMs: true,
  maxFailures: true,
  concurrency: true,
  rate: true,
  dataRetentionMs: true,
  jobRetentionMs: true,
}

/** Limits for which 0 means indefinitely. */
const retentionNames: ReadonlySet<string> = new Set(["dataRetentionMs", "jobRetentionMs"])

const retryNames: OptionNames<RetryPolicy> = { backoff: true, retryIf: true }
const backoffNames = { baseMs: true, maxMs: true } as const

/** Throws `TypeError` for a definition with an unknown, missing or invalid option. */
export const checkDefinition = (definition: object): void => {
  requireOptions("a job kind", definition, definitionNames)
  const given: Given = definition
  const place = `job kind "${String(given.name)}"`
  if (typeof given.name !== "string") throw new TypeError("job kind: name is required")
  for (const name of ["run", "sandbox", "maxUsage", "onFinished"] as const)
    if (typeof given[name] !== "function" && (name === "run" || given[name] !== undefined))
      throw new TypeError(`${place}: ${name} must be a function`)
  for (const name of ["upload", "description"] as const)
    if (given[name] !== undefined && typeof given[name] !== "string")
      throw new TypeError(`${place}: ${name} must be a string`)
  requireFlag(`${place}: requestOnFailure`, given.requestOnFailure)
  requireSchema(place, "request", given.request)
  if (given.output !== undefined) requireSchema(place, "output", given.output)
  if (given.chunk !== undefined) requireSchema(place, "chunk", given.chunk)
  if (given.limits !== undefined) requireOptions(`limits of ${place}`, given.limits, limitNames)
  requireRetry(place, given.retry)
  requireList(place, "switches", given.switches)
  requireSwitches(place, (given.switches ?? []) as ReadonlyArray<string>)
  for (const name of ["providers", "orProviders"] as const)
    requireList(place, name, namesIn(given[name]), providerNames)
  for (const name of ["metadata", "meters"] as const) requireList(place, name, given[name])
  requireFiles(place, given.files)
  requireDescribed(place, "errorCodes", given.errorCodes)
  requireErrorCodes(place, namesOf((given.errorCodes ?? []) as Names))
  requireName(given.name)
  requireTexts(place, given)
  requireVersions(given.name, given)
  requireFileNames(namesOf((given.files ?? []) as Names))
  requireLimits(place, given.limits)
  checkBatch(place, given)
}

/** Names are parts of scopes, which are separated by spaces, of metrics and of command lines; stores write `name@version`. */
const kindNameForm = /^[\w.:/-]{1,100}$/

const requireName = (name: string): void => {
  if (!kindNameForm.test(name))
    throw new TypeError(
      `job kind ${JSON.stringify(name.slice(0, 100))}: a name must be 1 to 100 letters (A to Z, a to z), digits, "_", "-", ".", ":" and "/"`,
    )
}

/** The other names of a kind that callers or operators write. */
const requireTexts = (place: string, { example, keyScope, meters, price, upload }: Given): void => {
  if (price !== undefined && (typeof price !== "string" || !/^[\w.-]{1,64}$/.test(price)))
    throw new TypeError(`${place}: price must be 1 to 64 letters, digits, hyphens, dots and underscores`)
  if (keyScope !== undefined && (typeof keyScope !== "string" || !/^[\x21-\x7e]{1,128}$/.test(keyScope)))
    throw new TypeError(`${place}: keyScope must be 1 to 128 visible ASCII characters without spaces`)
  if (example !== undefined && (typeof example !== "object" || example === null || Array.isArray(example)))
    throw new TypeError(`${place}: example must be an object, a valid request`)
  if (upload === "") throw new TypeError(`${place}: upload must be the name of a field of the request`)
  if (Array.isArray(meters) && meters.includes(""))
    throw new TypeError(`${place}: the name of a meter must not be empty`)
}

const requireVersions = (
  name: string,
  { readsFrom = 1, version = 1 }: { readonly version?: unknown; readonly readsFrom?: unknown },
): void => {
  if (!isPositiveInteger(version))
    throw new TypeError(`the version of ${name} must be a positive integer, not ${String(version)}`)
  if (!isPositiveInteger(readsFrom) || readsFrom > version)
    throw new TypeError(
      `readsFrom of ${name} must be an integer from 1 to its version, ${version}, not ${String(readsFrom)}`,
    )
}

const isPositiveInteger = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 1

/** A list of names, or an object with a description for each. */
type Names = ReadonlyArray<string> | Readonly<Record<string, unknown>>

/** Returns the names in such a list or object. */
export const namesOf = (names: Names): ReadonlyArray<string> => (isList(names) ? names : Object.keys(names))

const isList = (names: Names): names is ReadonlyArray<string> => Array.isArray(names)

/** Callers may switch over the codes, so a kind must not give a built-in one another meaning. */
const requireErrorCodes = (place: string, codes: ReadonlyArray<string>): void => {
  for (const code of codes) {
    if (!errorCodeForm.test(code))
      throw new TypeError(`${place}: an error code must be up to 64 lower-case letters, digits and "_", not "${code}"`)
    if (isBuiltInErrorCode(code))
      throw new TypeError(`${place}: "${code}" is a built-in error code, which any kind may use without declaring it`)
  }
}

const requireSwitches = (place: string, names: ReadonlyArray<string>): void => {
  const wrong = names.find((name) => !switchNameForm.test(name))
  if (wrong !== undefined)
    throw new TypeError(
      `${place}: a switch must be up to 64 lower-case letters, digits, "_" and "-", and begin with a letter, not "${wrong}"`,
    )
}

/** The names are part of blob keys, which every blob store must be able to tell apart. */
const requireFileNames = (names: ReadonlyArray<string>): void => {
  const wrong = names.find((name) => !/^[0-9a-z]{1,64}$/.test(name))
  if (wrong !== undefined)
    throw new TypeError(`a file name must consist of lower-case letters and digits, not "${wrong}"`)
}

const requireLimits = (place: string, limits: unknown = {}): void => {
  for (const [name, value] of Object.entries(limits as Readonly<Record<string, unknown>>)) {
    const problem = name === "rate" && value !== undefined ? rateProblem(value) : undefined
    if (problem !== undefined) throw new TypeError(`rate of ${place} ${problem}`)
    if (retentionNames.has(name)) {
      if (value !== 0 && !isPositiveInteger(value))
        throw new TypeError(
          `${name} of ${place} must be a non-negative integer, 0 to keep indefinitely, not ${shown(value)}`,
        )
    } else if (name !== "rate" && !isPositiveInteger(value))
      throw new TypeError(`${name} of ${place} must be a positive integer, not ${shown(value)}`)
  }
}

const shown = (value: unknown): string =>
  typeof value === "string" ? JSON.stringify(value.slice(0, 100)) : String(value)

const requireRetry = (place: string, retry: unknown): void => {
  if (retry === undefined) return
  requireOptions(`retry of ${place}`, retry, retryNames)
  const { backoff, retryIf } = retry as { readonly [Name in keyof RetryPolicy]?: unknown }
  if (retryIf !== undefined && typeof retryIf !== "function")
    throw new TypeError(`${place}: retry.retryIf must be a function`)
  if (backoff === undefined || typeof backoff === "function") return
  requireOptions(`retry.backoff of ${place}`, backoff, backoffNames)
  for (const [name, value] of Object.entries(backoff as object))
    requireNumber(`${place}: retry.backoff.${name}`, value, { least: 0 })
}

/** Leaves out provider ports that are given by their declaration. */
const namesIn = (refs: unknown): unknown =>
  Array.isArray(refs) ? refs.filter((ref: unknown) => fieldOf(ref, "check") === undefined) : refs

/** Schemas of some libraries are functions. */
const requireSchema = (place: string, name: "request" | "output" | "chunk", schema: unknown): void => {
  const isSchema =
    (typeof schema === "object" || typeof schema === "function") &&
    schema !== null &&
    ("~standard" in schema || (name === "request" ? "fields" in schema : "ast" in schema))
  if (isSchema) return
  const struct = name === "request" ? "a struct of Effect Schema" : "a schema of Effect Schema"
  throw new TypeError(`${place}: ${name} must be a Standard Schema (Zod, Valibot, ArkType, …) or ${struct}`)
}

const requireFiles = (place: string, files: unknown): void => {
  if (typeof files !== "object" || files === null || Array.isArray(files)) return requireList(place, "files", files)
  checkFileOptions(place, files as Files)
}

const requireDescribed = (place: string, option: string, names: unknown): void => {
  if (names === undefined || typeof names !== "object" || names === null || Array.isArray(names))
    return requireList(place, option, names)
  for (const [name, description] of Object.entries(names))
    if (typeof description !== "string")
      throw new TypeError(`${place}: the description of "${name}" in ${option} must be a string`)
}

const requireList = (place: string, name: string, list: unknown, known?: ReadonlyArray<string>): void => {
  if (list === undefined) return
  if (!Array.isArray(list)) throw new TypeError(`${place}: ${name} must be an array`)
  for (const one of list) {
    if (typeof one !== "string") throw new TypeError(`${place}: ${name} must be an array of strings`)
    if (known !== undefined) requireOneOf(`${place}: ${name.replace(/s$/, "")}`, one, known)
  }
}

const batchNames: OptionNames<BatchOptions> = { size: true, waitMs: true }

/** Parts of an attempt, which a job of a batch does not have. */
const withoutBatch = ["files", "upload", "providers", "orProviders", "chunk"] as const

const maxBatchSize = 1_000
const maxWaitMs = 60_000

/** Throws `TypeError` for an invalid `batch` of a kind, or one together with options that it excludes. */
const checkBatch = (place: string, given: Given): void => {
  const { batch, limits } = given
  if (batch === undefined) return
  requireOptions(`batch of ${place}`, batch, batchNames)
  const { size, waitMs } = batch as Partial<Record<keyof BatchOptions, unknown>>
  requireNumber(`${place}: batch.size`, size, { least: 1, most: maxBatchSize, whole: true })
  requireNumber(`${place}: batch.waitMs`, waitMs, { least: 0, most: maxWaitMs })
  const excluded = withoutBatch.find((name) => given[name] !== undefined)
  if (excluded !== undefined)
    throw new TypeError(`${place}: a kind with batch cannot have ${excluded}: run gets several jobs at once`)
  const concurrency = (limits as { readonly concurrency?: number } | undefined)?.concurrency
  if (concurrency !== undefined && Number(size) > concurrency)
    throw new TypeError(
      `${place}: batch.size must be at most limits.concurrency, ${concurrency}, not ${String(size)}: each job of a batch counts`,
    )
}
