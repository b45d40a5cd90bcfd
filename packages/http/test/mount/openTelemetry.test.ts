import { once } from "node:events"
import { createServer, type RequestListener } from "node:http"
import type { AddressInfo } from "node:net"
import { builtInKinds, createEngine } from "@kiln/core"
import { openTelemetry } from "@kiln/core/opentelemetry"
import { createApiKey, fetchHandler, type MountedEngine, nodeHandler } from "@kiln/http/mount"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import * as api from "@opentelemetry/api"
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks"
import { InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace"
import { afterAll, expect, it } from "vitest"
import { listenerOf } from "./support/listenerOf.ts"

const exporter = new InMemorySpanExporter()
api.context.setGlobalContextManager(new AsyncLocalStorageContextManager())
api.trace.setGlobalTracerProvider(new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }))
afterAll(() => {
  api.trace.disable()
  api.context.disable()
})

const caller = { traceId: "4bf92f3577b34da6a3ce929d0e0e4736", spanId: "00f067aa0ba902b7" }
const publicUrl = "http://127.0.0.1/kiln"
const traceparent = `00-${caller.traceId}-${caller.spanId}-01`

const handlers: ReadonlyArray<readonly [string, (engine: MountedEngine) => Promise<RequestListener>]> = [
  ["Node's handler", (engine) => nodeHandler(engine, { publicUrl })],
  ["a fetch handler", async (engine) => listenerOf(await fetchHandler(engine, { publicUrl }))],
]

it.each(handlers)("requests to %s are part of the host's spans, or else of their caller's trace", async (_, mount) => {
  exporter.reset()
  await using engine = await createEngine({
    store: memoryStore(),
    blobs: memoryBlobs(),
    kinds: builtInKinds(),
    providers: { sandbox: sandboxProviders() },
    telemetry: openTelemetry(api),
  })
  const handle = await mount(engine)
  const { key } = await createApiKey(engine, { project: "acme", scopes: ["audio.create"] })
  const tracer = api.trace.getTracer("host")
  // As instrumentation of `node:http` does it; it is told by a header not to.
  const server = createServer((request, response) => {
    if (request.headers["x-untraced"] !== undefined) return handle(request, response)
    tracer.startActiveSpan("host", (span) => {
      response.once("close", () => span.end())
      handle(request, response)
    })
  })
  await once(server.listen(0, "127.0.0.1"), "listening")
  const { port } = server.address() as AddressInfo
  const speak = async (more: Record<string, string> = {}) => {
    const response = await fetch(`http://127.0.0.1:${port}/kiln/v1/audio/speech`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${key}`,
        "content-type": "application/json",
        "idempotency-key": crypto.randomUUID(),
        traceparent,
        ...more,
      },
      body: JSON.stringify({ input: "Hello", voice: "alloy" }),
    })
    await response.arrayBuffer()
    return response.status
  }
  expect(await Promise.all([speak(), speak(), speak(), speak({ "x-untraced": "1" })])).toEqual([202, 202, 202, 202])
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  await engine.stop()

  const spans = exporter.getFinishedSpans()
  const named = (name: string) => spans.filter((span) => span.name === name)
  const idsOf = (all: ReadonlyArray<ReadableSpan>) => new Set(all.map((span) => span.spanContext().spanId))
  const parentsOf = (all: ReadonlyArray<ReadableSpan>) => new Set(all.map((span) => span.parentSpanContext?.spanId))
  const requests = named("POST /v1/audio/speech")
  expect([named("host").length, requests.length]).toEqual([3, 4])
  // Each of the host's spans has one request below it, although the requests arrived together.
  expect(parentsOf(requests)).toEqual(new Set([...idsOf(named("host")), caller.spanId]))
  expect(parentsOf(named("Engine.createJob"))).toEqual(idsOf(requests))
})
