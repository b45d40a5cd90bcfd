import type { Client } from "./Client.ts"
import { checkClientOptions, checkedCall, checkedCreation } from "./checkOptions.ts"
import type { CallOptions, ClientOptions, CreateOptions } from "./ClientOptions.ts"
import { type Ask, jobOperations } from "./jobOperations.ts"
import { randomHex } from "./random.ts"
import { type RouteName, routes } from "./routes.ts"
import { sendRequest } from "./sendRequest.ts"
import { sendUpload } from "./sendUpload.ts"
import type {
  CreateTranscription,
  CreateUpload,
  CreateVoiceTurn,
  TranscriptionJob,
  Upload,
  VoiceTurnJob,
} from "./wire.ts"

/** A client of one service with one key. It holds no connection and needs no closing. */
export const createClient = (given: ClientOptions): Client => {
  checkClientOptions(given)
  const { apiKey, baseUrl, timeoutMs = 60_000, ...transport } = given
  const root = baseUrl.replace(/\/+$/, "")
  const ask: Ask = async (route, call, { fields, id = "", idempotencyKey } = {}) => {
    const { signal } = idempotencyKey === undefined ? checkedCall(route, call) : checkedCreation(route, call)
    const [method, path] = routes[route]
    return sendRequest(transport, {
      method,
      url: root + path.replace(":id", encodeURIComponent(id)),
      headers: {
        authorization: `Bearer ${apiKey}`,
        ...(fields !== undefined && { "content-type": "application/json" }),
        ...(idempotencyKey !== undefined && { "idempotency-key": idempotencyKey }),
      },
      ...(fields !== undefined && { body: JSON.stringify(fields) }),
      signal,
      timeoutMs,
    })
  }

  /** Made once a call: every retry of it finds the same job. */
  const creating =
    <Request extends object, Job>(route: RouteName) =>
    async (request: Request, options: CreateOptions = {}): Promise<Job> => {
      const { body } = await ask(route, options, {
        fields: request,
        idempotencyKey: options.idempotencyKey ?? randomHex(16),
      })
      return body as Job
    }

  const uploads: Client["uploads"] = {
    create: async (request: CreateUpload, options: CallOptions = {}) =>
      (await ask("createUpload", options, { fields: request })).body as Upload,
    send: (upload, file, options) => sendUpload(upload, file, { ...transport, ...options }),
  }
  const transcriptions = { create: creating<CreateTranscription, TranscriptionJob>("createTranscription") }
  const voiceTurns = { create: creating<CreateVoiceTurn, VoiceTurnJob>("createVoiceTurn") }

  return {
    uploads,
    transcriptions: {
      ...transcriptions,
      createFromFile: async (file, about, options) =>
        transcriptions.create(
          { upload_id: await announceAndSend(uploads, file, about, checkedCall("createFromFile", options)) },
          options,
        ),
    },
    speech: { create: creating("createSpeech") },
    voiceTurns: {
      ...voiceTurns,
      createFromFile: async (file, { declared_seconds, format, ...turn }, options) => {
        const about = { declared_seconds, format }
        const upload_id = await announceAndSend(uploads, file, about, checkedCall("createFromFile", options))
        return voiceTurns.create({ ...turn, upload_id }, options)
      },
    },
    images: { create: creating("createImage") },
    jobs: jobOperations(ask),
  }
}

/** The id of an upload whose file has arrived. */
const announceAndSend = async (
  uploads: Client["uploads"],
  file: Parameters<Client["uploads"]["send"]>[1],
  about: CreateUpload,
  { signal }: CallOptions = {},
): Promise<string> => {
  const call = signal === undefined ? {} : { signal }
  const upload = await uploads.create(about, call)
  await uploads.send(upload, file, { ...call, format: about.format })
  return upload.id
}
