import { expect } from "vitest"
import type { Api, Call } from "../support/Api.ts"
import { type Key, wav } from "@kiln/service-lab"
import { type Row, row, rows, table } from "../support/tables.ts"
import { creations } from "./success.ts"

/** Ownership of jobs and files: a record of another caller looks exactly like one that does not exist. */

const unknownJob = "job_00000000000000000000000000"
const unknownUpload = "upl_00000000000000000000000000"

/** Every caller except the key that created a job. */
const strangers: ReadonlyArray<readonly [name: string, make: (api: Api, owner: Key) => Promise<Key>]> = [
  ["another key of the project", (api, owner) => api.newKey({ besides: owner })],
  ["a live key of the project", (api, owner) => api.newKey({ besides: owner, mode: "live" })],
  ["another project", (api) => api.newKey()],
  ["a live key of another project", (api) => api.newKey({ mode: "live" })],
]

/** The same request about something of the owner's and about something nobody has: the answers must not differ. */
const expectUnknown = async (api: Api, code: string, owned: Call, unknown: Call) => {
  const [one, other] = [await api.send(owned), await api.send(unknown)]
  expect(one.code).toBe(code)
  expect(one.comparable).toBe(other.comparable)
}

const families = [
  { name: "audio", create: "/v1/audio/speech", body: { input: "mine" }, own: "/v1/jobs", foreign: "/v1/images/jobs" },
  {
    name: "image",
    create: "/v1/images/generations",
    body: { prompt: "mine" },
    own: "/v1/images/jobs",
    foreign: "/v1/jobs",
  },
] as const

const jobRoutes = (base: string, id: string): ReadonlyArray<Call> => [
  { method: "GET", path: `${base}/${id}` },
  { method: "DELETE", path: `${base}/${id}/data` },
]

const foreignJobs: ReadonlyArray<Row> = families.flatMap((family) =>
  rows(
    strangers,
    ([name]) => `${family.name} job: ${name} finds nothing on any route, and disturbs nothing`,
    async (api, [, make]) => {
      const owner = await api.key()
      const key = await make(api, owner)
      const job = await api.job(family.create, family.body)
      const before = await api.finished(job.path)
      for (const base of [family.own, family.foreign]) {
        const unknown = jobRoutes(base, unknownJob)
        for (const [at, call] of jobRoutes(base, job.id).entries())
          await expectUnknown(api, "job_not_found", { ...call, key }, { ...unknown[at]!, key })
      }
      const { output, ...after } = (await api.get(job.path)).json
      expect(output).toBeDefined()
      expect(after).toEqual({ ...before, output: undefined })
    },
  ),
)

const unfinished = rows(
  families,
  ({ name }) => `${name} job in processing: another caller's DELETE is 404, not 409`,
  async (api, { create, own }) => {
    const job = await api.job(create, { [create.includes("images") ? "prompt" : "input"]: "sandbox:delay:20" })
    await api.polled(job.path, "processing")
    const key = await api.newKey({ besides: await api.key() })
    await expectUnknown(
      api,
      "job_not_found",
      { method: "DELETE", path: `${own}/${job.id}/data`, key },
      { method: "DELETE", path: `${own}/${unknownJob}/data`, key },
    )
  },
)

const wrongFamily = rows(
  families,
  ({ name }) => `the owner finds no ${name} job under the other family`,
  async (api, { body, create, foreign }) => {
    const job = await api.job(create, body)
    await api.finished(job.path)
    for (const call of jobRoutes(foreign, job.id)) {
      const answer = await api.send(call)
      // The message may say where the job is; status and code do not.
      expect([answer.status, answer.code]).toEqual([404, "job_not_found"])
      expect(answer.text).not.toContain(job.id)
      const { error } = answer
      const [unknown] = jobRoutes(foreign, unknownJob)
      expect({ ...error, message: "", request_id: "" }).toEqual({
        ...(await api.send(unknown!)).error,
        message: "",
        request_id: "",
      })
    }
    expect((await api.get(job.path)).json).toHaveProperty("output")
  },
)

const scopeFirst = rows(
  families,
  ({ name }) => `${name} job: without the scope, its owner learns nothing either`,
  async (api, { create, body, own }) => {
    const key = await api.key()
    const job = await api.job(create, body)
    const blind = await api.newKey({ besides: key, scopes: [] })
    for (const [at, call] of jobRoutes(own, job.id).entries())
      await expectUnknown(
        api,
        "insufficient_scope",
        { ...call, key: blind },
        { ...jobRoutes(own, unknownJob)[at]!, key: blind },
      )
  },
)

const noKey = row("without a key, jobs that exist look like jobs that do not", async (api) => {
  const job = await api.job("/v1/audio/speech", { input: "mine" })
  for (const headers of [{ authorization: null }, { authorization: "Bearer x" }] as const) {
    const [one, other] = [await api.get(job.path, { headers }), await api.get(`/v1/jobs/${unknownJob}`, { headers })]
    expect(one.status).toBe(401)
    expect(one.comparable).toBe(other.comparable)
  }
})

const consuming = creations.filter(({ type }) => type === "transcription" || type === "voice_turn")

const foreignUploads: ReadonlyArray<Row> = consuming.flatMap(({ path, type }) =>
  rows(
    strangers.filter(([name]) => !name.includes("live")),
    ([name]) => `${type}: ${name} cannot use an upload, whatever its state`,
    async (api, [, make]) => {
      const key = await make(api, await api.key())
      const used = await api.uploaded(wav(1))
      await api.job("/v1/audio/transcriptions", { upload_id: used })
      const rest = type === "voice_turn" ? { max_output_tokens: 5 } : {}
      const unknown = { method: "POST", path, key, json: { upload_id: unknownUpload, ...rest } }
      for (const upload_id of [(await api.upload()).id, await api.uploaded(wav(1)), used])
        await expectUnknown(api, "upload_not_found", { ...unknown, json: { upload_id, ...rest } }, unknown)
      // Refused to the stranger, the file is still there for its owner.
      const upload_id = await api.uploaded(wav(1))
      await api.send({ ...unknown, json: { upload_id, ...rest } })
      expect((await api.post(path, { upload_id, ...rest })).status).toBe(202)
    },
  ),
)

export const ownership = table("ownership", foreignJobs, unfinished, wrongFamily, scopeFirst, noKey, foreignUploads)
