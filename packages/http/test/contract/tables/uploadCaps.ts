import { expect } from "vitest"
import { type Api, putCall } from "../support/Api.ts"
import { type Key, wav } from "@kiln/service-lab"
import { row, table } from "../support/tables.ts"
import { putChunks } from "./uploads.ts"

/** How much of a project's uploads may wait for jobs: four of them, and the bytes of two files. Rate limits are off. */

const file = wav(1)
const cap = { uploads: 4, bytes: 2 * file.length + 10 }
export const uploadCapSettings = { engine: { uploadCap: cap } } as const

const announce = (api: Api, key: Key) => api.post("/v1/audio/uploads", { format: "wav", declared_seconds: 1 }, { key })
const fill = async (api: Api, key: Key) => {
  for (let n = 0; n < 4; n++) expect((await announce(api, key)).status).toBe(201)
}

export const uploadCaps = table(
  "uploads that wait",
  row("a fifth upload is refused for every key of the project; fields are checked first", async (api) => {
    const key = await api.newKey()
    await fill(api, key)
    for (const asking of [key, await api.newKey({ besides: key })]) {
      const refused = await announce(api, asking)
      expect(refused.error).toMatchObject({ code: "uploads_full", param: null, details: cap })
    }
    expect((await api.post("/v1/audio/uploads", { format: "ogg" }, { key })).code).toBe("invalid_request")
    expect((await announce(api, await api.newKey())).status).toBe(201)
  }),

  row("an upload that a job used makes room", async (api) => {
    const key = await api.newKey()
    const upload_id = await api.uploaded(file, { key })
    for (let n = 0; n < 3; n++) expect((await announce(api, key)).status).toBe(201)
    expect((await announce(api, key)).code).toBe("uploads_full")
    await api.job("/v1/audio/transcriptions", { upload_id }, { key })
    expect((await announce(api, key)).status).toBe(201)
  }),

  row("a file too many is refused before it is sent, and its URL works once there is room", async (api) => {
    const key = await api.newKey()
    const first = await api.uploaded(file, { key })
    await api.uploaded(file, { key })
    const third = await api.upload("wav", 1, key)
    // Header errors take precedence.
    expect((await api.send(putCall(third.upload_url, file, { "content-type": "text/plain" }))).code).toBe(
      "unsupported_content_type",
    )
    for (let n = 0; n < 6; n++)
      expect((await api.send(putCall(third.upload_url, file))).code, "refusals are no transfers").toBe("uploads_full")
    expect((await api.send(putCall(third.upload_url, file))).error.details).toEqual(cap)
    await api.job("/v1/audio/transcriptions", { upload_id: first }, { key })
    expect((await api.send(putCall(third.upload_url, file))).status).toBe(204)
  }),

  row("a file of undeclared length is refused after it has arrived", async (api) => {
    const key = await api.newKey()
    const first = await api.uploaded(file, { key })
    await api.uploaded(file, { key })
    const third = await api.upload("wav", 1, key)
    const send = () => putChunks(api, third.upload_url, [file])
    expect((await send()).code).toBe("uploads_full")
    await api.job("/v1/audio/transcriptions", { upload_id: first }, { key })
    expect((await send()).status).toBe(204)
  }),

  row("of eight concurrent files, two are stored", async (api) => {
    const keys = await Promise.all([api.newKey(), api.newKey()])
    for (const key of keys) {
      const uploads = []
      for (let n = 0; n < 4; n++) uploads.push(await api.upload("wav", 1, key))
      const answers = await Promise.all(uploads.map(({ upload_url }) => api.quietly(putCall(upload_url, file))))
      expect(answers.filter(({ status }) => status === 204)).toHaveLength(2)
      expect(answers.filter(({ code }) => code === "uploads_full")).toHaveLength(2)
    }
  }),
)
