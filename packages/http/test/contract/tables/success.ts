import { expect } from "vitest"
import type { Answer } from "../support/Answer.ts"
import type { Api } from "../support/Api.ts"
import { wav } from "@kiln/service-lab"
import { publicUrl } from "../support/Service.ts"
import { row, rows, table } from "../support/tables.ts"

/** The success answers of the ten endpoints: status, exact fields, headers. */

const keysOf = (value: object) => Object.keys(value).toSorted()

export const sandboxBilling = { status: "not_charged", currency: "usd", amount: "0", line_items: [] }

/** Each way to create a job: what is sent, what it is called, where it is polled. */
export const creations = [
  {
    type: "transcription",
    path: "/v1/audio/transcriptions",
    family: "/v1/jobs",
    body: async (api: Api) => ({ upload_id: await api.uploaded(wav(1)) }),
  },
  {
    type: "speech_synthesis",
    path: "/v1/audio/speech",
    family: "/v1/jobs",
    body: () => Promise.resolve({ input: "Hello" }),
  },
  {
    type: "voice_turn",
    path: "/v1/voice/turns",
    family: "/v1/jobs",
    body: async (api: Api) => ({ upload_id: await api.uploaded(wav(1)), max_output_tokens: 1024 }),
  },
  {
    type: "image_generation",
    path: "/v1/images/generations",
    family: "/v1/images/jobs",
    body: () => Promise.resolve({ prompt: "A lighthouse" }),
  },
] as const

const isSignedFileUrl = (url: unknown, polledAt: number) => {
  const pattern = /^\/v1\/files\/fil_[0-7][0-9a-hjkmnp-tv-z]{25}\?e=[1-9][0-9]*&k=k1&s=[\w-]{43}$/i
  expect(String(url).startsWith(publicUrl)).toBe(true)
  expect(String(url).slice(publicUrl.length)).toMatch(pattern)
  const expires = Number(new URL(String(url)).searchParams.get("e"))
  expect(expires).toBeLessThan(Date.now() / 1000 + 602)
  expect(expires).toBeGreaterThanOrEqual(polledAt / 1000 + 600)
}

/** What the output of each type consists of. */
const outputs: Readonly<Record<string, (output: Record<string, unknown>, polledAt: number) => void>> = {
  transcription: (output) => {
    expect(keysOf(output)).toEqual(["transcript"])
    expect(output.transcript).toMatch(/\S/)
  },
  speech_synthesis: (output, polledAt) => {
    expect(keysOf(output)).toEqual(["audio_url"])
    isSignedFileUrl(output.audio_url, polledAt)
  },
  voice_turn: (output, polledAt) => {
    expect(keysOf(output)).toEqual(["audio_url", "text"])
    expect(output.text).toMatch(/\S/)
    isSignedFileUrl(output.audio_url, polledAt)
  },
  image_generation: ({ image_url, ...output }, polledAt) => {
    expect(output).toEqual({ format: "png", size: "1024x1024" })
    isSignedFileUrl(image_url, polledAt)
  },
}

const expectEmpty204 = (answer: Answer) => {
  expect(answer.status).toBe(204)
  expect(answer.wire.body.length).toBe(0)
  expect(answer.header("content-type")).toBeUndefined()
}

const creating = rows(
  creations,
  ({ path, type }) =>
    `POST ${path} answers 202 with a ${type} job, polled at ${type === "image_generation" ? "images" : "jobs"}`,
  async (api, { body, family, path, type }) => {
    const answer = await api.post(path, await body(api))
    expect(answer.status).toBe(202)
    expect(answer.json).toEqual({ id: expect.any(String), object: "job", type, mode: "sandbox", status: "queued" })
    expect(answer.json.id).toMatch(/^job_[0-7][0-9a-hjkmnp-tv-z]{25}$/i)
    expect(answer.header("location")).toBe(`${publicUrl}${family}/${answer.json.id}`)
    expect(answer.header("retry-after")).toBe("2")
    expect(answer.header("idempotency-replayed")).toBeUndefined()
    expect(answer.header("content-type")).toMatch(/^application\/json/)
  },
)

const polling = rows(
  creations,
  ({ type }) => `GET of a done ${type} job answers 200 with exactly its fields`,
  async (api, { body, path, type }) => {
    const job = await api.job(path, await body(api))
    await api.finished(job.path)
    const polledAt = Date.now()
    const { output, ...rest } = (await api.get(job.path)).json
    const audio = { billing: sandboxBilling, warning_code: null, error_code: null }
    expect(rest).toEqual({ id: job.id, status: "done", ...(type === "image_generation" ? {} : audio) })
    outputs[type]?.(output, polledAt)
  },
)

const processing = rows(
  ["/v1/audio/speech", "/v1/images/generations"],
  (path) => `GET of an unfinished job made by ${path} has no output and says Retry-After: 2`,
  async (api, path) => {
    const job = await api.job(path, { [path.includes("images") ? "prompt" : "input"]: "sandbox:delay:20" })
    const { answer } = await api.polled(job.path, "processing")
    const audio = { billing: sandboxBilling, warning_code: null, error_code: null }
    expect(answer.json).toEqual({ id: job.id, status: "processing", ...(path.includes("images") ? {} : audio) })
    expect(answer.header("retry-after")).toBe("2")
  },
)

const deleting = rows(
  creations,
  ({ type }) => `DELETE of a done ${type} job's data answers 204 without a body, and 204 again`,
  async (api, { body, path }) => {
    const job = await api.job(path, await body(api))
    await api.finished(job.path)
    expectEmpty204(await api.delete(`${job.path}/data`))
    expectEmpty204(await api.delete(`${job.path}/data`))
  },
)

const uploading = [
  row("POST /v1/audio/uploads answers 201 with exactly its fields", async (api) => {
    const before = Date.now()
    const answer = await api.post("/v1/audio/uploads", { format: "wav", declared_seconds: 12.5 })
    expect(answer.status).toBe(201)
    const upload = answer.json
    expect(keysOf(upload)).toEqual(["expires_at", "id", "max_bytes", "method", "upload_url"])
    expect(upload).toMatchObject({ method: "PUT", max_bytes: 26_214_400 })
    expect(upload.id).toMatch(/^upl_[0-7][0-9a-hjkmnp-tv-z]{25}$/i)
    expect(upload.expires_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
    const expires = Date.parse(upload.expires_at)
    expect(Math.abs(expires - (before + 15 * 60_000))).toBeLessThan(5_000)
    const pattern = new RegExp(`^${publicUrl}/v1/audio/uploads/${upload.id}/file\\?e=([0-9]+)&k=k1&s=[\\w-]{43}$`)
    expect(upload.upload_url).toMatch(pattern)
    expect(Number(pattern.exec(upload.upload_url)?.[1])).toBe(expires / 1000)
  }),
  row("26,214,400 bytes are a file, one more is too large", async (api) => {
    const file = Buffer.concat([wav(1), Buffer.alloc(26_214_401 - wav(1).length)])
    expectEmpty204(await api.put((await api.upload()).upload_url, file.subarray(0, 26_214_400)))
    const refused = await api.put((await api.upload()).upload_url, file)
    expect(refused.error).toMatchObject({ code: "file_too_large", details: { max_bytes: 26_214_400 } })
  }),
  row("PUT answers 204 without a body", async (api) => {
    const upload = await api.upload()
    expectEmpty204(await api.put(upload.upload_url, wav(1)))
  }),
]

const identifiers = row("ids sort by creation", async (api) => {
  const ids: Array<string> = []
  for (let n = 0; n < 5; n++) {
    ids.push((await api.job("/v1/audio/speech", { input: `number ${n}` })).id)
    // UUIDv7 promises order between milliseconds only.
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
  expect(ids).toEqual(ids.toSorted())
})

const requestIds = row(
  "the request id is the caller's if it is acceptable, otherwise generated for each request",
  async (api) => {
    const idOf = async (given?: string) => {
      const headers = given === undefined ? {} : { "x-request-id": given }
      const answer = await api.get("/v1/jobs/job_x", { headers })
      expect(answer.json.error.request_id).toBe(answer.header("x-request-id"))
      return answer.header("x-request-id")
    }
    for (const given of ["4bf92f35-77b3-4da6-a3ce-929d0e0e4736", "01J9Z3NDEKTSV4RRFFQ69G5FAV", "a".repeat(128)])
      expect(await idOf(given)).toBe(given)
    const refused = [
      "short",
      "a".repeat(129),
      "two words here",
      "semi;colon;here",
      "-begins-with-a-dash",
      '"quoted-id"',
    ]
    const ids = await Promise.all([undefined, undefined, ...refused].map(idOf))
    for (const id of ids) expect(id).toMatch(/^req_[0-9a-z]{26}$/)
    expect(new Set(ids).size).toBe(ids.length)
  },
)

export const success = table(
  "success answers",
  uploading,
  creating,
  polling,
  processing,
  deleting,
  identifiers,
  requestIds,
)
