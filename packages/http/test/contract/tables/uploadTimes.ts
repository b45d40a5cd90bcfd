import { expect } from "vitest"
import { type Api, putCall } from "../support/Api.ts"
import { wav } from "@kiln/service-lab"
import { chunk } from "../support/Connection.ts"
import { row, table } from "../support/tables.ts"
import { begin, chunkedHeaders } from "./uploads.ts"

/** The clocks of an upload: its URL's, its transfer's, its file's. Short ones, for the tests' sake. */

export const uploadTimeSettings = {
  engine: {
    upload: {
      transferWindowMs: 3_500,
      usableForMs: 5_000,
      stallLimitMs: 1_500,
      transferLimitMs: 4_500,
      leaseDurationMs: 2_000,
    },
  },
} as const

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
const transcribe = (api: Api, upload_id: string) => api.post("/v1/audio/transcriptions", { upload_id })
const untilExpired = (api: Api, url: string) =>
  api.until(putCall(url, wav(1), { "content-type": "text/plain" }), (answer) => answer.code === "upload_expired")

/** Sends a chunk now and then until it is told to stop. */
const trickle = async (connection: Awaited<ReturnType<typeof begin>>, forMs: number) => {
  for (const end = Date.now() + forMs; Date.now() < end && !connection.closed;) {
    connection.send(chunk(Buffer.alloc(10)))
    await pause(100)
  }
}

const times = [
  row("a URL is valid exactly while now < expires_at, and afterwards 410, for PUTs and for jobs", async (api) => {
    const { expires_at, id, upload_url } = await api.upload()
    const expires = Date.parse(expires_at)
    let begun = Date.now()
    while (true) {
      begun = Date.now()
      // A refusal by headers: it shows that the URL is valid without using it.
      const answer = await api.quietly(putCall(upload_url, wav(1), { "content-type": "text/plain" }))
      const ended = Date.now()
      if (answer.code === "upload_expired") {
        expect(ended).toBeGreaterThanOrEqual(expires)
        break
      }
      expect(answer.code).toBe("unsupported_content_type")
      expect(begun).toBeLessThan(expires)
      await pause(20)
    }
    expect((await api.put(upload_url, wav(1))).code).toBe("upload_expired")
    expect((await transcribe(api, id)).code).toBe("upload_expired")
  }),
  row("expired comes before completed; a file sent in time serves a job after its URL expired", async (api) => {
    const { id, upload_url } = await api.upload()
    expect((await api.put(upload_url, wav(1))).status).toBe(204)
    await untilExpired(api, upload_url)
    const job = await api.job("/v1/audio/transcriptions", { upload_id: id })
    expect((await api.finished(job.path)).status).toBe("done")
  }),
  row("a file waits for its job as long as it is usable, then the upload is expired", async (api) => {
    const { id, upload_url } = await api.upload()
    expect((await api.put(upload_url, wav(1))).status).toBe(204)
    await pause(5_000)
    expect((await transcribe(api, id)).code).toBe("upload_expired")
  }),
  row("a transfer that began in time may end after the URL expired", async (api) => {
    const { expires_at, id, upload_url } = await api.upload()
    const connection = (await begin(api, upload_url, chunkedHeaders)).send(chunk(wav(1)))
    await trickle(connection, Date.parse(expires_at) - Date.now() + 150)
    expect((await transcribe(api, id)).code).toBe("upload_not_ready")
    expect((await api.answerOn(connection.send(chunk("")), "PUT")).status).toBe(204)
    connection.destroy()
    expect((await transcribe(api, id)).status).toBe(202)
  }),
  row("a stalled transfer is 408, and the URL may be used again", async (api) => {
    const { upload_url } = await api.upload()
    const begun = Date.now()
    const connection = (await begin(api, upload_url, chunkedHeaders)).send(chunk(wav(1)))
    expect((await api.answerOn(connection, "PUT")).code).toBe("upload_timeout")
    expect(Date.now() - begun).toBeGreaterThanOrEqual(990)
    connection.destroy()
    expect((await api.put(upload_url, wav(1))).status).toBe(204)
  }),
  row("a declared transfer that stalls before its first byte is 408 too", async (api) => {
    const { upload_url } = await api.upload()
    const connection = await begin(api, upload_url, { "content-length": "1000" })
    expect((await api.answerOn(connection, "PUT")).code).toBe("upload_timeout")
    connection.destroy()
  }),
  row("a transfer that never stalls and never ends is 408 in the end", async (api) => {
    const { upload_url } = await api.upload()
    const begun = Date.now()
    const connection = (await begin(api, upload_url, chunkedHeaders)).send(chunk(wav(1)))
    const dripping = trickle(connection, 6_000)
    expect((await api.answerOn(connection, "PUT")).code).toBe("upload_timeout")
    expect(Date.now() - begun).toBeGreaterThanOrEqual(4_400)
    connection.destroy()
    await dripping
  }),
  row("a slow transfer keeps its claim for longer than the claim's lease", async (api) => {
    const { upload_url } = await api.upload()
    const connection = (await begin(api, upload_url, chunkedHeaders)).send(chunk(wav(1)))
    const dripping = trickle(connection, 3_200)
    // Of two processes either may be the first with its transfer: the other PUTs come once this one is.
    const probe = putCall(upload_url, wav(1), { "content-type": "text/plain" })
    await api.until(probe, (answer) => answer.code === "upload_in_progress")
    for (const end = Date.now() + 2_200; Date.now() < end; await pause(50)) {
      const answer = await api.quietly(putCall(upload_url, wav(1)))
      expect(answer.code).toBe("upload_in_progress")
    }
    await dripping
    expect((await api.answerOn(connection.send(chunk("")), "PUT")).status).toBe(204)
    connection.destroy()
  }),
]

export const uploadTimes = table("upload times", times)
