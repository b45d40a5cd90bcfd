import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { type OtelSettings, readOtel } from "../../src/telemetry/otelSettings.ts"
import { samplesCaller, samplesNew } from "../../src/telemetry/sampler.ts"

const wanted = (environment: Readonly<Record<string, string>>): OtelSettings | undefined => {
  const read = readOtel(environment)
  if (!read.ok) throw new Error(JSON.stringify(read.problems))
  return read.settings
}

const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" }

describe("the OTEL_* variables", () => {
  it.each<Readonly<Record<string, string>>>([
    {},
    { OTEL_SERVICE_NAME: "x", OTEL_RESOURCE_ATTRIBUTES: "a=b" },
    { ...endpoint, OTEL_SDK_DISABLED: "true" },
    { ...endpoint, OTEL_TRACES_EXPORTER: "none", OTEL_METRICS_EXPORTER: "none", OTEL_LOGS_EXPORTER: "none" },
    // Variables of signals that nobody exports are not checked.
    { OTEL_TRACES_SAMPLER: "odd", OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" },
  ])("ask for nothing: %o", (environment) => {
    expect(wanted(environment)).toBeUndefined()
  })

  it("ask for all signals with an endpoint, by default with protobuf, in the name of kiln", () => {
    const settings = wanted(endpoint)
    expect([...(settings?.exports ?? [])]).toEqual([
      ["TRACES", "http/protobuf"],
      ["METRICS", "http/protobuf"],
      ["LOGS", "http/protobuf"],
    ])
    expect(settings?.variables).toMatchObject({ ...endpoint, OTEL_SERVICE_NAME: "kiln", OTEL_LOGS_EXPORTER: "otlp" })
    expect(wanted({ ...endpoint, OTEL_RESOURCE_ATTRIBUTES: "a=b,service.name=mine" })?.variables).not.toHaveProperty(
      "OTEL_SERVICE_NAME",
    )
  })

  it("ask for single signals, with their own endpoints and protocols", () => {
    const settings = wanted({
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://traces/v1/traces",
      OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: "http/json",
      OTEL_METRICS_EXPORTER: "otlp",
    })
    expect([...(settings?.exports ?? [])]).toEqual([
      ["TRACES", "http/json"],
      ["METRICS", "http/protobuf"],
    ])
    expect(settings?.variables).toMatchObject({
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4318",
      OTEL_LOGS_EXPORTER: "none",
    })
  })

  it("may come from files", () => {
    const path = mkdtempSync(join(tmpdir(), "kiln-otel-"))
    try {
      writeFileSync(join(path, "headers"), "authorization=Bearer%20x\n")
      expect(wanted({ ...endpoint, OTEL_EXPORTER_OTLP_HEADERS_FILE: join(path, "headers") })?.variables).toMatchObject({
        OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20x",
      })
    } finally {
      rmSync(path, { recursive: true })
    }
  })

  it.each([
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", "http or https URL"],
    ["OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "gRPC is not supported"],
    ["OTEL_TRACES_EXPORTER", "zipkin", "must be otlp or none"],
    ["OTEL_EXPORTER_OTLP_HEADERS", "no pair", "name=value"],
    ["OTEL_RESOURCE_ATTRIBUTES", "=x", "name=value"],
    ["OTEL_EXPORTER_OTLP_COMPRESSION", "br", "gzip or none"],
    ["OTEL_BSP_SCHEDULE_DELAY", "5s", "an integer"],
    ["OTEL_TRACES_SAMPLER", "jaeger_remote", "must be one of always_on"],
    ["OTEL_TRACES_SAMPLER_ARG", "2", "from 0 to 1"],
  ])("%s=%s is reported", (name, text, rule) => {
    const sampler = name === "OTEL_TRACES_SAMPLER_ARG" ? { OTEL_TRACES_SAMPLER: "traceidratio" } : {}
    expect(readOtel({ ...endpoint, ...sampler, [name]: text })).toEqual({
      ok: false,
      problems: [{ setting: name, rule: expect.stringContaining(rule) }],
    })
  })
})

describe("the sampler", () => {
  const samplerOf = (name: string, argument?: string) => {
    const sampler = wanted({
      ...endpoint,
      OTEL_TRACES_SAMPLER: name,
      ...(argument !== undefined && { OTEL_TRACES_SAMPLER_ARG: argument }),
    })?.sampler
    if (sampler === undefined) throw new Error("no sampler")
    return sampler
  }
  const low = { traceId: "4bf92f3577b34da6a3ce929d00000001", sampled: false }
  const high = { traceId: "4bf92f3577b34da6a3ce929dffffffff", sampled: true }

  it.each([
    ["always_on", undefined, true, [true, true]],
    ["always_off", undefined, false, [false, false]],
    ["traceidratio", "0.5", undefined, [true, false]],
    ["parentbased_always_on", undefined, true, [false, true]],
    ["parentbased_always_off", undefined, false, [false, true]],
    ["parentbased_traceidratio", "0.5", undefined, [false, true]],
  ] as const)("%s %s", (name, argument, isNewSampled, callers) => {
    const sampler = samplerOf(name, argument)
    expect([low, high].map((caller) => samplesCaller(sampler, caller))).toEqual(callers)
    const share = Array.from({ length: 2_000 }, () => samplesNew(sampler)).filter(Boolean).length / 2_000
    const expected = isNewSampled === undefined ? 0.5 : Number(isNewSampled)
    expect(Math.abs(share - expected)).toBeLessThanOrEqual(isNewSampled === undefined ? 0.1 : 0)
  })
})
