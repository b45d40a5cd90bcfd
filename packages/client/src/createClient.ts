import type { Client } from "./Client.ts"
import { checkClientOptions, checkedCall, checkedCreation } from "./checkOptions.ts"
import type { CallOptions, ClientOptions, CreateOptions } from "./ClientOptions.ts"
import { type Ask, type ClientRoute, jobOperations } from "./jobOperations.ts"
import type { RoutedJobs } from "./JobStates.ts"
import { randomHex } from "./random.ts"
import type { JobRoute } from "./routes/jobRoute.ts"
import { sendRequest } from "./sendRequest.ts"
import { type FileBody, sendUpload } from "./sendUpload.ts"
import { type BuiltInJobs, wireRoutes, type CreateUpload, type Upload } from "./wire.ts"

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
  const ask: Ask = async (place, method, path, call, { fields, id = "", idempotencyKey, name = "", prefer } = {}) => {
    const { signal } = idempotencyKey === undefined ? checkedCall(place, call) : checkedCreation(place, call)
    return sendRequest(transport, {
      method,
      url: root + path.replace(":name", () => encodeURIComponent(name)).replace(":id", () => encodeURIComponent(id)),
      headers: {
        authorization: `Bearer ${apiKey}`,
        ...(fields !== undefined && { "content-type": "application/json" }),
        ...(prefer !== undefined && { prefer }),
        ...(idempotencyKey !== undefined && { "idempotency-key": idempotencyKey }),
      },
      ...(fields !== undefined && { body: JSON.stringify(fields) }),
      signal,
      timeoutMs,
    })
  }

  const uploads: Client["uploads"] = {
    create: async (fields, options = {}) =>
      (await ask("createUpload", "POST", "/v1/audio/uploads", options, { fields })).body as Upload,
    send: (upload, file, options) => sendUpload(upload, file, { ...transport, ...options }),
  }

  const methodsOf = ({ noun, path, upload }: ClientRoute) => {
    /** The key is created once for each call, so every retry finds the same job. */
    const create = async (fields: object, options: CreateOptions = {}): Promise<unknown> => {
      const idempotencyKey = options.idempotencyKey ?? randomHex(16)
      return (await ask(`create${noun}`, "POST", path, options, { fields, idempotencyKey })).body
    }
    if (upload === undefined) return { create }
    const createFromFile = async (
      file: FileBody,
      { declared_seconds, format, ...request }: CreateUpload,
      options?: CallOptions,
    ) => {
      const about = { declared_seconds, format }
      const uploadId = await announceAndSend(uploads, file, about, checkedCall("createFromFile", options))
      return create({ ...request, [upload]: uploadId }, options)
    }
    return { create, createFromFile }
  }

  return {
    uploads,
    jobs: jobOperations(ask, routes, timeoutMs),
    ...Object.fromEntries(routes.map((route) => [route.methods, methodsOf(route)])),
  } as never
}

/** Announces and sends a file. Returns the id of the upload. */
const announceAndSend = async (
  uploads: Client["uploads"],
  file: FileBody,
  about: CreateUpload,
  { signal }: CallOptions = {},
): Promise<string> => {
  const call = signal === undefined ? {} : { signal }
  const upload = await uploads.create(about, call)
  await uploads.send(upload, file, { ...call, format: about.format })
  return upload.id
}
