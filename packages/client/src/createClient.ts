import type { Client } from "./Client.ts"
import { checkClientOptions, checkedCall, checkedCreation } from "./checkOptions.ts"
import type { CallOptions, ClientOptions, CreateOptions, RunOptions, WaitOptions } from "./ClientOptions.ts"
import type { Ask, ClientRoute } from "./Ask.ts"
import { jobOperations } from "./jobOperations.ts"
import type { JobReference, RoutedJobs } from "./JobStates.ts"
import { randomHex } from "./random.ts"
import type { JobRoute } from "./routes/jobRoute.ts"
import { sendRequest } from "./sendRequest.ts"
import { type FileBody, sendUpload, webBody } from "./sendUpload.ts"
import type { AboutFile } from "./prepareFile.ts"
import { announceAndSend, type CreateJob, makeRun } from "./runJob.ts"
import { wholeCalls } from "./wholeCalls.ts"
import { type BuiltInJobs, wireRoutes, type Upload } from "./wire.ts"

/**
 * Creates a client for one service and one key. It holds no connection and needs no closing. It has methods for the built-in
 * kinds and for the kinds of `routes`.
 */
export const createClient = <const Routes extends ReadonlyArray<JobRoute> = readonly []>(
  given: ClientOptions & {
    /** Routes of custom kinds, created by `jobRoute`. */
    readonly routes?: Routes
  },
): Client<BuiltInJobs & RoutedJobs<Routes[number]>> => {
  checkClientOptions(given)
  const { apiKey, baseUrl, routes: more = [], timeoutMs = 60_000, ...transport } = given
  const routes: ReadonlyArray<ClientRoute> = [...wireRoutes, ...more]
  const root = baseUrl.replace(/\/+$/, "")
  const ask: Ask = async (place, method, path, call, { fields, headers, id = "", idempotencyKey, read } = {}) => {
    const { signal } = idempotencyKey === undefined ? checkedCall(place, call) : checkedCreation(place, call)
    return sendRequest(transport, {
      method,
      url: root + path.replace(":id", encodeURIComponent(id)),
      headers: {
        ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
        ...(fields && { "content-type": "application/json" }),
        ...headers,
        ...(idempotencyKey !== undefined && { "idempotency-key": idempotencyKey }),
      },
      ...(fields && { body: JSON.stringify(fields) }),
      read,
      signal,
      timeoutMs,
    })
  }

  const uploads: Client["uploads"] = {
    create: async (fields, options = {}) =>
      (await ask("createUpload", "POST", "/v1/audio/uploads", options, { fields })).body as Upload,
    send: (upload, file, options) => sendUpload(upload, file, { ...transport, ...options }),
  }

  const jobs = jobOperations(ask, routes, timeoutMs)
  const methodsOf = (route: ClientRoute) => {
    const { noun, path, upload } = route
    /** The key is created once for each call, so every retry finds the same job. */
    const create = async (fields: object, options: CreateOptions = {}): Promise<unknown> => {
      const idempotencyKey = options.idempotencyKey ?? randomHex(16)
      return (await ask(`create${noun}`, "POST", path, options, { fields, idempotencyKey })).body
    }
    const run = makeRun({ create: create as CreateJob, jobs, uploads }, route)
    if (upload === undefined)
      return { create, run: (fields: object, options?: RunOptions) => run("run", fields, options) }
    const createFromFile = async (file: FileBody, about: AboutFile = {}, options?: CallOptions) => {
      const checked = checkedCall("createFromFile", options)
      const body = webBody(file)
      const { prepareFile } = await import("./prepareFile.ts")
      const { fields, source } = await prepareFile(body, about, false, checked.signal)
      return create({ ...fields, [upload]: await announceAndSend(uploads, source, checked) }, checked)
    }
    const runFromFile = (file: FileBody, about: AboutFile = {}, options?: RunOptions) =>
      run("runFromFile", about, options, file)
    return {
      create,
      createFromFile,
      run: (fields: object, options?: RunOptions) => run("run", fields, options),
      runFromFile,
    }
  }

  const methods = Object.fromEntries(routes.map((route) => [route.methods, methodsOf(route)]))
  return {
    uploads,
    jobs: { ...jobs, wait: (job: JobReference<string>, options?: WaitOptions) => jobs.wait(job, options) },
    ...wholeCalls(methods as never, transport),
    ...methods,
  } as never
}
