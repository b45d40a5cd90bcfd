import type {
  CallOptions,
  ClientOptions,
  CreateOptions,
  RunOptions,
  SendOptions,
  TransportOptions,
} from "./ClientOptions.ts"
import { type Names, requireKnown } from "./knownOptions.ts"
import { milliseconds } from "./timers.ts"

const transportOptions: Names<TransportOptions> = { fetch: true, maxRetries: true, maxRetryDelayMs: true }
const clientOptions: Names<ClientOptions & { readonly routes?: unknown }> = {
  ...transportOptions,
  baseUrl: true,
  apiKey: true,
  timeoutMs: true,
  routes: true,
}
const callOptions: Names<CallOptions> = { signal: true }
const sendOptions: Names<SendOptions & TransportOptions> = { ...transportOptions, ...callOptions, format: true }
const createOptions: Names<CreateOptions> = { ...callOptions, idempotencyKey: true }

const runOptions: Names<RunOptions> = { ...createOptions, timeoutMs: true, onProgress: true }

/** Throws `TypeError` for options that cannot be used. */
export const checkClientOptions = (options: ClientOptions): void => {
  requireKnown("createClient()", options, clientOptions)
  if (typeof options.baseUrl !== "string" || ("apiKey" in options && typeof options.apiKey !== "string"))
    throw new TypeError("createClient() requires baseUrl and apiKey as strings; omit apiKey where cookies authenticate")
  const { timeoutMs = 0 } = options
  milliseconds("timeoutMs", timeoutMs)
  checkTransport(options)
}

/** Throws `TypeError` for invalid numbers: NaN would silently disable retries. */
const checkTransport = ({ maxRetries = 0, maxRetryDelayMs = 0 }: TransportOptions): void => {
  if (!(maxRetries >= 0)) throw new TypeError("maxRetries must be a non-negative number")
  milliseconds("maxRetryDelayMs", maxRetryDelayMs)
}

/** Returns the options of a call. Throws `TypeError` for an unknown option. */
export const checkedCall = (place: string, options: CallOptions = {}): CallOptions => {
  requireKnown(`${place}()`, options, callOptions)
  return options
}

/** Does the same for a call that creates a job. */
export const checkedCreation = (place: string, options: CreateOptions): CreateOptions => {
  requireKnown(`${place}()`, options, createOptions)
  return options
}

/** Does the same for a call that runs a job. */
export const checkedRun = (place: string, options: RunOptions): RunOptions => {
  requireKnown(`${place}()`, options, runOptions)
  return options
}

/** Does the same for a call that sends a file. */
export const checkedSending = <Options extends SendOptions & TransportOptions>(options: Options): Options => {
  requireKnown("sendUpload()", options, sendOptions)
  checkTransport(options)
  return options
}
