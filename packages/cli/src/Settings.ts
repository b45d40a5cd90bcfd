import { join, resolve } from "node:path"
import type { EngineSettings } from "@kiln/core/effect"
import { type SwitchName, switchNames } from "@kiln/core/domain"
import { defaultHttpSettings, type HttpSettings } from "@kiln/http"
import type { DatabasePlace } from "./database/DatabasePlace.ts"
import { type LogFormat, logFormats } from "./logs/LogFormat.ts"
import { type BlobPlace, blobPlace } from "./settings/blobPlace.ts"
import { databaseSchema, databaseUrl } from "./settings/database.ts"
import {
  backupAge,
  duration,
  forcedOff,
  integer,
  oneOf,
  onOff,
  parsed,
  type ParsedSetting,
  port,
  retention,
  type SettingType,
  stopDelay,
} from "./settings/SettingType.ts"
import { apiKey, modelName, type OpenAiPlace } from "./settings/openAi.ts"
import { likelyName } from "@kiln/core/domain"
import {
  type ManagementPlace,
  managementOf,
  managementProblems,
  managementTypes,
  withoutManagement,
} from "./settings/management.ts"
import { host, publicUrl, rateLimits, signingKeys, trustedProxies } from "./settings/httpSettings.ts"
import { type Environment, findSetting, type GivenSetting } from "./settings/settingFiles.ts"
import { storageCap, uploadCap } from "./settings/caps.ts"

/** Engine settings from the environment; groups may be partial. */
export type NamedEngineSettings = Partial<Omit<EngineSettings, "limits">> & {
  readonly limits?: Partial<EngineSettings["limits"]>
}

/** Validated settings from the environment, with defaults. */
export interface Settings {
  /** Absolute path. */
  readonly dataDirectory: string
  readonly database: DatabasePlace
  readonly blobs: BlobPlace
  /** The part of the service that runs in this process. */
  readonly role: "all" | "api" | "worker"
  readonly http: HttpSettings
  /** Only settings from the environment; a config file may set the others. */
  readonly engine: NamedEngineSettings
  /** Milliseconds for which the service keeps accepting requests after a stop signal, while `/readyz` reports `stopping`. */
  readonly stopDelayMs: number
  /** Retention of the audit log's entries; 0 keeps them. */
  readonly auditRetentionMs: number
  /** The age from which `kiln doctor` reports the last backup; 0 for no check. */
  readonly backupAgeMs: number
  /** When a store without keys gets a first one: only with a terminal, on every start, or never. */
  readonly firstKey: "on" | "print" | "off"
  /** The provider of live jobs, unless the config file sets it. */
  readonly provider: { readonly _tag: "Sandbox" } | OpenAiPlace | undefined
  /** Absolute path of the config file. */
  readonly configPath: string | undefined
  /** The address of `/metrics` and probes; not served if undefined. */
  readonly management: ManagementPlace | undefined
  readonly logFormat: LogFormat
  /** Whether each request is logged. */
  readonly accessLog: boolean
}

/** An invalid setting. */
export interface SettingProblem {
  readonly setting: string
  readonly rule: string
}

export type ReadSettings =
  | {
      readonly ok: true
      readonly settings: Settings
      /** The texts of the settings that were given. */
      readonly given: Readonly<Partial<Record<SettingName, GivenSetting>>>
      /** Warnings about variables without effect. */
      readonly warnings: ReadonlyArray<string>
    }
  | { readonly ok: false; readonly problems: ReadonlyArray<SettingProblem> }

export type { Environment } from "./settings/settingFiles.ts"

const path: SettingType<string> = (text) => parsed(resolve(text))
const seconds =
  (min: number): SettingType<number> =>
  (text) => {
    const count = integer(min, 86_400)(text)
    return count.ok ? parsed(count.value * 1_000) : count
  }
const providerName: SettingType<"openai" | "sandbox"> = (text) => {
  const word = oneOf("openai", "sandbox")(text)
  return word.ok ? word : { ok: false, rule: `${word.rule}, or unset; configure other providers in KILN_CONFIG` }
}

/** A duration of at most ten minutes, after which official clients give up as well. */
const openAiWait: SettingType<number> = (text) => {
  const wait = duration(text)
  return wait.ok && wait.value <= 600_000 ? wait : { ok: false, rule: "must be a duration up to 10m, like 120s" }
}

const projectConcurrency: SettingType<number | "share"> = (text) => {
  const count = integer(0, 1_000_000)(text)
  return text === "share" ? parsed(text) : count.ok ? count : { ok: false, rule: `${count.rule}, or share` }
}

/** All settings by name. */
const types = {
  PORT: port,
  HOST: host,
  PUBLIC_URL: publicUrl,
  KILN_DATA_DIR: path,
  DATABASE_URL: databaseUrl,
  KILN_DATABASE_SCHEMA: databaseSchema,
  KILN_DATABASE_POOL: integer(2, 200),
  KILN_DATABASE_NOTIFICATIONS: onOff,
  KILN_DATABASE_POOLER: oneOf("none", "transaction"),
  KILN_COPIES: oneOf("refuse", "allow"),
  KILN_BLOBS: blobPlace,
  KILN_FILES: oneOf("send", "redirect"),
  KILN_SIGNING_KEYS: signingKeys,
  KILN_ROLE: oneOf("all", "api", "worker"),
  KILN_CONCURRENCY: integer(1, 1_000),
  KILN_PROJECT_CONCURRENCY: projectConcurrency,
  KILN_LEASE_SECONDS: seconds(2),
  KILN_DRAIN_SECONDS: seconds(0),
  KILN_STOP_DELAY: stopDelay,
  KILN_TRUSTED_PROXIES: trustedProxies,
  KILN_RATE_LIMITS: rateLimits,
  KILN_QUEUE_CAP: integer(0, 1_000_000_000),
  KILN_UPLOAD_CAP: uploadCap,
  KILN_STORAGE_CAP: storageCap,
  KILN_DATA_RETENTION: retention,
  KILN_JOB_RETENTION: retention,
  KILN_AUDIT_RETENTION: retention,
  KILN_BACKUP_AGE: backupAge,
  KILN_ORPHAN_GRACE: duration,
  KILN_OPERATOR_REQUESTS: onOff,
  ...managementTypes,
  KILN_LOG_FORMAT: oneOf(...logFormats),
  KILN_ACCESS_LOG: onOff,
  KILN_SWITCH_AI: forcedOff,
  KILN_SWITCH_AUDIO: forcedOff,
  KILN_SWITCH_IMAGES: forcedOff,
  KILN_PROVIDER: providerName,
  KILN_OPENAI_API_KEY: apiKey,
  KILN_OPENAI_BASE_URL: publicUrl,
  KILN_OPENAI_TRANSCRIPTION_MODEL: modelName,
  KILN_OPENAI_SPEECH_MODEL: modelName,
  KILN_OPENAI_REPLY_MODEL: modelName,
  KILN_OPENAI_IMAGE_MODEL: modelName,
  KILN_CONFIG: path,
  KILN_FIRST_KEY: oneOf("on", "print", "off"),
  KILN_PAGES: onOff,
  KILN_PLAYGROUND: onOff,
  KILN_OPENAI_API: onOff,
  KILN_OPENAI_WAIT: openAiWait,
} as const

type ValueOf<Name extends SettingName> =
  ReturnType<(typeof types)[Name]> extends ParsedSetting<infer Value> ? Value : never
type Values = { readonly [Name in SettingName]: ValueOf<Name> | undefined }

export type SettingName = keyof typeof types

/** The names of all settings. */
export const settingNames: ReadonlyArray<string> = Object.keys(types)

const valuesOf = (environment: Environment) => {
  const values: Record<string, unknown> = {}
  const given: Record<string, GivenSetting> = {}
  const problems: Array<SettingProblem> = []
  for (const [setting, type] of Object.entries(types)) {
    const found = findSetting(environment, setting)
    if (!found.ok) {
      problems.push({ setting: found.setting, rule: found.rule })
      continue
    }
    if (found.given === undefined) continue
    given[setting] = found.given
    const value = type(found.given.text)
    if (value.ok) values[setting] = value.value
    else problems.push({ setting, rule: value.rule })
  }
  // Each entry has the type that its name requires.
  return { values: values as Values, given, problems }
}

const switchedOff = (values: Values): ReadonlyArray<SwitchName> => {
  const off = { ai: values.KILN_SWITCH_AI, audio: values.KILN_SWITCH_AUDIO, images: values.KILN_SWITCH_IMAGES }
  return switchNames.filter((name) => off[name] === true)
}

const engineOf = (values: Values): NamedEngineSettings => {
  const off = switchedOff(values)
  const named: Readonly<Record<string, unknown>> = {
    concurrency: values.KILN_CONCURRENCY,
    limits: values.KILN_PROJECT_CONCURRENCY === undefined ? undefined : { perProject: values.KILN_PROJECT_CONCURRENCY },
    leaseDurationMs: values.KILN_LEASE_SECONDS,
    drainMs: values.KILN_DRAIN_SECONDS,
    queueCap: values.KILN_QUEUE_CAP,
    uploadCap: values.KILN_UPLOAD_CAP,
    storageCap: values.KILN_STORAGE_CAP,
    dataRetentionMs: values.KILN_DATA_RETENTION,
    jobRetentionMs: values.KILN_JOB_RETENTION,
    orphanGraceMs: values.KILN_ORPHAN_GRACE,
    operatorSeesRequests: values.KILN_OPERATOR_REQUESTS,
    forcedOff: off.length === 0 ? undefined : off,
  }
  return Object.fromEntries(Object.entries(named).filter(([, value]) => value !== undefined))
}

const databaseOf = (values: Values, dataDirectory: string): DatabasePlace => {
  const copies = values.KILN_COPIES === "allow" ? { allowCopies: true } : {}
  return values.DATABASE_URL === undefined
    ? { _tag: "Sqlite", path: join(dataDirectory, "kiln.db"), ...copies }
    : {
        _tag: "Postgres",
        ...copies,
        url: values.DATABASE_URL,
        schema: values.KILN_DATABASE_SCHEMA ?? "kiln",
        poolSize: values.KILN_DATABASE_POOL ?? 10,
        notifications: values.KILN_DATABASE_NOTIFICATIONS ?? true,
        pooler: values.KILN_DATABASE_POOLER ?? "none",
      }
}

const providerOf = (values: Values): Settings["provider"] => {
  if (values.KILN_PROVIDER !== "openai") return values.KILN_PROVIDER === undefined ? undefined : { _tag: "Sandbox" }
  return {
    _tag: "OpenAi",
    apiKey: values.KILN_OPENAI_API_KEY,
    baseUrl: values.KILN_OPENAI_BASE_URL,
    models: {
      transcription: values.KILN_OPENAI_TRANSCRIPTION_MODEL,
      speech: values.KILN_OPENAI_SPEECH_MODEL,
      reply: values.KILN_OPENAI_REPLY_MODEL,
      image: values.KILN_OPENAI_IMAGE_MODEL,
    },
  }
}

/** Settings of the endpoints under `/openai/v1`, which accept the names of the provider's models. */
const openAiOf = (values: Values): NonNullable<Settings["http"]["openAi"]> => {
  const waitMs = values.KILN_OPENAI_WAIT ?? 120_000
  const provider = providerOf(values)
  if (provider?._tag !== "OpenAi") return { waitMs }
  const { image, speech, transcription } = provider.models
  return { waitMs, models: { transcription, speech_synthesis: speech, image_generation: image } }
}

/** Returns whether the management server would listen where the service does. A worker has no service. */
const portIsTaken = (values: Values): boolean => {
  const management = managementOf(values)
  const { http, role } = settingsOf(values)
  return management?.port === http.port && management.host === http.host && role !== "worker"
}

const defaultAuditRetentionMs = 365 * 86_400_000
const defaultBackupAgeMs = 2 * 86_400_000

const settingsOf = (values: Values): Settings => {
  const dataDirectory = values.KILN_DATA_DIR ?? resolve("data")
  const http = defaultHttpSettings
  return {
    dataDirectory,
    database: databaseOf(values, dataDirectory),
    blobs: values.KILN_BLOBS ?? { _tag: "Directory", path: undefined },
    role: values.KILN_ROLE ?? "all",
    http: {
      host: values.HOST ?? http.host,
      port: values.PORT ?? http.port,
      publicUrl: values.PUBLIC_URL,
      signingKeys: values.KILN_SIGNING_KEYS,
      trustedProxies: values.KILN_TRUSTED_PROXIES ?? http.trustedProxies,
      rateLimits: values.KILN_RATE_LIMITS ?? http.rateLimits,
      pages: values.KILN_PAGES ?? http.pages,
      playground: values.KILN_PLAYGROUND,
      redirectFiles: values.KILN_FILES === "redirect",
      openAi: values.KILN_OPENAI_API === true ? openAiOf(values) : undefined,
    },
    engine: engineOf(values),
    stopDelayMs: values.KILN_STOP_DELAY ?? 0,
    auditRetentionMs: values.KILN_AUDIT_RETENTION ?? defaultAuditRetentionMs,
    backupAgeMs: values.KILN_BACKUP_AGE ?? defaultBackupAgeMs,
    firstKey: values.KILN_FIRST_KEY ?? "on",
    provider: providerOf(values),
    configPath: values.KILN_CONFIG,
    management: managementOf(values),
    logFormat: values.KILN_LOG_FORMAT ?? "text",
    accessLog: values.KILN_ACCESS_LOG ?? false,
  }
}

/** `PORT` and a few others carry no prefix: `KILN_PORT` means one of those. */
const meantName = (name: string): string | undefined => {
  const bare = name.slice("KILN_".length)
  return settingNames.includes(bare) ? bare : likelyName(name, settingNames)
}

/** Variables of `kiln try`, which name a service that this process may not run. */
const clientNames = ["KILN_URL", "KILN_API_KEY"]

const unknownNames = (environment: Environment): ReadonlyArray<string> =>
  Object.keys(environment)
    .filter((name) => name.startsWith("KILN_"))
    .filter((name) => ![...settingNames, ...clientNames].includes(name.replace(/_FILE$/, "")))
    .map((name) => `Unknown setting ${name} is ignored; did you mean ${meantName(name)}?`)

/** Settings of the endpoints that kiln serves, not of its provider. */
const serverSettings: ReadonlySet<string> = new Set(["KILN_OPENAI_API", "KILN_OPENAI_WAIT"])

/** Returns warnings about the variables with this prefix. */
const withoutEffect = (values: Values, prefix: string, reason: string): ReadonlyArray<string> =>
  Object.keys(values)
    .filter((name) => name.startsWith(prefix) && !serverSettings.has(name))
    .map((name) => `${name} has no effect: ${reason}`)

/** Reads all settings from the environment, and reports all invalid ones at once. */
export const readSettings = (environment: Environment): ReadSettings => {
  const { given, problems, values } = valuesOf(environment)
  // Only S3 serves files itself.
  if (values.KILN_FILES === "redirect" && values.KILN_BLOBS?._tag !== "S3")
    problems.push({ setting: "KILN_FILES", rule: "can be redirect only with KILN_BLOBS=s3://bucket/prefix" })
  if (values.KILN_BLOBS?._tag === "Postgres" && values.DATABASE_URL === undefined)
    problems.push({ setting: "KILN_BLOBS", rule: "can be postgres only with DATABASE_URL=postgres://…" })
  problems.push(...managementProblems(values))
  // A socket from systemd replaces HOST and PORT.
  if (portIsTaken(values) && environment["LISTEN_FDS"] === undefined)
    problems.push({ setting: "KILN_MANAGEMENT_PORT", rule: "must differ from PORT" })
  if (problems.length > 0) return { ok: false, problems }
  const warnings = [
    ...unknownNames(environment),
    ...(values.DATABASE_URL === undefined
      ? withoutEffect(values, "KILN_DATABASE_", "DATABASE_URL is not a Postgres database")
      : []),
    ...(values.KILN_PROVIDER === "openai" ? [] : withoutEffect(values, "KILN_OPENAI_", "KILN_PROVIDER is not openai")),
    ...withoutManagement(values),
  ]
  return { ok: true, settings: settingsOf(values), given, warnings }
}
