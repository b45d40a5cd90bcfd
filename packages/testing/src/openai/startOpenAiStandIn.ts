import { createServer, type Server } from "node:http"
import type { OpenAiBehavior } from "./Behavior.ts"
import { callsOf, makeCallLog } from "./CallLog.ts"
import type { OpenAiAnswers, OpenAiEndpoint } from "./Endpoint.ts"
import type { RecordedOpenAiCall } from "./RecordedCall.ts"
import { makeScript, type ScriptedBehaviors, type UsualBehaviors } from "./Script.ts"
import { type StandInState, takeCall } from "./takeCall.ts"

/** Options of a stand-in. Plain data, unless an answer contains bytes. */
export interface OpenAiStandInOptions {
  /** Port on 127.0.0.1; default: any free port. */
  readonly port?: number
  /** Accepted keys; default `standInApiKey`. With an empty list no key is required, as with local servers. */
  readonly apiKeys?: ReadonlyArray<string>
  /** Existing models; default `standInModels`. Every model is accepted at every endpoint. */
  readonly models?: ReadonlyArray<string> | "any"
  /** Maximum request size; larger requests get 413. Default: 25 MiB, like the service, plus the overhead of a form. */
  readonly maxRequestBytes?: number
  /** Path of a file that records every change of every call; see `readJournal`. An existing file is continued. */
  readonly journal?: string
  readonly usually?: UsualBehaviors
  readonly script?: ScriptedBehaviors
}

/** A local HTTP server with OpenAI's API that behaves as the test says and records its calls. */
export interface OpenAiStandIn {
  /** The base URL for clients; ends in `/v1`. */
  readonly url: string
  /** An accepted key; any text if no key is required. */
  readonly apiKey: string
  /**
   * Queues behaviors for the next calls of an endpoint, one per call; later calls behave as usual. Calls that the stand-in
   * itself rejects (key, model, bad request) do not use up behaviors.
   */
  readonly script: <E extends OpenAiEndpoint>(
    endpoint: E,
    ...behaviors: ReadonlyArray<OpenAiBehavior<OpenAiAnswers[E]>>
  ) => void
  /** Sets the behavior of an endpoint when nothing is scripted; initially it answers. */
  readonly usually: <E extends OpenAiEndpoint>(endpoint: E, behavior: OpenAiBehavior<OpenAiAnswers[E]>) => void
  /** Returns all calls so far, in order of their start. */
  readonly calls: () => ReadonlyArray<RecordedOpenAiCall>
  /** Returns the calls of one endpoint. */
  readonly callsOf: <E extends OpenAiEndpoint>(endpoint: E) => ReadonlyArray<RecordedOpenAiCall<E>>
  /**
   * Resolves once `times` complete requests (default 1) were accepted. Use it to wait for a call that hangs. Rejects if the
   * stand-in closes before.
   */
  readonly untilCalled: (endpoint: OpenAiEndpoint, times?: number) => Promise<void>
  /** Resolves once `times` calls (default 1) have ended, with any outcome. Rejects if the stand-in closes before. */
  readonly untilEnded: (endpoint: OpenAiEndpoint, times?: number) => Promise<void>
  /** Stops listening and closes every connection; running calls become `failed`. */
  readonly close: () => Promise<void>
  readonly [Symbol.asyncDispose]: () => Promise<void>
}

export const standInApiKey = "sk-stand-in-0123456789abcdef"

/** One model of every type that the service has. */
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
  // A client that is about to reuse an idle connection would see its closing as a failure.
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
      else reject(new Error("the server has no TCP port"))
    })
  })
