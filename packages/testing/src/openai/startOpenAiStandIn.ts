import { createServer, type Server } from "node:http"
import type { OpenAiBehavior } from "./Behavior.ts"
import { callsOf, makeCallLog } from "./CallLog.ts"
import type { OpenAiAnswers, OpenAiEndpoint } from "./Endpoint.ts"
import type { RecordedOpenAiCall } from "./RecordedCall.ts"
import { makeScript, type ScriptedBehaviors, type UsualBehaviors } from "./Script.ts"
import { type StandInState, takeCall } from "./takeCall.ts"

/** All of it is plain data, unless an answer contains bytes. */
export interface OpenAiStandInOptions {
  /** On 127.0.0.1; a free one by default. */
  readonly port?: number
  /** Keys that are accepted, `standInApiKey` by default; none means that no key is asked for, as with local servers. */
  readonly apiKeys?: ReadonlyArray<string>
  /** Models that exist, `standInModels` by default. Any model may be named at any endpoint. */
  readonly models?: ReadonlyArray<string> | "any"
  /** Larger requests get status 413. By default 25 MiB, as of the service, and what a form takes around the file. */
  readonly maxRequestBytes?: number
  /** A file for every change of every call, see `readJournal`. One that exists is continued. */
  readonly journal?: string
  readonly usually?: UsualBehaviors
  readonly script?: ScriptedBehaviors
}

/** An HTTP server on this machine that speaks like OpenAI, does what a test tells it, and remembers who called. */
export interface OpenAiStandIn {
  /** The base URL for clients; ends in `/v1`. */
  readonly url: string
  /** A key that it accepts; any text where none is asked for. */
  readonly apiKey: string
  /**
   * The next calls of an endpoint behave like this, one each, in this order; those after them as usual. A call that the
   * stand-in refuses by itself (key, model, a bad request) uses up none of them.
   */
  readonly script: <E extends OpenAiEndpoint>(
    endpoint: E,
    ...behaviors: ReadonlyArray<OpenAiBehavior<OpenAiAnswers[E]>>
  ) => void
  /** How an endpoint behaves when nothing is scripted; at first it answers. */
  readonly usually: <E extends OpenAiEndpoint>(endpoint: E, behavior: OpenAiBehavior<OpenAiAnswers[E]>) => void
  /** All calls so far, in the order in which they began. */
  readonly calls: () => ReadonlyArray<RecordedOpenAiCall>
  /** The calls of one endpoint. */
  readonly callsOf: <E extends OpenAiEndpoint>(endpoint: E) => ReadonlyArray<RecordedOpenAiCall<E>>
  /**
   * Resolves once that many requests, 1 by default, have come in whole and were accepted: the way to wait for a call that
   * hangs. Rejects when the stand-in closes before.
   */
  readonly untilCalled: (endpoint: OpenAiEndpoint, times?: number) => Promise<void>
  /** Resolves once that many calls, 1 by default, are over, whatever became of them. Rejects when the stand-in closes before. */
  readonly untilEnded: (endpoint: OpenAiEndpoint, times?: number) => Promise<void>
  /** Stops listening and cuts every connection; calls that were running are `failed`. */
  readonly close: () => Promise<void>
  readonly [Symbol.asyncDispose]: () => Promise<void>
}

export const standInApiKey = "sk-stand-in-0123456789abcdef"

/** One of every sort the service has. */
export const standInModels = [
  "gpt-4.1-mini",
  "whisper-1",
  "gpt-4o-transcribe",
  "gpt-4o-mini-transcribe",
  "tts-1",
  "gpt-4o-mini-tts",
  "gpt-4o-mini",
  "gpt-5-mini",
  "gpt-image-1",
  "gpt-image-1-mini",
  "dall-e-3",
] as const

const MAX_FILE_BYTES = 25 * 1024 * 1024
const FORM_BYTES = 64 * 1024

export const startOpenAiStandIn = async (options: OpenAiStandInOptions = {}): Promise<OpenAiStandIn> => {
  const log = makeCallLog(options.journal)
  const script = makeScript(options.usually, options.script)
  const apiKeys = options.apiKeys ?? [standInApiKey]
  const open = new Set<() => void>()
  const server = createServer()
  // A connection that the server closes when it is idle looks like a failure to whoever was about to use it.
  server.keepAliveTimeout = 0
  const origin = `http://127.0.0.1:${await listening(server, options.port ?? 0)}`
  const state: StandInState = {
    log,
    script,
    apiKeys,
    models: options.models ?? standInModels,
    maxRequestBytes: options.maxRequestBytes ?? MAX_FILE_BYTES + FORM_BYTES,
    origin,
    open,
  }
  server.on("request", (request, response) => void takeCall(state, request, response))

  const close = async (): Promise<void> => {
    log.close()
    if (!server.listening) return
    const isClosed = new Promise<void>((resolve) => void server.close(() => resolve()))
    for (const end of open) end()
    server.closeAllConnections()
    await isClosed
  }
  return {
    url: `${origin}/v1`,
    apiKey: apiKeys[0] ?? standInApiKey,
    script: (endpoint, ...behaviors) => script.add(endpoint, behaviors),
    usually: script.usually,
    calls: log.calls,
    callsOf: (endpoint) => callsOf(log.calls(), endpoint),
    untilCalled: (endpoint, times = 1) => log.until("called", endpoint, times),
    untilEnded: (endpoint, times = 1) => log.until("ended", endpoint, times),
    close,
    [Symbol.asyncDispose]: close,
  }
}

const listening = (server: Server, port: number): Promise<number> =>
  new Promise((resolve, reject) => {
    server.once("error", reject)
    server.listen(port, "127.0.0.1", () => {
      const address = server.address()
      if (typeof address === "object" && address !== null) resolve(address.port)
      else reject(new Error("the server has no port"))
    })
  })
