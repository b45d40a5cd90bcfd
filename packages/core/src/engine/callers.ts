import * as Context from "effect/Context"
import * as Fiber from "effect/Fiber"
import * as Tracer from "effect/Tracer"
import { inProgramContext } from "./programContext.ts"

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
  return inProgramContext(() =>
    fiber === undefined || activate === undefined ? call() : activate({ "~effect/Effect/evaluate": call }, fiber),
  )
}
