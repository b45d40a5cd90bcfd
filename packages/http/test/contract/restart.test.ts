import { describe, expect, it } from "vitest"
import { Answer } from "./support/Answer.ts"
import { Api, putCall } from "./support/Api.ts"
import { wav } from "@kiln/service-lab"
import { chunk, requestBytes } from "./support/Connection.ts"
import { openPlace } from "./support/Place.ts"
import { type ServiceSettings, storeNames } from "./support/Service.ts"
import { startService } from "./support/startService.ts"
import { begin, chunkedHeaders } from "./tables/uploads.ts"

/** The end of a service, and its next beginning. */

describe.each(storeNames)("shutting down (%s)", (store) => {
  it("lets a transfer in progress finish, answers 503 on open connections, and refuses new ones", async () => {
    const service = await startService(store, { serverErrors: true, oneProcess: true })
    const api = new Api(service)
    const { upload_url } = await api.upload()
    const transfer = (await begin(api, upload_url, chunkedHeaders)).send(chunk(wav(1)))
    await api.until(
      putCall(upload_url, wav(1), { "content-type": "text/plain" }),
      (answer) => answer.code === "upload_in_progress",
    )
    const idle = await api.connect()
    const probe = requestBytes(await api.request({ path: "/v1/jobs/x" }))
    expect((await api.answerOn(idle.send(probe), "GET")).code).toBe("job_not_found")
    const busy = await api.request({ method: "POST", path: "/v1/audio/speech", json: { input: "x" } })
    const half = (await api.connect()).send(requestBytes(busy).subarray(0, -3))
    // Everything sent before these responses has been read.
    for (let n = 0; n < 3; n++) await api.quietly({ path: "/healthz", key: null })
    const stopped = service.stop()
    // New connections are refused once it has begun to stop.
    for (let refused = false; !refused;)
      refused = await api
        .connect()
        .then((connection) => connection.destroy())
        .then(
          () => false,
          () => true,
        )
    expect((await api.answerOn(half.send(requestBytes(busy).subarray(-3)), "POST")).status).toBe(202)
    const wire = await idle
      .send(probe)
      .read("GET")
      .catch(() => undefined)
    const late = wire && api.check(new Answer(wire), "GET")
    expect(["service_unavailable", "closed"]).toContain(late === undefined ? "closed" : late.code)
    expect((await api.answerOn(transfer.send(chunk("")), "PUT")).status).toBe(204)
    await stopped
  })
})

/** Defaults of an unconfigured installation: its keys are generated once and kept, and its URLs use its address. */
const unconfigured: ServiceSettings = { http: { publicUrl: undefined, signingKeys: undefined } }
const local = (url: string) => url.slice(new URL(url).origin.length)

const kept = storeNames.filter((store) => store !== "memory")

it.each(kept)(
  "accepted work survives a restart: jobs, replays, uploads, URLs, deletions (%s)",
  async (store) => {
    await using place = await openPlace(store)
    const first = await startService(store, { ...unconfigured, worker: false }, place)
    const before = new Api(first)
    const key = await before.key()
    const headers = { "idempotency-key": "kept" }
    const job = await before.job("/v1/audio/speech", { input: "x" }, { headers })
    const origins = first.ports.map((port) => `http://127.0.0.1:${port}`)
    expect(origins.map((origin) => origin + job.path)).toContain(job.answer.header("location"))
    const upload = await before.upload()
    expect(origins).toContain(new URL(upload.upload_url).origin)
    await first.stop()

    const second = await startService(store, unconfigured, place)
    const after = new Api(second)
    const poll = (await after.polled(job.path, "finished", key)).answer.json
    expect(poll).toMatchObject({ id: job.id, status: "done" })
    const replay = await after.post("/v1/audio/speech", { input: "x" }, { headers, key })
    expect([replay.status, replay.json, replay.header("idempotency-replayed")]).toEqual([202, job.answer.json, "true"])
    expect((await after.put(local(upload.upload_url), wav(1))).status).toBe(204)
    await second.stop()

    const third = await startService(store, unconfigured, place)
    const again = new Api(third)
    expect((await again.get(local(poll.output.audio_url), { key: null })).status).toBe(200)
    const transcription = await again.job("/v1/audio/transcriptions", { upload_id: upload.id }, { key })
    await again.polled(transcription.path, "finished", key)
    expect((await again.delete(`${job.path}/data`, { key })).status).toBe(204)
    expect((await again.get(local(poll.output.audio_url), { key: null })).code).toBe("file_gone")
    expect((await again.post("/v1/audio/speech", { input: "x" }, { headers, key })).json).toEqual(job.answer.json)
    await third.stop()
  },
  // Starting a process takes a second of a core, and six are started.
  120_000,
)
