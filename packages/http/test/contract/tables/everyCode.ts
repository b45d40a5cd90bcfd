import { expect } from "vitest"
import type { Answer } from "../support/Answer.ts"
import { type Api, type Call, putCall } from "../support/Api.ts"
import { wav } from "@kiln/service-lab"
import { capDay, everythingOn } from "../support/board.ts"
import { catalogue } from "../support/catalogue.ts"
import type { Connection } from "../support/Connection.ts"
import { rows, tableInTurn } from "../support/tables.ts"
import { begin, chunkedHeaders } from "./uploads.ts"

/** Every code of the catalogue, each by the shortest way to it. */

export const everyCodeSettings = {
  live: true,
  engine: {
    queueCap: 2,
    uploadCap: { uploads: 2, bytes: 0 },
    storageCap: { sandbox: 0, live: 1 },
    upload: { maxBytes: 1_000, stallLimitMs: 200 },
  },
  http: {
    rateLimits: {
      create: { perMinute: 0, burst: 0 },
      upload: { perMinute: 0, burst: 0 },
      read: { perMinute: 1, burst: 200 },
      delete: { perMinute: 1, burst: 2 },
      authentication: { perMinute: 0, burst: 0 },
      pages: { perMinute: 0, burst: 0 },
    },
  },
} as const

const id = "job_00000000000000000000000000"
const speech: Call = { method: "POST", path: "/v1/audio/speech", json: { input: "x" } }
const transcribe = (upload_id: string): Call => ({
  method: "POST",
  path: "/v1/audio/transcriptions",
  json: { upload_id },
})
const fileUrl = async (api: Api) => {
  const job = await api.job("/v1/audio/speech", { input: "x" })
  return { job, url: (await api.finished(job.path)).output.audio_url as string }
}

const put = async (api: Api, body: Uint8Array, headers: Record<string, string> = {}, suffix = "") =>
  api.send(putCall((await api.upload()).upload_url + suffix, body, headers))

/** A request that provokes each code. The two server errors have a separate table, because they need a broken port. */
const provocations: Readonly<Record<string, (api: Api) => Promise<Answer>>> = {
  invalid_json: (api) => api.send({ ...speech, body: "{" }),
  invalid_request: (api) => api.post("/v1/audio/speech", {}),
  idempotency_key_missing: (api) => api.send({ ...speech, headers: { "idempotency-key": null } }),
  idempotency_key_invalid: (api) => api.send({ ...speech, headers: { "idempotency-key": "" } }),
  upload_not_found: (api) => api.send(transcribe("upl_x")),
  partial_upload: (api) => put(api, wav(1), { "content-range": "bytes 0-99/200" }),
  digest_mismatch: (api) => put(api, wav(1), { "content-md5": Buffer.alloc(16).toString("base64") }),
  missing_api_key: (api) => api.get(`/v1/jobs/${id}`, { key: null }),
  invalid_api_key: (api) => api.get(`/v1/jobs/${id}`, { headers: { authorization: "Bearer x" } }),
  insufficient_scope: async (api) => api.send({ ...speech, key: await api.newKey({ scopes: [] }) }),
  live_not_active: async (api) => api.send({ ...speech, key: await api.newKey({ mode: "live" }) }),
  upload_url_invalid: (api) => put(api, wav(1), {}, "x"),
  file_url_invalid: async (api) => api.get(`${(await fileUrl(api)).url}x`, { key: null }),
  not_found: (api) => api.get("/nowhere"),
  job_not_found: (api) => api.get(`/v1/jobs/${id}`),
  method_not_allowed: (api) => api.get("/v1/audio/speech"),
  upload_timeout: async (api) => {
    const connection = await begin(api, (await api.upload()).upload_url, chunkedHeaders)
    const answer = await api.answerOn(connection, "PUT")
    connection.destroy()
    return answer
  },
  job_processing: async (api) =>
    api.delete(`${(await api.job("/v1/audio/speech", { input: "sandbox:delay:20" })).path}/data`),
  upload_not_ready: async (api) => api.send(transcribe((await api.upload()).id)),
  upload_already_used: async (api) => {
    const upload_id = await api.uploaded(wav(1))
    await api.send(transcribe(upload_id))
    return api.send(transcribe(upload_id))
  },
  upload_in_progress: async (api) => {
    const { upload_url } = await api.upload()
    let connection: Connection | undefined
    // The transfer must have begun, and may have stalled already.
    while (true) {
      if (connection === undefined || connection.closed) connection = await begin(api, upload_url, chunkedHeaders)
      const answer = await api.quietly(putCall(upload_url, wav(1), { "content-type": "text/plain" }))
      if (answer.code !== "upload_in_progress") continue
      connection.destroy()
      return answer
    }
  },
  upload_already_completed: async (api) => {
    const { upload_url } = await api.upload()
    await api.put(upload_url, wav(1))
    return api.put(upload_url, wav(1))
  },
  upload_expired: async (api) => {
    const { upload_url } = await api.upload()
    for (let n = 0; n < 5; n++) await api.put(upload_url, new Uint8Array(0))
    return api.put(upload_url, wav(1))
  },
  file_gone: async (api) => {
    const { job, url } = await fileUrl(api)
    await api.delete(`${job.path}/data`)
    return api.get(url, { key: null })
  },
  body_too_large: (api) => api.send({ ...speech, body: " ".repeat(70_000) }),
  file_too_large: (api) => put(api, wav(20)),
  unsupported_content_type: (api) => put(api, wav(1), { "content-type": "text/plain" }),
  range_not_satisfiable: async (api) =>
    api.get((await fileUrl(api)).url, { key: null, headers: { range: "bytes=99999999-" } }),
  idempotency_key_reused: async (api) => {
    const headers = { "idempotency-key": "reused" }
    await api.post("/v1/audio/speech", { input: "a" }, { headers })
    return api.post("/v1/audio/speech", { input: "b" }, { headers })
  },
  empty_file: (api) => put(api, new Uint8Array(0)),
  audio_format_mismatch: (api) => put(api, Buffer.from("no audio")),
  rate_limited: (api) =>
    api.until({ method: "DELETE", path: `/v1/jobs/${id}/data` }, (answer) => answer.status === 429),
  uploads_full: async (api) => {
    for (let n = 0; n < 2; n++) await api.upload()
    return api.post("/v1/audio/uploads", { format: "wav", declared_seconds: 1 })
  },
  storage_full: async (api) => {
    const { upload_url } = await api.upload("wav", 1, await api.newKey({ mode: "live" }))
    return api.send(putCall(upload_url, wav(1)))
  },
  spend_cap_reached: async (api) => {
    await everythingOn(api)
    const key = await api.newKey({ mode: "live" })
    await capDay(api, key.id, "0.00001")
    return api.send({ ...speech, key })
  },
  queue_full: async (api) => {
    for (let n = 0; n < 2; n++) await api.job("/v1/audio/speech", { input: "sandbox:delay:20" })
    return api.send(speech)
  },
}

/** The codes whose provocation is in this table. */
export const provoked: ReadonlyArray<string> = Object.keys(provocations)

export const everyCode = tableInTurn(
  "the error catalogue",
  rows(
    Object.entries(provocations),
    ([code]) => `${catalogue[code]?.status} ${code}`,
    async (api, [code, provoke]) => {
      expect((await provoke(api)).code).toBe(code)
    },
  ),
)
