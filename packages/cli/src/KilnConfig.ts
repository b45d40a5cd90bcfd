import type { AnyProvider } from "@kiln/core"
import { defaultEngineSettings, type EngineSettings, wholeKind } from "@kiln/core/effect"
import { builtInKinds, defaultVoices, type JobKind, type Kind, portsOf, type Voices } from "@kiln/core/kinds"
import { type ProviderName, providerNames, rateProblem } from "@kiln/core/providers"
import type { NamedEngineSettings } from "./Settings.ts"

/**
 * The default export of the file named by `KILN_CONFIG`: settings that do not fit into a variable. If a variable and this
 * file set the same thing, the variable takes precedence.
 */
export interface KilnConfig {
  /** The providers of live jobs, as functions (request, call). Sandbox jobs never reach them. */
  readonly providers?: { readonly [Name in ProviderName]?: AnyProvider<Name> | undefined } & {
    /** The provider of a port of one of `kinds`. */
    readonly [name: string]: unknown
  }
  /** Public voice names, and the provider's voice for each. */
  readonly voices?: Voices
  /**
   * Job kinds of your own, as `jobKind` returns them, which `kiln serve` runs beside the built-in ones. Their jobs come from programs that
   * embed the engine on the same store, and from schedules; `/v1` does not offer them.
   */
  readonly kinds?: ReadonlyArray<Kind>
  /** Limits of the engine; durations in milliseconds. */
  readonly engine?: EngineOverrides
}

/** Any part of the engine's settings. */
export type EngineOverrides = {
  readonly [Name in keyof EngineSettings]?: Name extends
    | "upload"
    | "uploadCap"
    | "storageCap"
    | "attempts"
    | "limits"
    | "circuit"
    ? Partial<EngineSettings[Name]>
    : Name extends "providers"
      ? { readonly [Provider in ProviderName]?: Partial<EngineSettings["providers"][Provider]> }
      : EngineSettings[Name]
}

type Fields = Readonly<Record<string, unknown>>
const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const unknownFields = (fields: Fields, known: ReadonlyArray<string>, prefix: string): ReadonlyArray<string> =>
  Object.keys(fields)
    .filter((name) => !known.includes(name))
    .map((name) => `${prefix}${name} is unknown; known: ${known.join(", ")}`)

const providerProblems = (providers: unknown, known: ReadonlyArray<string>): ReadonlyArray<string> => {
  if (!isFields(providers)) return ["providers must be an object"]
  const names = [...new Set(known)]
  return [
    ...unknownFields(providers, names, "providers."),
    ...names.flatMap((name) =>
      providers[name] === undefined || typeof providers[name] === "function"
        ? []
        : [`providers.${name} must be a function (request, call)`],
    ),
  ]
}

const voiceProblems = (voices: unknown): ReadonlyArray<string> => {
  const byName = isFields(voices) ? voices["byName"] : undefined
  if (!isFields(voices) || !isFields(byName)) return ["voices must be {byName, default}"]
  return [
    ...unknownFields(voices, Object.keys(defaultVoices), "voices."),
    ...(Object.values(byName).every((voice) => typeof voice === "string" && voice !== "")
      ? []
      : ["voices.byName must map names to the provider's voices"]),
    ...(typeof voices["default"] === "string" && Object.hasOwn(byName, voices["default"])
      ? []
      : ["voices.default must be one of the names of voices.byName"]),
  ]
}

/** Checks that every setting has the type of its default, and that numbers are non-negative. */
const boundProblems = (given: unknown, defaults: Fields, prefix: string): ReadonlyArray<string> => {
  if (!isFields(given)) return [`${prefix} must be an object`]
  return [
    ...unknownFields(given, Object.keys(defaults), `${prefix}.`),
    ...Object.entries(defaults).flatMap(([name, usual]) => {
      const value = given[name]
      const at = `${prefix}.${name}`
      if (value === undefined) return []
      if (isFields(usual)) return boundProblems(value, usual, at)
      if (typeof usual === "number")
        return Number.isFinite(value) && Number(value) >= 0 ? [] : [`${at} must be a non-negative number`]
      return typeof value === typeof usual && Array.isArray(value) === Array.isArray(usual)
        ? []
        : [`${at} must be ${Array.isArray(usual) ? "a list" : `a ${typeof usual}`}`]
    }),
  ]
}

/** Minimum values that a worker needs. */
const least = { concurrency: 1, leaseDurationMs: 2_000 } as const

const tooLittle = (engine: Fields): ReadonlyArray<string> =>
  Object.entries(least)
    .filter(([name, minimum]) => Number(engine[name] ?? minimum) < minimum)
    .map(([name, minimum]) => `engine.${name} must be at least ${minimum}`)

const isWhole = (value: unknown, minimum: number): boolean => Number.isSafeInteger(value) && Number(value) >= minimum

/** Checks the concurrency limits. A limit of 0 would keep the jobs of a kind until they time out. */
const limitProblems = (limits: unknown, own: ReadonlyArray<string>): ReadonlyArray<string> => {
  if (!isFields(limits)) return ["engine.limits must be an object"]
  const { perKind = {}, perProject = "share" } = limits
  const kinds = [...builtInKinds().map(({ name }) => name), ...own]
  return [
    ...unknownFields(limits, Object.keys(defaultEngineSettings.limits), "engine.limits."),
    ...(isFields(perKind)
      ? [
          ...unknownFields(perKind, kinds, "engine.limits.perKind."),
          ...Object.keys(perKind).flatMap((kind) =>
            isWhole(perKind[kind], 1) ? [] : [`engine.limits.perKind.${kind} must be a positive integer`],
          ),
        ]
      : ["engine.limits.perKind must be an object"]),
    ...(perProject === "share" || isWhole(perProject, 0)
      ? []
      : ['engine.limits.perProject must be "share" or a non-negative integer; 0 means no limit']),
  ]
}

/** Minimum in milliseconds. No provider is faster: a smaller value was probably meant as seconds, or 0 as no limit, and every call would fail. */
const leastCallLimitMs = 1_000

/** Checks the limits of providers. Concurrency must be an integer, because a fraction below 1 would allow no call. */
const providerBoundProblems = (providers: unknown): ReadonlyArray<string> =>
  Object.entries(isFields(providers) ? providers : {}).flatMap(([provider, bounds]) => {
    const { callLimitMs, concurrency, rate } = isFields(bounds) ? bounds : {}
    const problem = rate === undefined ? undefined : rateProblem(rate)
    return [
      ...(problem === undefined ? [] : [`engine.providers.${provider}.rate ${problem}`]),
      ...(typeof concurrency === "number" && concurrency > 0 && !isWhole(concurrency, 1)
        ? [`engine.providers.${provider}.concurrency must be a non-negative integer; 0 means no limit`]
        : []),
      ...(typeof callLimitMs === "number" && callLimitMs >= 0 && callLimitMs < leastCallLimitMs
        ? [`engine.providers.${provider}.callLimitMs must be at least ${leastCallLimitMs}`]
        : []),
    ]
  })

/** Leaves out the rates of providers, of which the defaults have none. */
const withoutRates = (engine: Fields): Fields => {
  const { providers } = engine
  if (!isFields(providers)) return engine
  const bounds = Object.entries(providers).map(([name, bound]) => [
    name,
    isFields(bound) ? Object.fromEntries(Object.entries(bound).filter(([field]) => field !== "rate")) : bound,
  ])
  return { ...engine, providers: Object.fromEntries(bounds) }
}

const engineProblems = (engine: unknown, own: ReadonlyArray<string>): ReadonlyArray<string> => {
  if (!isFields(engine)) return ["engine must be an object"]
  // The kinds in it are not fields of the defaults.
  const { limits, ...bounds } = engine
  return [
    ...boundProblems(withoutRates(bounds), { ...defaultEngineSettings }, "engine"),
    ...(limits === undefined ? [] : limitProblems(limits, own)),
    ...tooLittle(engine),
    ...providerBoundProblems(engine["providers"]),
  ]
}

/** Reads the list of kinds: the kinds, and what is wrong with them. */
const readKinds = (
  kinds: unknown,
): { readonly own: ReadonlyArray<JobKind>; readonly problems: ReadonlyArray<string> } => {
  if (kinds === undefined) return { own: [], problems: [] }
  if (!Array.isArray(kinds)) return { own: [], problems: ["kinds must be a list of kinds made with jobKind()"] }
  const taken: Array<string> = builtInKinds().map(({ name }) => name)
  const own: Array<JobKind> = []
  const problems: Array<string> = []
  for (const [index, given] of kinds.entries()) {
    try {
      const kind = wholeKind(given as Kind)
      if (taken.includes(kind.name)) problems.push(`kinds[${index}]: the name ${kind.name} is taken`)
      else own.push(kind)
      taken.push(kind.name)
    } catch (error) {
      problems.push(`kinds[${index}]: ${error instanceof TypeError ? error.message : "is not a kind"}`)
    }
  }
  return { own, problems }
}

/** Returns the kinds of this process: the built-in ones, and those of the config file. */
export const configuredKinds = ({ kinds = [], voices = defaultVoices }: KilnConfig): ReadonlyArray<JobKind> => [
  ...builtInKinds(voices),
  ...kinds.map(wholeKind),
]

/** Returns the problems of a config file's default export; empty if it is a valid `KilnConfig`. */
export const configProblems = (exported: unknown): ReadonlyArray<string> => {
  if (!isFields(exported)) return ["its default export must be an object"]
  const { engine, kinds, providers, voices } = exported
  const { own, problems } = readKinds(kinds)
  const names = own.map(({ name }) => name)
  return [
    ...unknownFields(exported, ["providers", "voices", "kinds", "engine"], ""),
    ...problems,
    ...(providers === undefined
      ? []
      : providerProblems(providers, [...providerNames, ...portsOf(own).map(({ name }) => name)])),
    ...(voices === undefined ? [] : voiceProblems(voices)),
    ...(engine === undefined ? [] : engineProblems(engine, names)),
  ]
}

/** Merges the defaults, the config file and the environment, in ascending precedence. */
export const engineSettings = (config: KilnConfig, environment: NamedEngineSettings): EngineSettings => ({
  ...defaultEngineSettings,
  ...config.engine,
  ...environment,
  upload: { ...defaultEngineSettings.upload, ...config.engine?.upload },
  uploadCap: { ...defaultEngineSettings.uploadCap, ...config.engine?.uploadCap, ...environment.uploadCap },
  storageCap: { ...defaultEngineSettings.storageCap, ...config.engine?.storageCap, ...environment.storageCap },
  attempts: { ...defaultEngineSettings.attempts, ...config.engine?.attempts },
  limits: { ...defaultEngineSettings.limits, ...config.engine?.limits, ...environment.limits },
  circuit: { ...defaultEngineSettings.circuit, ...config.engine?.circuit },
  providers: {
    ...defaultEngineSettings.providers,
    ...Object.fromEntries(
      providerNames.map((name) => [
        name,
        { ...defaultEngineSettings.providers[name], ...config.engine?.providers?.[name] },
      ]),
    ),
  },
})
