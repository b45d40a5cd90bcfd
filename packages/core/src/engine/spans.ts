import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Tracer from "effect/Tracer"
import {
  DeliveryStore,
  JobDirectory,
  JobStore,
  KeyDirectory,
  ScheduleStore,
  SecretStore,
  type StorePortName,
  storeVerbs,
  Switchboard,
  UploadStore,
} from "../ports/index.ts"
import { inProgramContext } from "./programContext.ts"

/** Attributes of a span, its kind, and its parent if that is not the current span. */
export type SpanOptions = Pick<Tracer.SpanOptions, "kind" | "parent"> & {
  readonly attributes?: Readonly<Record<string, unknown>> | undefined
}

/**
 * Whether a span of this kind may begin a trace: a request, the acceptance of a job, or an attempt. Any other span without a parent
 * belongs to a poll or a sweep, which nobody asks about.
 */
export const startsTrace = (kind: Tracer.SpanKind): boolean =>
  kind === "server" || kind === "producer" || kind === "consumer"

/** Runs an effect in a span of this name if there is a tracer. Otherwise, no span is allocated. */
export const inSpan = <A, E, R>(
  name: string,
  effect: Effect.Effect<A, E, R>,
  options: SpanOptions = {},
): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) =>
    fiber.cache.tracer === undefined
      ? effect
      : // The type leaves out the parent span, which no effect here requires.
        (Effect.withSpan(effect, name, { ...options, captureStackTrace: false }) as Effect.Effect<A, E, R>),
  )

/** A span of work that no single fiber runs. It is ended by hand. */
export class OpenSpan {
  readonly #span: Tracer.Span
  readonly #clock: Clock.Clock

  /** Begins a span under that of the context, which must have a tracer. */
  constructor(context: Context.Context<never>, name: string, options: SpanOptions = {}) {
    this.#span = Effect.runSyncWith(context)(Effect.makeSpan(name, options))
    this.#clock = Context.get(context, Clock.Clock)
  }

  /** Returns the context in which other spans are under this one. */
  within(context: Context.Context<never>): Context.Context<never> {
    return Context.add(context, Tracer.ParentSpan, this.#span)
  }

  attribute(name: string, value: unknown): void {
    this.#span.attribute(name, value)
  }

  /** Ends the span. Calling it again has no effect. */
  end(exit: Exit.Exit<unknown, unknown>): void {
    if (this.#span.status._tag === "Started") this.#span.end(this.#clock.currentTimeNanosUnsafe(), exit)
  }
}

type AnyEffect = Effect.Effect<unknown, unknown>
type Verb = AnyEffect | ((...input: ReadonlyArray<never>) => AnyEffect)

/** Returns the service with each of these verbs in a span, such as `JobStore.completeJobs`; `producers` accept jobs. */
export const withSpans = <Service extends object>(
  name: string,
  service: Service,
  verbs: ReadonlyArray<string & keyof Service>,
  producers: ReadonlyArray<string & keyof Service> = [],
): Service => {
  const spanned = verbs.map((verb) => {
    const span = `${name}.${verb}`
    const options: SpanOptions = producers.includes(verb) ? { kind: "producer" } : {}
    const member = service[verb] as Verb
    return [
      verb,
      Effect.isEffect(member)
        ? inSpan(span, member, options)
        : (...input: ReadonlyArray<never>) => inSpan(span, member(...input), options),
    ] as const
  })
  return { ...service, ...Object.fromEntries(spanned) }
}

const ports = {
  JobStore,
  JobDirectory,
  UploadStore,
  KeyDirectory,
  Switchboard,
  SecretStore,
  ScheduleStore,
  DeliveryStore,
}

type Stores = JobStore | JobDirectory | UploadStore | Switchboard

/** Adds the spans to one port, if it is provided. */
const spanned = (context: Context.Context<never>, name: StorePortName): Context.Context<never> => {
  // Each port has the verbs that `storeVerbs` declares for it; the compiler cannot follow that through the names.
  const port = ports[name] as Context.Key<unknown, object>
  const verbs = Object.keys(storeVerbs[name]) as Array<never>
  const service = Context.getOption(context, port)
  return service._tag === "None"
    ? Context.empty()
    : (Context.make(port, withSpans(name, service.value, verbs)) as Context.Context<never>)
}

/** Provides the ports of the record store again, with each declared verb in a span. */
export const layerStoreSpans: Layer.Layer<Stores, never, Stores> = Layer.effectContext(
  Effect.map(Effect.context<Stores>(), (context) => {
    const names = Object.keys(ports) as ReadonlyArray<StorePortName>
    const added = names.map((name) => spanned(context as Context.Context<never>, name))
    return Context.mergeAll(...added) as Context.Context<Stores>
  }),
)

/**
 * Returns the span that is active where the program calls the engine; `undefined` without one. An adapter of telemetry provides
 * it, because only the program's own tracing knows.
 */
export const CallerSpan = Context.Reference<(() => Tracer.AnySpan | undefined) | undefined>(
  "@kiln/core/engine/CallerSpan",
  { defaultValue: () => undefined },
)

/** Returns the context with the caller's active span as the parent of spans, if there is one. */
export const underCaller = <R>(context: Context.Context<R>): Context.Context<R> => {
  const span = Context.get(context, CallerSpan)?.()
  return span === undefined ? context : Context.add(context, Tracer.ParentSpan, span)
}

/**
 * Calls a function of the program for a job. It sees no `AsyncLocalStorage` of a caller: a fiber that runs jobs is resumed by whatever
 * happens next in the process, such as the request of another user. The fiber's span stays active.
 */
export const outsideOfCallers = <A>(call: () => A): A => {
  const fiber = Fiber.getCurrent()
  const activate = fiber?.getRef(Tracer.Tracer).context
  return fiber === undefined || activate === undefined
    ? inProgramContext(call)
    : inProgramContext(() => activate({ "~effect/Effect/evaluate": call }, fiber))
}
