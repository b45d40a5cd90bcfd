import { createHash } from "node:crypto"
import { expect } from "vitest"
import { type Api, putCall } from "../support/Api.ts"
import { wav } from "@kiln/service-lab"
import { chunk } from "../support/Connection.ts"
import { signedTarget, uploadPath } from "../support/signing.ts"
import { row, rows, table } from "../support/tables.ts"
import { begin, chunkedHeaders, MAX_BYTES } from "./uploads.ts"

/** The life of an upload URL: running, broken off, used up, done; and the order of a PUT's checks. */

const transcribe = (api: Api, upload_id: string) => api.post("/v1/audio/transcriptions", { upload_id })

/** A transfer under way: its claim is held, and its end is in the row's hands. */
const running = async (api: Api, url: string) => {
  const connection = await begin(api, url, chunkedHeaders)
  connection.send(chunk(wav(1)))
  await api.until(
    putCall(url, wav(1), { "content-type": "text/plain" }),
    (answer) => answer.code === "upload_in_progress",
  )
  return connection
}

/** Begins and loses `count` transfers. */
const spend = async (api: Api, url: string, count: number) => {
  for (let n = 0; n < count; n++) expect((await api.put(url, new Uint8Array(0))).code).toBe("empty_file")
}

const life = [
  row("while a transfer runs, another is 409 and a job must wait; then it wins", async (api) => {
    const { id, upload_url } = await api.upload()
    const connection = await running(api, upload_url)
    expect((await api.put(upload_url, wav(1))).code).toBe("upload_in_progress")
    expect((await transcribe(api, id)).code).toBe("upload_not_ready")
    expect((await api.answerOn(connection.send(chunk("")), "PUT")).status).toBe(204)
    connection.destroy()
    expect((await transcribe(api, id)).status).toBe(202)
  }),
  row("after it, another is always 409: with a job, and when the job's data is gone", async (api) => {
    const { id, upload_url } = await api.upload()
    expect((await api.put(upload_url, wav(1))).status).toBe(204)
    expect((await api.put(upload_url, wav(1))).code).toBe("upload_already_completed")
    const job = await api.job("/v1/audio/transcriptions", { upload_id: id })
    await api.finished(job.path)
    expect((await api.put(upload_url, wav(2))).code).toBe("upload_already_completed")
    expect((await api.delete(`${job.path}/data`)).status).toBe(204)
    expect((await api.put(upload_url, wav(2))).code).toBe("upload_already_completed")
    expect((await transcribe(api, id)).code).toBe("upload_already_used")
  }),
  ...rows(
    ["a chunked", "a declared"],
    (kind) => `${kind} transfer that breaks off frees the URL and leaves nothing readable`,
    async (api, kind) => {
      const { id, upload_url } = await api.upload()
      const file = wav(3)
      const connection =
        kind === "a chunked"
          ? (await begin(api, upload_url, chunkedHeaders)).send(chunk(file))
          : (await begin(api, upload_url, { "content-length": String(file.length + 1) })).send(file)
      await api.until(
        putCall(upload_url, wav(1), { "content-type": "text/plain" }),
        (answer) => answer.code === "upload_in_progress",
      )
      connection.destroy()
      await api.until(
        putCall(upload_url, wav(1), { "content-type": "text/plain" }),
        (answer) => answer.code === "unsupported_content_type",
      )
      expect((await transcribe(api, id)).code).toBe("upload_not_ready")
      expect((await api.put(upload_url, wav(1))).status).toBe(204)
      expect((await transcribe(api, id)).status).toBe(202)
    },
  ),
  row("a chunked transfer whose end is no chunk frees the URL too", async (api) => {
    const { id, upload_url } = await api.upload()
    const connection = (await begin(api, upload_url, chunkedHeaders)).send(chunk(wav(1))).send("nonsense\r\n")
    await connection.readToEnd().catch(() => [])
    connection.destroy()
    await api.until(
      putCall(upload_url, wav(1), { "content-type": "text/plain" }),
      (answer) => answer.code === "unsupported_content_type",
    )
    expect((await transcribe(api, id)).code).toBe("upload_not_ready")
    expect((await api.put(upload_url, wav(1))).status).toBe(204)
  }),
  row("five transfers may begin; then the upload counts as expired, for PUTs and for jobs", async (api) => {
    const { id, upload_url } = await api.upload()
    await spend(api, upload_url, 4)
    expect((await transcribe(api, id)).code).toBe("upload_not_ready")
    await spend(api, upload_url, 1)
    expect((await api.put(upload_url, wav(1))).code).toBe("upload_expired")
    expect((await transcribe(api, id)).code).toBe("upload_expired")
  }),
  row("the fifth transfer may succeed", async (api) => {
    const { id, upload_url } = await api.upload()
    await spend(api, upload_url, 4)
    expect((await api.put(upload_url, wav(1))).status).toBe(204)
    expect((await transcribe(api, id)).status).toBe(202)
  }),
  row("refusals by headers do not count as transfers", async (api) => {
    const { upload_url } = await api.upload()
    for (let n = 0; n < 8; n++) {
      expect((await api.put(upload_url, wav(1), { "content-type": "text/plain" })).code).toBe(
        "unsupported_content_type",
      )
      expect((await api.put(upload_url, Buffer.alloc(MAX_BYTES + 1))).code).toBe("file_too_large")
      expect((await api.put(`${upload_url}x`, wav(1))).code).toBe("upload_url_invalid")
    }
    const connection = await running(api, upload_url)
    for (let n = 0; n < 8; n++) expect((await api.put(upload_url, wav(1))).code).toBe("upload_in_progress")
    connection.destroy()
    await api.until(putCall(upload_url, wav(1)), (answer) => answer.status === 204)
  }),
]

const digestOf = (algorithm: string, body: Uint8Array) => createHash(algorithm).update(body).digest("base64")
const digestHeaders: Readonly<Record<string, (body: Uint8Array) => Record<string, string>>> = {
  "Content-MD5": (body) => ({ "content-md5": digestOf("md5", body) }),
  Digest: (body) => ({ digest: `crc32c=AAAA, SHA-256=${digestOf("sha256", body)}` }),
  "Content-Digest": (body) => ({ "content-digest": `sha-512=:${digestOf("sha512", body)}:;a=1, unixsum=:AAAA:` }),
  "Repr-Digest": (body) => ({ "repr-digest": `sha-256=:${digestOf("sha256", body)}:` }),
}
/** Digest headers that promise a check which nobody can make. */
const unverifiable: ReadonlyArray<Record<string, string>> = [
  { "content-md5": "" },
  { "content-md5": "no base64" },
  { digest: "crc32c=AAAA" },
  { digest: "constructor=AAAA" },
  { "content-digest": `sha-256=${digestOf("sha256", wav(1))}` },
  { "repr-digest": "md6=:AAAA:" },
]

const bodyHeaders = [
  row("a part of a file is refused, costs no transfer and leaves the URL usable", async (api) => {
    const { id, upload_url } = await api.upload()
    const half = wav(2).subarray(0, 5_000)
    for (let n = 0; n < 6; n++) {
      const answer = await api.put(upload_url, half, { "content-range": `bytes 0-4999/${wav(2).length}` })
      expect([answer.status, answer.code]).toEqual([400, "partial_upload"])
    }
    expect((await transcribe(api, id)).code).toBe("upload_not_ready")
    expect((await api.put(upload_url, wav(2))).status).toBe(204)
  }),
  ...rows(
    Object.entries(digestHeaders),
    ([name]) => `${name}: the file must have this digest`,
    async (api, [, of]) => {
      const { id, upload_url } = await api.upload()
      const answer = await api.put(upload_url, wav(1), of(wav(2)))
      expect([answer.status, answer.code]).toEqual([400, "digest_mismatch"])
      expect((await transcribe(api, id)).code).toBe("upload_not_ready")
      const connection = await begin(api, upload_url, { ...chunkedHeaders, ...of(wav(3)) })
      connection.send(chunk(wav(3))).send(chunk(""))
      expect((await api.answerOn(connection, "PUT")).status).toBe(204)
      connection.destroy()
      expect((await transcribe(api, id)).status).toBe(202)
    },
  ),
  row("one of several digests that differs is enough to refuse the file", async (api) => {
    const headers = { ...digestHeaders["Content-Digest"]!(wav(1)), ...digestHeaders["Content-MD5"]!(wav(2)) }
    expect((await api.put((await api.upload()).upload_url, wav(1), headers)).code).toBe("digest_mismatch")
  }),
  row("a digest that cannot be verified is refused by the name of its header", async (api) => {
    const { upload_url } = await api.upload()
    for (const headers of unverifiable) {
      const answer = await api.put(upload_url, wav(1), headers)
      expect([answer.status, answer.code]).toEqual([400, "digest_mismatch"])
      expect(answer.json.error.message.toLowerCase()).toContain(Object.keys(headers)[0])
    }
    expect((await api.put(upload_url, wav(1))).status).toBe(204)
  }),
  ...rows(
    ["gzip", "aws-chunked", "identity, br"],
    (coding) => `Content-Encoding: ${coding} is refused`,
    async (api, coding) => {
      const { upload_url } = await api.upload()
      const answer = await api.put(upload_url, wav(1), { "content-encoding": coding })
      expect([answer.status, answer.code]).toEqual([415, "unsupported_content_type"])
      expect((await api.put(upload_url, wav(1), { "content-encoding": "identity" })).status).toBe(204)
    },
  ),
]

interface PutViolation {
  readonly code: string
  /** Brings the upload into the state; what it returns is called when the row is over. */
  readonly arrange?: (api: Api, url: string) => Promise<unknown>
  readonly target?: (target: string, id: string) => string
  readonly headers?: Record<string, string>
  readonly body?: Buffer
}

const disconnect = new WeakMap<Api, () => void>()

const putViolations: ReadonlyArray<PutViolation> = [
  { code: "upload_url_invalid", target: (target) => target.replace(/.$/, (last) => (last === "A" ? "B" : "A")) },
  {
    code: "upload_expired",
    target: (_, id) =>
      signedTarget({ purpose: "upload", path: uploadPath(id), expires: Math.floor(Date.now() / 1000) - 1 }),
  },
  { code: "partial_upload", headers: { "content-range": "bytes 0-99/200" } },
  { code: "digest_mismatch", headers: { "content-digest": "crc32=:AAAA:" } },
  { code: "upload_already_completed", arrange: (api, url) => api.put(url, wav(1)) },
  {
    code: "upload_in_progress",
    arrange: async (api, url) => {
      const connection = await running(api, url)
      disconnect.set(api, () => connection.destroy())
    },
  },
  { code: "upload_expired", arrange: (api, url) => spend(api, url, 5) },
  { code: "unsupported_content_type", headers: { "content-type": "text/plain" } },
  { code: "file_too_large", body: Buffer.alloc(MAX_BYTES + 1) },
  { code: "audio_format_mismatch", body: Buffer.from("no audio") },
]

const putPairs = putViolations.flatMap((first, at) =>
  putViolations
    .slice(at + 1)
    // An upload is in one state at a time, and a request has one body.
    .filter((second) => !(first.arrange && second.arrange) && !(first.body && second.body))
    .map((second) => [first, second] as const),
)

const violate = async (api: Api, ...chosen: ReadonlyArray<PutViolation>) => {
  const upload = await api.upload()
  for (const { arrange } of chosen) await arrange?.(api, upload.upload_url)
  const call = putCall(
    upload.upload_url,
    chosen.find(({ body }) => body)?.body ?? wav(1),
    Object.assign({}, ...chosen.map(({ headers }) => headers)),
  )
  const { target } = await api.request(call)
  const path = chosen.reduceRight((rest, violation) => violation.target?.(rest, upload.id) ?? rest, target)
  const answer = await api.send({ ...call, path })
  disconnect.get(api)?.()
  return answer.code
}

const states = (violation: PutViolation) => `${violation.code}${violation.arrange ? " (by state)" : ""}`

const putOrder = [
  ...rows(
    putViolations,
    (one) => `PUT: ${states(one)} by itself`,
    async (api, one) => expect(await violate(api, one)).toBe(one.code),
  ),
  ...rows(
    putPairs,
    ([first, second]) => `PUT: ${states(first)} comes before ${states(second)}`,
    async (api, [first, second]) => expect(await violate(api, first, second)).toBe(first.code),
  ),
  row("PUT: a running transfer comes before a URL that is used up", async (api) => {
    const { upload_url } = await api.upload()
    await spend(api, upload_url, 4)
    const connection = await running(api, upload_url)
    expect((await api.put(upload_url, wav(1))).code).toBe("upload_in_progress")
    connection.destroy()
    await api.until(putCall(upload_url, wav(1)), (answer) => answer.code === "upload_expired")
  }),
  row("PUT: route and method come before the signature, a preflight before everything", async (api) => {
    const path = uploadPath("upl_00000000000000000000000000")
    expect((await api.send({ method: "POST", path, key: null })).code).toBe("method_not_allowed")
    const headers = { origin: "https://app.example", "access-control-request-method": "PUT" }
    expect((await api.send({ method: "OPTIONS", path, key: null, headers })).status).toBeLessThan(300)
  }),
]

export const transfers = table("transfers", life, bodyHeaders, putOrder)
