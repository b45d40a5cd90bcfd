import { expect } from "vitest"
import { type Api, putCall } from "../support/Api.ts"
import { type Key, wav } from "@kiln/service-lab"
import { row, table } from "../support/tables.ts"
import { putChunks } from "./uploads.ts"

/** What a project may keep: three files and a half. Rate limits are off. */

const file = wav(1)
const max_bytes = Math.floor(3.5 * file.length)
export const storageCapSettings = {
  engine: { storageCap: { sandbox: max_bytes, live: 0 }, upload: { maxBytes: file.length } },
} as const

const details = (upload_bytes: number, result_bytes = 0) => ({ max_bytes, upload_bytes, result_bytes })

const transcribe = (api: Api, key: Key, upload_id: string) =>
  api.job("/v1/audio/transcriptions", { upload_id }, { key })

export const storageCaps = table(
  "what a project keeps",
  row("used uploads count until the data of their jobs is deleted; each URL works once there is room", async (api) => {
    const key = await api.newKey()
    const jobs = []
    for (let n = 0; n < 3; n++) jobs.push(await transcribe(api, key, await api.uploaded(file, { key })))
    const fourth = await api.upload("wav", 1, key)
    for (let n = 0; n < 6; n++) {
      const refused = await api.send(putCall(fourth.upload_url, file))
      expect(refused.error).toMatchObject({ code: "storage_full", details: details(3 * file.length) })
    }
    for (const job of jobs) await api.finished(job.path, key)
    await api.delete(`${jobs[0]?.path}/data`, { key })
    expect((await api.send(putCall(fourth.upload_url, file))).status).toBe(204)
  }),

  row("a file of undeclared length reserves the longest that is allowed", async (api) => {
    const key = await api.newKey()
    for (let n = 0; n < 3; n++) await api.uploaded(file, { key })
    const fourth = await api.upload("wav", 1, key)
    expect((await putChunks(api, fourth.upload_url, [file])).code).toBe("storage_full")
  }),

  row("of eight concurrent files, three are stored, whatever key of the project sends them", async (api) => {
    const key = await api.newKey()
    const keys = [key, await api.newKey({ besides: key })]
    const uploads = []
    for (let n = 0; n < 8; n++) uploads.push(await api.upload("wav", 1, keys[n % 2]))
    const answers = await Promise.all(uploads.map(({ upload_url }) => api.quietly(putCall(upload_url, file))))
    expect(answers.filter(({ status }) => status === 204)).toHaveLength(3)
    expect(answers.filter(({ code }) => code === "storage_full")).toHaveLength(5)
  }),

  row("at the cap, uploads and jobs that write files are refused; repeats and other projects are not", async (api) => {
    const key = await api.newKey()
    const headers = { "idempotency-key": "before" }
    const input = { input: "a".repeat(200) }
    const first = await api.job("/v1/audio/speech", input, { key, headers })
    await api.finished(first.path, key)
    for (let full = false; !full;) {
      const answer = await api.post("/v1/audio/speech", input, { key })
      full = answer.status !== 202
      if (!full) await api.finished(`/v1/jobs/${answer.json.id}`, key)
    }
    const refused = await api.post("/v1/audio/speech", input, { key })
    expect(refused.error).toMatchObject({ code: "storage_full", param: null })
    expect(refused.error.details?.["result_bytes"]).toBeGreaterThanOrEqual(max_bytes)
    const announced = await api.post("/v1/audio/uploads", { format: "wav", declared_seconds: 1 }, { key })
    expect(announced.code).toBe("storage_full")
    expect((await api.post("/v1/audio/speech", input, { key, headers })).status).toBe(202)
    expect((await api.post("/v1/audio/speech", input, { key: await api.newKey() })).status).toBe(202)
  }),
)
