import { once } from "node:events"
import { createServer, type Server } from "node:http"
import { until } from "@kiln/service-lab"

interface KeyValue {
  readonly key: string
  readonly value: { readonly stringValue?: string; readonly intValue?: number | string; readonly boolValue?: boolean }
}

/** A span as OTLP/JSON encodes it. */
export interface ExportedSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly attributes: ReadonlyArray<KeyValue>
  readonly status: { readonly code: number; readonly message?: string }
}

/** A log record as OTLP/JSON encodes it. */
export interface ExportedLog {
  readonly body: { readonly stringValue?: string }
  readonly severityText: string
  readonly traceId?: string
  readonly attributes: ReadonlyArray<KeyValue>
}

interface Batch {
  readonly resourceSpans?: ReadonlyArray<{
    readonly scopeSpans: ReadonlyArray<{ readonly spans: ReadonlyArray<ExportedSpan> }>
  }>
  readonly resourceLogs?: ReadonlyArray<{
    readonly scopeLogs: ReadonlyArray<{ readonly logRecords: ReadonlyArray<ExportedLog> }>
  }>
  readonly resourceMetrics?: ReadonlyArray<{
    readonly scopeMetrics: ReadonlyArray<{ readonly metrics: ReadonlyArray<{ readonly name: string }> }>
  }>
}

/** Attributes by name, as text. */
export const attributesOf = ({ attributes }: { readonly attributes: ReadonlyArray<KeyValue> }) =>
  Object.fromEntries(
    attributes.map(({ key, value }) => [key, String(value.stringValue ?? value.intValue ?? value.boolValue)]),
  )

/** A collector that receives OTLP over HTTP, with JSON, and keeps everything. */
export class Collector implements AsyncDisposable {
  /** Every body as it came. */
  readonly received: Array<{
    readonly path: string
    readonly body: string
    readonly headers: Readonly<Record<string, unknown>>
  }> = []
  readonly #server: Server
  #url = ""

  private constructor() {
    this.#server = createServer((request, response) => {
      const pieces: Array<Buffer> = []
      request.on("data", (piece: Buffer) => pieces.push(piece))
      request.on("end", () => {
        const body = Buffer.concat(pieces).toString("utf8")
        this.received.push({ path: request.url ?? "", body, headers: request.headers })
        response.writeHead(200, { "content-type": "application/json" }).end("{}")
      })
    })
  }

  static async open(): Promise<Collector> {
    const collector = new Collector()
    collector.#server.listen(0, "127.0.0.1")
    await once(collector.#server, "listening")
    const address = collector.#server.address()
    collector.#url = `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`
    return collector
  }

  get url(): string {
    return this.#url
  }

  #batches(path: string): ReadonlyArray<Batch> {
    return this.received.filter((one) => one.path === path).map(({ body }) => JSON.parse(body) as Batch)
  }

  get spans(): ReadonlyArray<ExportedSpan> {
    return this.#batches("/v1/traces").flatMap(({ resourceSpans = [] }) =>
      resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans)),
    )
  }

  get logs(): ReadonlyArray<ExportedLog> {
    return this.#batches("/v1/logs").flatMap(({ resourceLogs = [] }) =>
      resourceLogs.flatMap(({ scopeLogs }) => scopeLogs.flatMap(({ logRecords }) => logRecords)),
    )
  }

  get metricNames(): ReadonlySet<string> {
    return new Set(
      this.#batches("/v1/metrics").flatMap(({ resourceMetrics = [] }) =>
        resourceMetrics.flatMap(({ scopeMetrics }) =>
          scopeMetrics.flatMap(({ metrics }) => metrics.map(({ name }) => name)),
        ),
      ),
    )
  }

  /** The spans of a trace, once one with each of these names has arrived. */
  trace(traceId: string, names: ReadonlyArray<string>): Promise<ReadonlyArray<ExportedSpan>> {
    return until(() => {
      const spans = this.spans.filter((span) => span.traceId === traceId)
      return names.every((name) => spans.some((span) => span.name === name)) ? spans : undefined
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
  }
}
