import {
  type JobMode,
  type OptionNames,
  type Principal,
  type ProjectId,
  requireFlag,
  requireOneOf,
  requireOptions,
  requireProviderNames,
} from "../domain/index.ts"
import { isPlainObject, unknownName } from "../domain/givenValues.ts"
import { defaultEngineSettings } from "../engine/EngineConfig.ts"
import type { EngineSettings } from "../engine/EngineSettings.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { portsOf } from "../kinds/installedKinds.ts"
import type { JobEventType } from "../engine/JobEvent.ts"
import type { Kind } from "../kinds/KindDefinition.ts"
import type { StoreAdapter } from "../ports/adapters.ts"
import type { AbortOption, ProjectOption } from "./CallOptions.ts"
import type { DrainOptions, EmbeddedEngine, Submission, SubmitOptions, WaitOptions } from "./EmbeddedEngine.ts"
import type { FollowUpOptions } from "./AttemptTypes.ts"
import type { CallerContext, EngineParts, LogOptions, ModeProviders } from "./EngineOptions.ts"
import type {
  BulkOptions,
  JobFilter,
  ListQuery,
  NewStart,
  OperatorVerbs,
  ProjectLimits,
  RequestOptions,
  SpendCapAmounts,
} from "./OperatorVerbs.ts"
import type { RunNowOptions, ScheduleOptions } from "./ScheduleVerbs.ts"

// The options of each call, checked at run time for JavaScript programs and for spreads that hide names from the compiler.

const engineOptions: OptionNames<
  EngineParts<Kind, StoreAdapter, boolean> & { readonly providers?: ModeProviders<object> }
> = {
  store: true,
  blobs: true,
  kinds: true,
  probe: true,
  settings: true,
  mode: true,
  worker: true,
  autoStart: true,
  log: true,
  onAttemptFailed: true,
  context: true,
  telemetry: true,
  onFinished: true,
  providers: true,
}

/** What every engine needs, with an example. */
const needed = [
  ["store", "such as sqliteStore({ path })"],
  ["kinds", "the job kinds it runs: your own, made with jobKind(), or builtInKinds()"],
] as const

const modeNames: OptionNames<ModeProviders<object>> = { sandbox: true, live: true }

const submission: OptionNames<SubmitOptions> = {
  project: true,
  idempotencyKey: true,
  mode: true,
  priority: true,
  delayMs: true,
  runAt: true,
  unique: true,
  tags: true,
  metadata: true,
  after: true,
  onPrerequisiteFailure: true,
}
const logOptions: OptionNames<LogOptions> = { messages: true, to: true }
const contextOptions: OptionNames<CallerContext> = { capture: true, restore: true }
export const submissionFields: OptionNames<Submission<unknown>> = { ...submission, request: true }
const waiting: OptionNames<WaitOptions> = { project: true, signal: true, timeoutMs: true }
const call: OptionNames<ProjectOption & AbortOption> = { project: true, signal: true }
const abort: OptionNames<AbortOption> = { signal: true }

type OptionsOf<Verb> = Verb extends (...given: infer Given) => unknown ? NonNullable<Given[number]> : never

export const verbOptions = {
  submit: { ...submission, signal: true, transaction: true },
  submitSync: { ...submission, transaction: true },
  submitMany: { signal: true, transaction: true },
  submitManySync: { transaction: true },
  get: call,
  wait: waiting,
  submitAndWait: { ...submission, ...waiting },
  signal: { ...call, transaction: true },
  signalSync: { project: true, transaction: true },
  stream: { ...call, from: true },
  eraseData: call,
  createUpload: { ...call, mode: true },
  receiveUpload: abort,
  readFile: abort,
  streamFile: abort,
  events: abort,
} as const satisfies { readonly [Verb in keyof EmbeddedEngine]?: Readonly<Record<string, true>> }

export const scheduleOptions: OptionNames<ScheduleOptions<Kind>> = {
  kind: true,
  request: true,
  cron: true,
  timeZone: true,
  everyMs: true,
  project: true,
  mode: true,
  priority: true,
  missed: true,
  overlap: true,
  tags: true,
  jitterMs: true,
  endsAt: true,
}
export const runNowOptions: OptionNames<RunNowOptions> = {
  idempotencyKey: true,
  signal: true,
}

export const uploadFields: OptionNames<Parameters<EmbeddedEngine["createUpload"]>[0]> = {
  format: true,
  declaredSeconds: true,
}
export const drainOptions: OptionNames<DrainOptions> = { maxMs: true, maxJobs: true, signal: true }
export const stopOptions: OptionNames<OptionsOf<EmbeddedEngine["stop"]>> = { drainMs: true }

export const jobFilter: OptionNames<JobFilter> = {
  project: true,
  kind: true,
  mode: true,
  status: true,
  keyId: true,
  errorCode: true,
  createdFrom: true,
  createdTo: true,
  tags: true,
  metadata: true,
  olderThanMs: true,
}
export const listQuery: OptionNames<ListQuery> = { ...jobFilter, after: true, limit: true }
export const newStart: OptionNames<NewStart> = { delayMs: true, runAt: true, priority: true }
export const bulkOptions: OptionNames<BulkOptions> = { dryRun: true, limit: true, after: true }
export const countQuestion: OptionNames<OptionsOf<OperatorVerbs<Kind>["count"]>> = {
  finishedWithinMs: true,
  project: true,
  tags: true,
  metadata: true,
}
export const queueQuestion: OptionNames<OptionsOf<OperatorVerbs<Kind>["measureQueue"]>> = { project: true }
export const requestOptions: OptionNames<RequestOptions> = { by: true }
export const priceOptions: OptionNames<OptionsOf<OperatorVerbs<Kind>["setPrice"]>> = {
  name: true,
  currency: true,
  unitAmounts: true,
  active: true,
}
export const spendCapOptions: OptionNames<SpendCapAmounts> = { currency: true, day: true, month: true }
export const projectLimitOptions: OptionNames<ProjectLimits> = { concurrency: true }
export const adoptionOptions: OptionNames<OptionsOf<OperatorVerbs<Kind>["adoptCopy"]>> = { unfinished: true }
export const followUpOptions: OptionNames<FollowUpOptions> = {
  priority: true,
  delayMs: true,
  tags: true,
  metadata: true,
}
export const retryOptions: OptionNames<{ readonly from?: "start"; readonly request?: unknown }> = {
  from: true,
  request: true,
}
export const periodOptions: OptionNames<OptionsOf<OperatorVerbs<Kind>["listCharges"]>> = { from: true, to: true }

export const eventTypes: { readonly [Type in JobEventType]: true } = {
  queued: true,
  active: true,
  progress: true,
  attempt_failed: true,
  completed: true,
  failed: true,
  erased: true,
}

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
  if (isPlainObject(options)) {
    const misplaced = Object.keys(options).find(
      (name) => !Object.hasOwn(engineOptions, name) && Object.hasOwn(defaultEngineSettings, name),
    )
    if (misplaced !== undefined)
      throw new TypeError(`"${misplaced}" is a setting: write createEngine({ settings: { ${misplaced}: … } })`)
  }
  requireOptions("createEngine()", options, engineOptions)
  const given: { readonly [Name in keyof typeof engineOptions]?: unknown } = options
  const missing = needed.filter(([name]) => given[name] === undefined)
  if (missing.length > 0)
    throw new TypeError(
      `createEngine() lacks ${missing.map(([name, example]) => `${name} (${example})`).join(" and ")}`,
    )
  if (!Array.isArray(given.kinds)) {
    const remedy = typeof given.kinds === "function" ? ", not a function: call it" : ", such as kinds: [mail]"
    throw new TypeError(`kinds must be an array${remedy}`)
  }
  if (given.mode !== undefined) requireMode(given.mode)
  requireFlag("worker", given.worker)
  requireFlag("autoStart", given.autoStart)
  checkLog(given.log)
  for (const name of ["onAttemptFailed", "onFinished"] as const)
    if (given[name] !== undefined && typeof given[name] !== "function")
      throw new TypeError(`${name} must be a function`)
  if (given.context !== undefined) checkContext(given.context)
}

const checkLog = (log: unknown): void => {
  if (log === undefined || log === false || typeof log === "function") return
  if (!isPlainObject(log)) throw new TypeError("log must be a function, an object with messages and to, or false")
  requireOptions("log", log, logOptions)
  const { messages, to } = log as { readonly [Name in keyof typeof logOptions]?: unknown }
  requireFlag("log.messages", messages)
  if (to !== undefined && typeof to !== "function") throw new TypeError("log.to must be a function")
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

/** Throws `TypeError` for batches that can never fill: each job of a batch takes a slot. */
export const checkBatches = (
  { concurrency, limits: { perKind } }: Pick<EngineSettings, "concurrency" | "limits">,
  kinds: ReadonlyArray<JobKind>,
): void => {
  for (const { batch, name } of kinds) {
    if (batch === undefined) continue
    const { size } = batch
    if (size > concurrency)
      throw new TypeError(
        `job kind "${name}": batch.size must be at most settings.concurrency, ${concurrency}, not ${size}: each job of a batch takes a slot of the worker`,
      )
    const limit = new Map(Object.entries(perKind)).get(name)
    if (limit !== undefined && size > limit)
      throw new TypeError(
        `job kind "${name}": batch.size must be at most settings.limits.perKind["${name}"], ${limit}, not ${size}: each job of a batch counts`,
      )
  }
}

/** Throws `TypeError` unless this is an idempotency key. */
export const requireIdempotencyKey = (key: unknown): void => {
  if (typeof key !== "string" || !/^[\x21-\x7e]{1,255}$/.test(key))
    throw new TypeError("idempotencyKey must be a text of 1 to 255 visible ASCII characters without spaces")
}

/**
 * Returns the options of a call, `{}` by default. `ids.map(engine.get)` passes an index and the array, which are ignored. Throws
 * `TypeError` for anything else that is not an object with these options.
 */
export const callOptions = <Options extends object>(
  place: string,
  names: Readonly<Record<string, true>>,
  given: Options | undefined,
  rest: ReadonlyArray<unknown>,
): Partial<Options> => {
  if (given === undefined || (typeof given === "number" && Array.isArray(rest[0]))) return {}
  requireOptions(place, given, names)
  return given
}

const plainName = /^[A-Za-z0-9_-]{1,64}$/

/**
 * Returns the id of a named project, by default `embedded`. Rejects names that look like an id, because two names would then mean
 * one project.
 */
export const projectIdOf = (name = "embedded"): ProjectId => {
  if (typeof name !== "string" || !plainName.test(name) || name.startsWith("prj_"))
    throw new TypeError(
      'a project name must be 1 to 64 letters, digits, hyphens or underscores, and must not start with "prj_"',
    )
  return `prj_${name}`
}

/** Does the same for queries, which may also name a project by its id. */
export const projectAskedFor = (nameOrId?: string): ProjectId =>
  projectIdOf(nameOrId?.startsWith("prj_") === true ? nameOrId.slice(4) : nameOrId)

/** Returns the program's principal in one of its projects. Modes are separate, as everywhere. */
export const callerOf = (mode: JobMode, project: string | undefined, scopes: ReadonlyArray<string>): Principal => {
  const projectId = projectIdOf(project)
  return { projectId, keyId: `key_${projectId.slice(4)}_${mode}`, mode, scopes }
}
