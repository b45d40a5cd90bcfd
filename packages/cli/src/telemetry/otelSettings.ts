import type { Environment } from "../settings/settingFiles.ts"
import { findSetting } from "../settings/settingFiles.ts"
import type { SettingProblem } from "../Settings.ts"
import { parseSampler, type Sampler } from "./sampler.ts"

const signals = ["TRACES", "METRICS", "LOGS"] as const
export type Signal = (typeof signals)[number]
export type Protocol = "http/protobuf" | "http/json"

/** The settings from the `OTEL_*` variables. */
export interface OtelSettings {
  /** The signals to export, each with its protocol. */
  readonly exports: ReadonlyMap<Signal, Protocol>
  readonly sampler: Sampler
  /** The variables for the exporters, with defaults, and with the contents of files. */
  readonly variables: Readonly<Record<string, string>>
}

export type ReadOtel =
  | { readonly ok: true; readonly settings: OtelSettings | undefined }
  | { readonly ok: false; readonly problems: ReadonlyArray<SettingProblem> }

/** The variables that this process reads. Exporters read no others. */
const variableNames: ReadonlyArray<string> = [
  "OTEL_SDK_DISABLED",
  "OTEL_SERVICE_NAME",
  "OTEL_SERVICE_VERSION",
  "OTEL_RESOURCE_ATTRIBUTES",
  "OTEL_TRACES_SAMPLER",
  "OTEL_TRACES_SAMPLER_ARG",
  "OTEL_BSP_SCHEDULE_DELAY",
  "OTEL_BSP_EXPORT_TIMEOUT",
  "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
  "OTEL_BLRP_SCHEDULE_DELAY",
  "OTEL_BLRP_EXPORT_TIMEOUT",
  "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE",
  "OTEL_METRIC_EXPORT_INTERVAL",
  "OTEL_METRIC_EXPORT_TIMEOUT",
  ...["", ...signals.map((signal) => `${signal}_`)].flatMap((part) =>
    ["ENDPOINT", "HEADERS", "PROTOCOL", "COMPRESSION", "TIMEOUT"].map((end) => `OTEL_EXPORTER_OTLP_${part}${end}`),
  ),
  "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
  ...signals.map((signal) => `OTEL_${signal}_EXPORTER`),
]

const pairs = /^[^=,\s]+\s*=[^,]*(,\s*[^=,\s]+\s*=[^,]*)*,?$/
const whole = /^\d{1,9}$/
const isHttpUrl = (text: string): boolean => URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)

/** The rule of each variable, by the end of its name. */
const rules: ReadonlyArray<readonly [name: RegExp, isValid: (text: string) => boolean, rule: string]> = [
  [/_ENDPOINT$/, isHttpUrl, "must be an http or https URL"],
  [
    /_PROTOCOL$/,
    (text) => text === "http/protobuf" || text === "http/json",
    "must be http/protobuf or http/json; gRPC is not supported",
  ],
  [/_(TRACES|METRICS|LOGS)_EXPORTER$/, (text) => text === "otlp" || text === "none", "must be otlp or none"],
  [/_(HEADERS|RESOURCE_ATTRIBUTES)$/, (text) => pairs.test(text), "must be a list like name=value,name2=value2"],
  [/_COMPRESSION$/, (text) => text === "gzip" || text === "none", "must be gzip or none"],
  [/_(TIMEOUT|INTERVAL|DELAY|SIZE)$/, (text) => whole.test(text), "must be an integer"],
  [/_TEMPORALITY_PREFERENCE$/, (text) => text === "delta" || text === "cumulative", "must be delta or cumulative"],
  [/^OTEL_SDK_DISABLED$/, (text) => text === "true" || text === "false", "must be true or false"],
]

/** Reads the variables. Nothing is exported unless one of them names an endpoint or an exporter. */
export const readOtel = (environment: Environment): ReadOtel => {
  const variables: Record<string, string> = {}
  const problems: Array<SettingProblem> = []
  for (const name of variableNames) {
    const found = findSetting(environment, name)
    if (!found.ok) problems.push({ setting: found.setting, rule: found.rule })
    else if (found.given !== undefined) variables[name] = found.given.text
  }
  if (variables["OTEL_SDK_DISABLED"] === "true") return { ok: true, settings: undefined }
  const exported = signals.filter((signal) => isExported(variables, signal))
  if (exported.length === 0) return problems.length === 0 ? { ok: true, settings: undefined } : { ok: false, problems }
  for (const [name, text] of Object.entries(variables)) {
    const broken = rules.find(([names, isValid]) => names.test(name) && !isValid(text))
    if (broken !== undefined) problems.push({ setting: name, rule: broken[2] })
  }
  const sampler = parseSampler(variables["OTEL_TRACES_SAMPLER"], variables["OTEL_TRACES_SAMPLER_ARG"])
  if ("rule" in sampler) problems.push(sampler)
  if (problems.length > 0 || "rule" in sampler) return { ok: false, problems }
  return {
    ok: true,
    settings: {
      exports: new Map(exported.map((signal) => [signal, protocolOf(variables, signal)])),
      sampler,
      variables: withDefaults(variables, exported),
    },
  }
}

const hasEndpoint = (variables: Readonly<Record<string, string>>, signal: Signal): boolean =>
  variables["OTEL_EXPORTER_OTLP_ENDPOINT"] !== undefined ||
  variables[`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`] !== undefined

/** An endpoint asks for a signal unless its exporter is `none`; an exporter asks for it at the default endpoint. */
const isExported = (variables: Readonly<Record<string, string>>, signal: Signal): boolean => {
  const exporter = variables[`OTEL_${signal}_EXPORTER`]
  return exporter === undefined ? hasEndpoint(variables, signal) : exporter !== "none"
}

const protocolOf = (variables: Readonly<Record<string, string>>, signal: Signal): Protocol =>
  (variables[`OTEL_EXPORTER_OTLP_${signal}_PROTOCOL`] ?? variables["OTEL_EXPORTER_OTLP_PROTOCOL"]) === "http/json"
    ? "http/json"
    : "http/protobuf"

const defaultEndpoint = "http://localhost:4318"

const withDefaults = (
  variables: Readonly<Record<string, string>>,
  exported: ReadonlyArray<Signal>,
): Readonly<Record<string, string>> => {
  const isNamed =
    variables["OTEL_SERVICE_NAME"] !== undefined ||
    /(^|,)\s*service\.name\s*=/.test(variables["OTEL_RESOURCE_ATTRIBUTES"] ?? "")
  return {
    ...(exported.some((signal) => !hasEndpoint(variables, signal)) && { OTEL_EXPORTER_OTLP_ENDPOINT: defaultEndpoint }),
    ...(!isNamed && { OTEL_SERVICE_NAME: "kiln" }),
    ...variables,
    ...Object.fromEntries(
      signals.map((signal) => [`OTEL_${signal}_EXPORTER`, exported.includes(signal) ? "otlp" : "none"]),
    ),
  }
}
