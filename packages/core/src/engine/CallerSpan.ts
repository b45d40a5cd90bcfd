import * as Context from "effect/Context"
import * as Tracer from "effect/Tracer"

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
