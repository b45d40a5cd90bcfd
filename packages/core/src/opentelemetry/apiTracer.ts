import * as Context from "effect/Context"
import type * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import { startsTrace } from "../engine/spans.ts"
import { ApiSpan, sampledFlag } from "./ApiSpan.ts"
import type { OpenTelemetryApi, OtelContext } from "./OpenTelemetryApi.ts"

/** A span of the program, with the context in which it is active. */
class ProgramSpan implements Tracer.ExternalSpan {
  readonly _tag = "ExternalSpan"
  readonly annotations: Context.Context<never> = Context.empty()
  readonly traceId: string
  readonly spanId: string
  readonly sampled: boolean
  readonly context: OtelContext

  constructor(traceId: string, spanId: string, sampled: boolean, context: OtelContext) {
    this.traceId = traceId
    this.spanId = spanId
    this.sampled = sampled
    this.context = context
  }
}

const evaluate = <X>(primitive: Tracer.EffectPrimitive<X>, fiber: Fiber.Fiber<unknown, unknown>): X =>
  primitive["~effect/Effect/evaluate"](fiber)

/** Returns a tracer whose spans the program's SDK records, and what returns the program's active span. */
export const apiTracer = (
  api: OpenTelemetryApi,
): { readonly tracer: Tracer.Tracer; readonly callerSpan: () => Tracer.AnySpan | undefined } => {
  const { ROOT_CONTEXT: root, context, trace } = api
  const tracer = trace.getTracer("@kiln/core")

  const callerSpan = (): ProgramSpan | undefined => {
    const active = context.active()
    const span = trace.getSpan(active)?.spanContext()
    if (span === undefined || !trace.isSpanContextValid(span)) return undefined
    return new ProgramSpan(span.traceId, span.spanId, (span.traceFlags & sampledFlag) === sampledFlag, active)
  }

  /** The context in which a span is active. One of another process, such as that of a stored trace, has only its ids. */
  const contextOf = (span: Tracer.AnySpan | undefined): OtelContext => {
    if (span instanceof ApiSpan || span instanceof ProgramSpan) return span.context
    if (span === undefined || span._tag === "Span") return root
    const { sampled, spanId, traceId } = span
    return trace.setSpanContext(root, { traceId, spanId, traceFlags: sampled ? sampledFlag : 0, isRemote: true })
  }

  return {
    callerSpan,
    tracer: {
      span: (options) => {
        const parent = Option.getOrUndefined(options.parent)
        const isRecorded = parent === undefined ? startsTrace(options.kind) : !(parent instanceof Tracer.NativeSpan)
        // Not the SDK's to decide: a poll or a sweep would be a trace of its own.
        if (!isRecorded) return new Tracer.NativeSpan({ ...options, sampled: false })
        return new ApiSpan(api, tracer, options, contextOf(parent))
      },
      // Code that a fiber calls finds the fiber's span active, and none if the fiber has none: another caller may have resumed it.
      context: (primitive, fiber) => {
        const { span } = fiber.cache
        const wanted = contextOf(span)
        return context.active() === wanted
          ? evaluate(primitive, fiber)
          : context.with(wanted, evaluate<never>, undefined, primitive as never, fiber)
      },
    },
  }
}
