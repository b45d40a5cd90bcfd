import { createHash } from "node:crypto"
import { BlobStore, UploadStore } from "@kiln/core/ports"
import { Effect, Stream } from "effect"
import { expect } from "vitest"
import type { Answer } from "../support/Answer.ts"
import { type Api, putCall } from "../support/Api.ts"
import { wav } from "@kiln/service-lab"
import { row, rows, table } from "../support/tables.ts"
import { expectReplay } from "./idempotency.ts"
import { creations } from "./success.ts"

/** Fifty at once: one wins, and the others are told so. */

const FIFTY = Array.from({ length: 50 }, (_, n) => n)

const outcomes = (answers: ReadonlyArray<Answer>) => {
  const counts: Record<string, number> = {}
  for (const answer of answers) counts[answer.code ?? answer.status] = (counts[answer.code ?? answer.status] ?? 0) + 1
  return counts
}

const oneKey = rows(
  creations,
  ({ type }) => `fifty ${type} requests with one idempotency key make one job`,
  async (api, { body, path }) => {
    const json = await body(api)
    const call = { method: "POST", path, json, headers: { "idempotency-key": "race" } }
    const answers = await Promise.all(FIFTY.map(() => api.quietly(call)))
    expect(outcomes(answers)).toEqual({ 202: 50 })
    const first = answers.filter((answer) => answer.header("idempotency-replayed") === undefined)
    expect(first).toHaveLength(1)
    for (const answer of answers) if (answer !== first[0]) expectReplay(answer, first[0]!)
    api.note("jobs", new Set(answers.map((answer) => answer.json.id)).size)
  },
)

const twoRequests = row(
  "fifty requests of two kinds with one idempotency key: one kind wins, the other is 422",
  async (api) => {
    const headers = { "idempotency-key": "race" }
    const answers = await Promise.all(
      FIFTY.map((n) =>
        api.quietly({ method: "POST", path: "/v1/audio/speech", json: { input: `kind ${n % 2}` }, headers }),
      ),
    )
    expect(outcomes(answers)).toEqual({ 202: 25, idempotency_key_reused: 25 })
    expect(new Set(answers.filter(({ status }) => status === 202).map((answer) => answer.json.id)).size).toBe(1)
    const kinds = new Set(answers.flatMap(({ status }, n) => (status === 202 ? [n % 2] : [])))
    expect(kinds.size).toBe(1)
  },
)

const oneUpload = row("fifty jobs for one upload: one is accepted, 49 are upload_already_used", async (api) => {
  const upload_id = await api.uploaded(wav(1))
  const calls = FIFTY.map((n) =>
    n % 2 === 0
      ? { path: "/v1/audio/transcriptions", json: { upload_id } }
      : { path: "/v1/voice/turns", json: { upload_id, max_output_tokens: 5 } },
  )
  const answers = await Promise.all(calls.map((call) => api.quietly({ method: "POST", ...call })))
  expect(outcomes(answers)).toEqual({ 202: 1, upload_already_used: 49 })
})

/** The bytes the store holds for an upload, and what its row says of them. */
const storedFile = (api: Api, uploadId: `upl_${string}`) =>
  api.service.run(
    Effect.gen(function* () {
      const upload = yield* (yield* UploadStore).findUpload(uploadId)
      if (upload?.file === null || upload === undefined) throw new Error("no file arrived")
      const blob = yield* (yield* BlobStore).open(upload.file.blobKey)
      const parts = yield* Stream.runCollect(blob.content)
      return { row: upload.file, bytes: Buffer.concat([...parts]) }
    }),
  )

const onePut = row("fifty PUTs on one URL: one 204, and the stored bytes are exactly its body", async (api) => {
  const upload = await api.upload()
  // Files of different lengths and contents, so that a mixture would show.
  const files = FIFTY.map((n) => Buffer.concat([wav(1), Buffer.alloc(2_000 * (n % 7) + n, n)]))
  const answers = await Promise.all(files.map((file) => api.quietly(putCall(upload.upload_url, file))))
  const winners = answers.flatMap((answer, n) => (answer.status === 204 ? [n] : []))
  expect(winners).toHaveLength(1)
  for (const answer of answers)
    expect(["upload_in_progress", "upload_already_completed", undefined]).toContain(answer.code)
  const body = files[winners[0]!]!
  const { bytes, row } = await storedFile(api, upload.id)
  expect(bytes.equals(body)).toBe(true)
  expect(row).toMatchObject({ bytes: body.length, sha256: createHash("sha256").update(body).digest("hex") })
  expect((await api.put(upload.upload_url, wav(1))).code).toBe("upload_already_completed")
})

const manyUploads = row("fifty uploads at once keep their files apart", async (api) => {
  const ids = await Promise.all(
    FIFTY.map(async (n) => {
      const announced = await api.quietly({
        method: "POST",
        path: "/v1/audio/uploads",
        json: { format: "wav", declared_seconds: 1 },
      })
      const file = Buffer.concat([wav(1), Buffer.alloc(100, n)])
      expect((await api.quietly(putCall(announced.json.upload_url, file))).status).toBe(204)
      return { id: announced.json.id as `upl_${string}`, file }
    }),
  )
  for (const { file, id } of ids) expect((await storedFile(api, id)).bytes.equals(file)).toBe(true)
})

const deleteRace = row(
  "concurrent deletions and polls: the data is gone for every poll after the first 204",
  async (api) => {
    const job = await api.job("/v1/audio/speech", { input: "x" })
    await api.finished(job.path)
    const answers = await Promise.all(
      FIFTY.map((n) => api.quietly(n % 2 === 0 ? { path: job.path } : { method: "DELETE", path: `${job.path}/data` })),
    )
    expect(outcomes(answers)).toEqual({ 200: 25, 204: 25 })
    const after = await api.get(job.path)
    expect(after.json).toMatchObject({ status: "done", warning_code: "data_deleted" })
    expect(after.json).not.toHaveProperty("output")
  },
)

export const races = table("races", oneKey, twoRequests, oneUpload, onePut, manyUploads, deleteRace)
