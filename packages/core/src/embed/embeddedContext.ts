import type * as Context from "effect/Context"
import type * as Scope from "effect/Scope"
import type { Engine, JobEvents, JobReader, Operator } from "../engine/index.ts"
import type {
  BlobStore,
  DeliveryStore,
  IdGenerator,
  JobDirectory,
  JobStore,
  KeyDirectory,
  MediaProbe,
  Providers,
  ScheduleStore,
  SecretStore,
  Switchboard,
  UploadStore,
  WakeUp,
} from "../ports/index.ts"
import type { Worker } from "../worker/index.ts"

/** The services of an embedded engine. */
export type EmbeddedServices =
  | Engine
  | Operator
  | Worker
  | JobEvents
  | JobReader
  | JobStore
  | JobDirectory
  | UploadStore
  | KeyDirectory
  | Switchboard
  | SecretStore
  | ScheduleStore
  | DeliveryStore
  | BlobStore
  | MediaProbe
  | Providers
  | IdGenerator
  | WakeUp

/**
 * The services with a scope that closes when the engine is stopped, before its worker and its stores. For code built on the
 * engine.
 */
export type EmbeddedContext = Context.Context<EmbeddedServices | Scope.Scope>

/** On the engine itself: after a development server has reloaded modules, this one may exist twice. */
const contextKey = Symbol.for("@kiln/core/embeddedContext")

/** Keeps the services of an engine for `embeddedContext`. */
export const keepContext = (engine: object, context: EmbeddedContext): void => {
  Object.defineProperty(engine, contextKey, { value: context })
}

/** Returns the services of an engine created by `createEngine`, for code built on it with Effect, such as a server. */
export const embeddedContext = (engine: object): EmbeddedContext => {
  const context = Reflect.get(Object(engine), contextKey) as EmbeddedContext | undefined
  if (context === undefined) throw new TypeError("expected an engine returned by createEngine()")
  return context
}
