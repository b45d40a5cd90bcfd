import { type TelemetryAdapter, telemetryAdapter } from "../ports/adapters.ts"
import type { OpenTelemetryApi } from "./OpenTelemetryApi.ts"

export type * from "./OpenTelemetryApi.ts"

/**
 * Reports the engine's traces and metrics to the OpenTelemetry SDK of the program, through the API alone. Register the SDK before
 * the engine is created: an engine without one neither traces nor measures, and costs nothing more.
 *
 * @example
 * ```ts
 * import * as api from "@opentelemetry/api"
 *
 * const engine = await createEngine({ store, blobs, kinds: builtInKinds(), telemetry: openTelemetry(api) })
 * ```
 */
export const openTelemetry = (api: OpenTelemetryApi): TelemetryAdapter => {
  if (typeof api?.trace?.getTracer !== "function" || typeof api.metrics?.getMeter !== "function")
    throw new TypeError('openTelemetry() expects the module: import * as api from "@opentelemetry/api"')
  return telemetryAdapter(async () => (await import("./telemetryOf.ts")).telemetryOf(api))
}
