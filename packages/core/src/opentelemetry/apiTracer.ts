import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import { publicError } from "../engine/publicError.ts"
import { startsTrace } from "../engine/spans.ts"
import type { OpenTelemetryApi, OtelApiSpan, OtelAttributes, OtelContext, OtelTracer } from "./OpenTelemetryApi.ts"

/** The numbers of `SpanKind`. */
const kinds: Readonly<Record<Tracer.SpanKind, number>> = { internal: 0, server: 1, client: 2, producer: 3, consumer: 4 }
/** `SpanStatusCode.ERROR`. */
const errorStatus = 2
/** `TraceFlags.SAMPLED`. */
const sampledFlag = 1

const valueOf = (value: unknown): string | number | boolean =>
  typeof value === "number" || typeof value === "boolean" ? value : String(value)

const attributesOf = (given: Readonly<Record<string, unknown>>): OtelAttributes =>
  Object.fromEntries(Object.entries(given).map(([name, value]) => [name, valueOf(value)]))

type SpanOptions = Parameters<Tracer.Tracer["span"]>[0]

/** A span that the program's SDK records. Its times are the SDK's, as those of the spans around it. */
class ApiSpan implements Tracer.Span {
  readonly _tag = "Span"
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  readonly sampled: boolean
  readonly parent: Option.Option<Tracer.AnySpan>
  readonly annotations: Context.Context<never>
  readonly kind: Tracer.SpanKind
  readonly attributes = new Map<string, unknown>()
  readonly links: Array<Tracer.SpanLink> = []
  status: Tracer.SpanStatus
  /** The context in which this span is active. */
  readonly context: OtelContext
  readonly #span: OtelApiSpan

  constructor(api: OpenTelemetryApi, tracer: OtelTracer, options: SpanOptions, context: OtelContext) {
    this.name = options.name
    this.parent = options.parent
    this.annotations = options.annotations
    this.kind = options.kind
    this.status = { _tag: "Started", startTime: options.startTime }
    this.#span = tracer.startSpan(options.name, { kind: kinds[options.kind] }, context)
    const { spanId, traceFlags, traceId } = this.#span.spanContext()
    this.traceId = traceId
    this.spanId = spanId
    this.sampled = (traceFlags & sampledFlag) === sampledFlag
    this.context = api.trace.setSpan(context, this.#span)
    if (options.links.length > 0) this.addLinks(options.links)
  }

  attribute(key: string, value: unknown): void {
    if (this.status._tag === "Ended") return
    this.attributes.set(key, value)
    this.#span.setAttribute(key, valueOf(value))
  }

  event(name: string, _startTime: bigint, attributes: Readonly<Record<string, unknown>> = {}): void {
    if (this.status._tag === "Started") this.#span.addEvent(name, attributesOf(attributes))
  }

  addLinks(links: ReadonlyArray<Tracer.SpanLink>): void {
    if (this.status._tag === "Ended") return
    this.links.push(...links)
    this.#span.addLinks(
      links.map(({ attributes, span: { sampled, spanId, traceId } }) => ({
        context: { traceId, spanId, traceFlags: sampled ? sampledFlag : 0 },
        attributes: attributesOf(attributes),
      })),
    )
  }

  /** Ends the span. Of an error, it has the name, the code and the stack: messages of foreign code may quote a request. */
  end(endTime: bigint, exit: Exit.Exit<unknown, unknown>): void {
    if (this.status._tag === "Ended") return
    if (Exit.isFailure(exit) && !Cause.hasInterruptsOnly(exit.cause)) {
      const error = publicError(exit.cause)
      this.#span.setAttribute("error.type", error.message)
      this.#span.recordException(error)
      this.#span.setStatus({ code: errorStatus, message: error.message })
    }
    this.status = { _tag: "Ended", startTime: this.status.startTime, endTime, exit }
    this.#span.end()
  }
}

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
