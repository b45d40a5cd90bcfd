import { getEventListeners } from "node:events"
import { createClient } from "@kiln/client"
import { jobRoute, nodeHandler, fetchHandler } from "@kiln/http/mount"
import { Effect, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import { describe, expect, it, onTestFinished, vi } from "vitest"
import { streamJob } from "../../src/handlers/streamJob.ts"
import { Client } from "./support/Client.ts"
import { openEngine, reading, streamGate, summary } from "./support/MountedEngine.ts"
import { listen, publicUrl } from "./support/servers.ts"

const routes = [jobRoute(reading, { path: "/v1/readings" }), jobRoute(summary, { path: "/v1/summaries" })] as const
const scopes = ["reading.create", "text_summary.create"]

const open = async () => {
  streamGate.wait = Promise.withResolvers()
  const mounted = await openEngine()
  const server = await listen(await nodeHandler(mounted.engine, { publicUrl, routes }))
  return {
    server,
    key: (given = scopes) => mounted.createKey({ scopes: given }),
    engine: mounted.engine,
    [Symbol.asyncDispose]: async () => {
      await server[Symbol.asyncDispose]()
      await mounted[Symbol.asyncDispose]()
    },
  }
}

const event = (index: number, nextWord: string) =>
  `id: ${index}\ndata: ${JSON.stringify({ index, attempt: 1, value: { nextWord } })}\n\n`
const end = 'event: end\ndata: {"status":"done"}\n\n'

/** Reads a response until it contains a text. */
const readUntil = async (reader: ReadableStreamDefaultReader<Uint8Array>, text: string): Promise<string> => {
  const decoder = new TextDecoder()
  let read = ""
  while (!read.includes(text)) {
    const { done, value } = await reader.read()
    if (done) throw new Error(`ended without ${text}: ${read}`)
    read += decoder.decode(value, { stream: true })
  }
  return read
}

describe("a stream over HTTP", () => {
  it("sends chunks while the job runs, goes on after Last-Event-ID, and ends with the job", async () => {
    await using service = await open()
    const client = new Client(service.server.port, await service.key())
    const { body: job } = await client.ask("POST", "/v1/readings", { text: "one two three" })
    const path = `/v1/readings/${job.id}/stream`
    const response = await client.send("GET", path)
    expect(response.status).toBe(200)
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8")
    const reader = (response.body as ReadableStream<Uint8Array>).getReader()
    expect(await readUntil(reader, '"two"}}\n\n')).toBe(`:\n\n${event(0, "one")}${event(1, "two")}`)
    const later = client.send("GET", path, undefined, { "last-event-id": "0" })
    streamGate.wait.resolve()
    expect(await readUntil(reader, "event: end\ndata:")).toBe(event(2, "three") + end)
    expect(await (await later).text()).toBe(`:\n\n${event(1, "two")}${event(2, "three")}${end}`)
    expect(await (await client.send("GET", path, undefined, { "last-event-id": "2" })).text()).toBe(`:\n\n${end}`)
    await service.engine.eraseData(job.id)
    expect(await (await client.send("GET", path)).text()).toBe(`:\n\n${end}`)
  })

  it("is for the key that created the job, with the scope of the kind", async () => {
    await using service = await open()
    const client = new Client(service.server.port, await service.key())
    const { body: job } = await client.ask("POST", "/v1/readings", { text: "one" })
    const path = `/v1/readings/${job.id}/stream`
    const codeFor = async (to: string, key: string | undefined, headers = {}) =>
      (await new Client(service.server.port, key).ask("GET", to, undefined, headers)).body.error.code
    const own = await service.key()
    expect(await codeFor(path, own)).toBe("job_not_found")
    expect(await codeFor(path, undefined)).toBe("missing_api_key")
    expect(await codeFor(path, await service.key(["text_summary.create"]))).toBe("insufficient_scope")
    expect((await client.ask("GET", path.replace("readings", "summaries"))).body.error.code).toBe("job_not_found")
    expect((await client.ask("GET", path, undefined, { "last-event-id": "x" })).body.error).toMatchObject({
      code: "invalid_request",
      param: "Last-Event-ID",
    })
    expect((await client.ask("POST", path, {})).status).toBe(405)
    streamGate.wait.resolve()
  })

  it("ends when the engine stops, while the job goes on", async () => {
    await using service = await open()
    const client = new Client(service.server.port, await service.key())
    const { body: job } = await client.ask("POST", "/v1/readings", { text: "one two" })
    const response = await client.send("GET", `/v1/readings/${job.id}/stream`)
    const reader = (response.body as ReadableStream<Uint8Array>).getReader()
    await readUntil(reader, '"one"}}\n\n')
    const rest = readUntil(reader, "event: end").catch(() => "cut")
    await service.engine.stop({ drainMs: 0 })
    expect(await rest).toBe("cut")
  })

  it("comes from a web handler, too", async () => {
    streamGate.wait = Promise.withResolvers()
    streamGate.wait.resolve()
    const mounted = await openEngine()
    onTestFinished(() => mounted[Symbol.asyncDispose]())
    const handle = await fetchHandler(mounted.engine, { publicUrl, routes })
    const authorization = `Bearer ${await mounted.createKey({ scopes })}`
    const job = await mounted.engine.operator.list()
    expect(job.jobs).toEqual([])
    const created = await handle(
      new Request(`${publicUrl}/v1/readings`, {
        method: "POST",
        headers: { authorization, "content-type": "application/json", "idempotency-key": "k" },
        body: JSON.stringify({ text: "one two" }),
      }),
    )
    const { id } = (await created.json()) as { readonly id: string }
    const response = await handle(new Request(`${publicUrl}/v1/readings/${id}/stream`, { headers: { authorization } }))
    expect(await response.text()).toBe(`:\n\n${event(0, "one")}${event(1, "two")}${end}`)
  })

  it("is a method of the client", async () => {
    await using service = await open()
    const baseUrl = `http://127.0.0.1:${service.server.port}${new URL(publicUrl).pathname}`
    const client = createClient({ apiKey: await service.key(), baseUrl, routes })
    const job = await client.reading.create({ text: "one two three" })
    const words: Array<string> = []
    for await (const { index, value } of client.jobs.stream(job)) {
      words.push(value.nextWord)
      if (index === 1) streamGate.wait.resolve()
    }
    expect(words).toEqual(["one", "two", "three"])
    const rest: Array<number> = []
    for await (const { index } of client.jobs.stream(job, { from: 2 })) rest.push(index)
    expect(rest).toEqual([2])
    for await (const { index } of client.jobs.stream(job)) if (index === 0) break
  })

  /** A client whose first streams break after a chunk, and the `Last-Event-ID` of each stream that it opens. */
  const breakingClient = async (service: Awaited<ReturnType<typeof open>>, breaks: number) => {
    const opened: Array<string | null> = []
    const client = createClient({
      apiKey: await service.key(),
      baseUrl: `http://127.0.0.1:${service.server.port}${new URL(publicUrl).pathname}`,
      routes,
      fetch: async (input, init) => {
        const response = await fetch(input, init)
        if (!response.url.endsWith("/stream")) return response
        opened.push(new Headers(init?.headers).get("last-event-id"))
        if (opened.length > breaks) return response
        return new Response(`${(await response.text()).split("\n\n").slice(0, 2).join("\n\n")}\n\n`, response)
      },
    })
    return { client, opened }
  }

  it("that breaks is opened again after the last chunk", async () => {
    await using service = await open()
    streamGate.wait.resolve()
    const { client, opened } = await breakingClient(service, 1)
    const { signal } = new AbortController()
    const words: Array<string> = []
    for await (const { value } of client.jobs.stream(await client.reading.create({ text: "a b c d" }), { signal }))
      words.push(value.nextWord)
    expect(words).toEqual(["a", "b", "c", "d"])
    expect(opened).toEqual([null, "0"])
    expect(getEventListeners(signal, "abort")).toEqual([])
  })

  it("that is aborted before it is opened again leaves nothing behind", async () => {
    await using service = await open()
    streamGate.wait.resolve()
    const { client } = await breakingClient(service, Infinity)
    const controller = new AbortController()
    const job = await client.reading.create({ text: "a b" })
    const chunks = client.jobs.stream(job, { signal: controller.signal })[Symbol.asyncIterator]()
    await chunks.next()
    using started = vi.spyOn(globalThis, "setTimeout")
    using cleared = vi.spyOn(globalThis, "clearTimeout")
    const next = chunks.next()
    const pauses = () => started.mock.results.filter((_, at) => started.mock.calls[at]?.[1] === 1_000)
    await vi.waitFor(() => expect(pauses()).toHaveLength(1))
    controller.abort(new Error("enough"))
    await expect(next).rejects.toThrow("enough")
    expect(cleared).toHaveBeenCalledWith(pauses()[0]?.value)
    expect(getEventListeners(controller.signal, "abort")).toEqual([])
  })

  it("has an end when the record of its job is deleted meanwhile", async () => {
    const family = { group: "readings" }
    const polls = [Effect.succeed({ id: "job_1", kind: "reading" }), Effect.fail({ _tag: "JobNotFound" })]
    const context = {
      admit: () => ({}),
      confirm: () => ({}),
      confirmEveryMs: 2_000,
      offers: new Map([["reading", { family }]]),
      engine: { pollJob: () => polls.shift(), streamChunks: () => Stream.empty },
      waits: { hasRoom: () => true, streaming: (_: unknown, body: unknown) => body },
    }
    const exchange = { header: () => undefined }
    const handle = streamJob(context as never, family as never, "reading.create")
    const { body } = await Effect.runPromise(Effect.clockWith((clock) => handle(exchange as never, "job_1", clock)))
    const text = Stream.mkString(Stream.decodeText(body as Stream.Stream<Uint8Array>))
    expect(await Effect.runPromise(text)).toContain('event: end\ndata: {"status":null}\n\n')
  })

  it("asks every 2 s whether its key is still valid, and breaks if it is not: a valid key is cached for 3 s", async () => {
    const family = { group: "readings" }
    let isRevoked = false
    const context = {
      admit: () => ({}),
      confirm: () => (isRevoked ? Effect.fail("revoked") : {}),
      confirmEveryMs: 2_000,
      offers: new Map([["reading", { family }]]),
      engine: { pollJob: () => Effect.succeed({ id: "job_1", kind: "reading" }), streamChunks: () => Stream.never },
      waits: { hasRoom: () => true, streaming: (_: unknown, body: unknown) => body },
    }
    const handle = streamJob(context as never, family as never, "reading.create")
    const exchange = { header: () => undefined }
    const sent: Array<string> = []
    const program = Effect.gen(function* () {
      const { body } = yield* Effect.clockWith((clock) => handle(exchange as never, "job_1", clock))
      const text = Stream.decodeText(body as Stream.Stream<Uint8Array, unknown>)
      const reading = yield* Effect.forkChild(
        Effect.flip(Stream.runForEach(text, (part) => Effect.sync(() => sent.push(part)))),
      )
      for (let seconds = 0; seconds < 20; seconds += 2) yield* TestClock.adjust("2 seconds")
      const before = sent.length
      isRevoked = true
      yield* TestClock.adjust("2 seconds")
      return { before, error: reading.pollUnsafe() && (yield* Fiber.join(reading)) }
    })
    const { before, error } = await Effect.runPromise(
      Effect.provide(program, TestClock.layer()) as Effect.Effect<never>,
    )
    expect(error).toBe("revoked")
    expect(before, "the first comment and one against silence").toBe(2)
  })
})
