import type * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { insideOf, type TelemetryAdapter } from "../ports/adapters.ts"
import type { EmbeddedServices } from "./embeddedContext.ts"

/** The parts that a telemetry adapter adds to an engine. */
export interface Telemetry {
  /** The references of everything inside: the tracer, the caller's span, the meter of attempts. */
  readonly references: Context.Context<never>
  /** Measures the engine until the scope closes. */
  readonly measure: Effect.Effect<void, never, EmbeddedServices | Scope.Scope>
}

/** Loads the telemetry inside an adapter: when an engine is created, and not before. */
export type LoadTelemetry = () => Promise<Telemetry>

/** Returns the telemetry of an adapter. Throws `TypeError` for anything else. */
export const loadTelemetry = async (adapter: TelemetryAdapter): Promise<Telemetry> => {
  const load = typeof adapter === "object" && adapter !== null ? insideOf(adapter) : undefined
  if (typeof load !== "function")
    throw new TypeError('"telemetry" must be a kiln adapter, such as openTelemetry(api) of @kiln/core/opentelemetry')
  return (load as LoadTelemetry)()
}
