import type { EngineSettings } from "@kiln/core/effect"
import { engineSettings, type KilnConfig } from "../KilnConfig.ts"
import type { ReadSettings, SettingName, Settings } from "../Settings.ts"
import { durationText } from "./SettingType.ts"
import type { GivenSetting } from "./settingFiles.ts"

/** A setting with its value in effect, and where that comes from. */
export interface EffectiveSetting {
  /** A variable, or a path in the file named by `KILN_CONFIG`: `engine.attempts`. */
  readonly setting: string
  /** Secrets are redacted; `null` if it is unset and has no default. */
  readonly value: string | null
  readonly source: "default" | "environment" | "file" | "config"
  /** The file of a setting that comes from one. */
  readonly file: string | null
}

/** The value of each setting that is not given, as the variable would spell it; `null` where unset means nothing is done. */
const defaults: Readonly<Record<SettingName, (settings: Settings, engine: EngineSettings) => string | null>> = {
  PORT: ({ http }) => String(http.port),
  HOST: ({ http }) => http.host,
  PUBLIC_URL: ({ http }) => http.publicUrl ?? `http://127.0.0.1:${http.port}`,
  KILN_DATA_DIR: ({ dataDirectory }) => dataDirectory,
  DATABASE_URL: () => null,
  KILN_DATABASE_SCHEMA: () => "kiln",
  KILN_DATABASE_POOL: () => "10",
  KILN_DATABASE_NOTIFICATIONS: () => "on",
  KILN_DATABASE_POOLER: () => "none",
  KILN_COPIES: () => "refuse",
  KILN_BLOBS: () => "file:",
  KILN_FILES: () => "send",
  KILN_SIGNING_KEYS: () => null,
  KILN_ROLE: ({ role }) => role,
  KILN_CONCURRENCY: (_, { concurrency }) => String(concurrency),
  KILN_PROJECT_CONCURRENCY: (_, { limits }) => String(limits.perProject),
  KILN_LEASE_SECONDS: (_, { leaseDurationMs }) => String(leaseDurationMs / 1_000),
  KILN_DRAIN_SECONDS: (_, { drainMs }) => String(drainMs / 1_000),
  KILN_STOP_DELAY: ({ stopDelayMs }) => durationText(stopDelayMs),
  KILN_TRUSTED_PROXIES: () => null,
  KILN_RATE_LIMITS: () => "default",
  KILN_QUEUE_CAP: (_, { queueCap }) => String(queueCap),
  KILN_UPLOAD_CAP: (_, { uploadCap }) => `${uploadCap.uploads},${uploadCap.bytes}`,
  KILN_STORAGE_CAP: (_, { storageCap }) => `test=${storageCap.sandbox},live=${storageCap.live}`,
  KILN_DATA_RETENTION: (_, { dataRetentionMs }) => durationText(dataRetentionMs),
  KILN_JOB_RETENTION: (_, { jobRetentionMs }) => durationText(jobRetentionMs),
  KILN_AUDIT_RETENTION: ({ auditRetentionMs }) => durationText(auditRetentionMs),
  KILN_BACKUP_AGE: ({ backupAgeMs }) => durationText(backupAgeMs),
  KILN_ORPHAN_GRACE: (_, { orphanGraceMs }) => durationText(orphanGraceMs),
  KILN_OPERATOR_REQUESTS: (_, { operatorSeesRequests }) => (operatorSeesRequests ? "on" : "off"),
  KILN_MANAGEMENT_PORT: () => null,
  KILN_MANAGEMENT_HOST: () => "127.0.0.1",
  KILN_MANAGEMENT_TOKEN: () => null,
  KILN_DASHBOARD: () => "on",
  KILN_LOG_FORMAT: ({ logFormat }) => logFormat,
  KILN_ACCESS_LOG: ({ accessLog }) => (accessLog ? "on" : "off"),
  KILN_SWITCH_AI: () => null,
  KILN_SWITCH_AUDIO: () => null,
  KILN_SWITCH_IMAGES: () => null,
  KILN_PROVIDER: () => null,
  KILN_OPENAI_API_KEY: () => null,
  KILN_OPENAI_BASE_URL: () => null,
  KILN_OPENAI_TRANSCRIPTION_MODEL: () => null,
  KILN_OPENAI_SPEECH_MODEL: () => null,
  KILN_OPENAI_REPLY_MODEL: () => null,
  KILN_OPENAI_IMAGE_MODEL: () => null,
  KILN_CONFIG: () => null,
  KILN_FIRST_KEY: ({ firstKey }) => firstKey,
  KILN_OPENAI_API: ({ http }) => (http.openAi === undefined ? "off" : "on"),
  KILN_OPENAI_WAIT: ({ http }) => durationText(http.openAi?.waitMs ?? 120_000),
  KILN_PAGES: ({ http }) => (http.pages ? "on" : "off"),
  KILN_PLAYGROUND: () => null,
}

/** The setting of the engine that a variable overrides. */
const engineNames: Readonly<Partial<Record<SettingName, keyof EngineSettings>>> = {
  KILN_CONCURRENCY: "concurrency",
  KILN_PROJECT_CONCURRENCY: "limits",
  KILN_OPERATOR_REQUESTS: "operatorSeesRequests",
  KILN_LEASE_SECONDS: "leaseDurationMs",
  KILN_DRAIN_SECONDS: "drainMs",
  KILN_QUEUE_CAP: "queueCap",
  KILN_UPLOAD_CAP: "uploadCap",
  KILN_STORAGE_CAP: "storageCap",
  KILN_DATA_RETENTION: "dataRetentionMs",
  KILN_JOB_RETENTION: "jobRetentionMs",
  KILN_ORPHAN_GRACE: "orphanGraceMs",
}

const hidden = "***"

/** Hides the password of a URL, wherever it may stand in it. */
const withoutPassword = (text: string): string => {
  if (!text.includes("://")) return text
  const url = URL.parse(text)
  if (url === null) return hidden
  if (url.password !== "") url.password = hidden
  for (const [name, value] of Array.from(url.searchParams))
    url.searchParams.set(name, /pass|secret|token|key|credential/i.test(name) ? hidden : withoutPassword(value))
  return url.href.replaceAll(encodeURIComponent(hidden), hidden)
}

const redact = (setting: string, text: string): string => {
  switch (setting) {
    case "KILN_OPENAI_API_KEY":
    case "KILN_MANAGEMENT_TOKEN":
      return hidden
    case "KILN_SIGNING_KEYS":
      return text
        .split(",")
        .map((entry) => `${entry.split(":", 1)[0]?.trim()}:${hidden}`)
        .join()
    case "DATABASE_URL":
    case "KILN_BLOBS":
      return withoutPassword(text)
    default:
      return text
  }
}

const givenSetting = (setting: string, { origin, text }: GivenSetting): EffectiveSetting => ({
  setting,
  value: redact(setting, text),
  source: origin._tag === "Variable" ? "environment" : "file",
  file: origin._tag === "Variable" ? null : origin.path,
})

/** Whether the config file sets what this variable would. Of the limits, only the one for projects has a variable. */
const isConfigured = (setting: SettingName, { engine }: KilnConfig): boolean => {
  const name = engineNames[setting]
  if (name === undefined || engine?.[name] === undefined) return false
  return name !== "limits" || engine.limits?.perProject !== undefined
}

/** Settings that only the config file can contain. Functions and other code are named, not printed. */
const configOnly = ({ engine = {}, providers = {}, voices }: KilnConfig): ReadonlyArray<readonly [string, string]> => [
  ...Object.entries(engine)
    .filter(([name]) => name === "limits" || !Object.values(engineNames).some((known) => known === name))
    .map(([name, value]) => [`engine.${name}`, JSON.stringify(value)] as const),
  ...(Object.keys(providers).length === 0 ? [] : [["providers", Object.keys(providers).join()] as const]),
  ...(voices === undefined ? [] : [["voices", Object.keys(voices.byName).join()] as const]),
]

/** Lists every setting with its value in effect. */
export const effectiveSettings = (
  { given, settings }: Extract<ReadSettings, { readonly ok: true }>,
  config: KilnConfig,
): ReadonlyArray<EffectiveSetting> => {
  const engine = engineSettings(config, settings.engine)
  const { configPath = null } = settings
  return [
    ...(Object.keys(defaults) as ReadonlyArray<SettingName>).map((setting): EffectiveSetting => {
      const known = given[setting]
      if (known !== undefined) return givenSetting(setting, known)
      const value = defaults[setting](settings, engine)
      return isConfigured(setting, config)
        ? { setting, value, source: "config", file: configPath }
        : { setting, value, source: "default", file: null }
    }),
    ...configOnly(config).map(([setting, value]): EffectiveSetting => ({
      setting,
      value,
      source: "config",
      file: configPath,
    })),
  ]
}
