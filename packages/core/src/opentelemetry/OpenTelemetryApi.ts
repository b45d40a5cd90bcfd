// Declared here, so that neither the sources nor the declarations of kiln need the package.

/** An immutable set of values, of which the active span is one. */
export interface OtelContext {
  getValue(key: symbol): unknown
  setValue(key: symbol, value: unknown): OtelContext
  deleteValue(key: symbol): OtelContext
}

export interface OtelSpanContext {
  traceId: string
  spanId: string
  traceFlags: number
  isRemote?: boolean
}

type AttributeValue = string | number | boolean
export type OtelAttributes = Record<string, AttributeValue>

export interface OtelApiSpan {
  spanContext(): OtelSpanContext
  setAttribute(key: string, value: AttributeValue): unknown
  addEvent(name: string, attributes?: OtelAttributes): unknown
  addLinks(links: Array<{ context: OtelSpanContext; attributes?: OtelAttributes }>): unknown
  setStatus(status: { code: number; message?: string }): unknown
  recordException(exception: Error): void
  end(): void
}

export interface OtelTracer {
  startSpan(name: string, options: { kind: number }, context: OtelContext): OtelApiSpan
}

export interface OtelMeter {
  createCounter(name: string, options: OtelMetricOptions): { add(value: number, attributes: OtelAttributes): void }
  createHistogram(name: string, options: OtelMetricOptions): { record(value: number, attributes: OtelAttributes): void }
  createObservableGauge(name: string, options: OtelMetricOptions): object
  addBatchObservableCallback(observe: OtelBatchCallback, gauges: Array<object>): void
  removeBatchObservableCallback(observe: OtelBatchCallback, gauges: Array<object>): void
}

export interface OtelMetricOptions {
  description?: string
  unit?: string
  advice?: { explicitBucketBoundaries?: Array<number> }
}

export type OtelBatchCallback = (result: {
  observe(gauge: object, value: number, attributes: OtelAttributes): void
}) => Promise<void>

/** The part of `@opentelemetry/api`, version 1.9 or later, that kiln uses: the module itself has this type. */
export interface OpenTelemetryApi {
  readonly ROOT_CONTEXT: OtelContext
  readonly context: {
    active(): OtelContext
    with<Args extends Array<unknown>, Result>(
      context: OtelContext,
      run: (...args: Args) => Result,
      thisArg: undefined,
      ...args: Args
    ): Result
  }
  readonly trace: {
    getTracerProvider(): object
    getTracer(name: string): OtelTracer
    getSpan(context: OtelContext): OtelApiSpan | undefined
    setSpan(context: OtelContext, span: OtelApiSpan): OtelContext
    setSpanContext(context: OtelContext, span: OtelSpanContext): OtelContext
    isSpanContextValid(span: OtelSpanContext): boolean
  }
  readonly metrics: {
    getMeter(name: string): OtelMeter
  }
  createNoopMeter(): object
}
