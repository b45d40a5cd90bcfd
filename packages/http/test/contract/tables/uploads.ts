import { expect } from "vitest"
import { type Api, type Headers, putCall } from "../support/Api.ts"
import { acceptedTypes, brokenWav, matroskaStart, mp3, sampleOf, wav } from "@kiln/service-lab"
import { chunk, requestBytes } from "../support/Connection.ts"
import { row, rows, table } from "../support/tables.ts"

/** What a PUT may bring: types, contents, sizes, codings, and what else may be in its head. */

/** A smaller limit than the real one, so that its neighborhood is cheap to visit. */
export const MAX_BYTES = 200_000
export const uploadSettings = { engine: { upload: { maxBytes: MAX_BYTES } } } as const

const formats = ["mp3", "mp4", "wav", "webm", "m4a"] as const
const familyOf = (format: string) => (format === "m4a" ? "mp4" : format)

/** Starts a PUT and leaves it to the row to go on. */
export const begin = async (api: Api, url: string, headers: Headers, body: Uint8Array = new Uint8Array(0)) => {
  const request = await api.request(putCall(url, body, headers))
  const connection = await api.connect()
  return connection.send(requestBytes(request))
}
export const chunkedHeaders = { "transfer-encoding": "chunked", "content-length": null }

export const putChunks = async (api: Api, url: string, chunks: ReadonlyArray<Uint8Array>) => {
  const connection = await begin(api, url, chunkedHeaders)
  for (const data of chunks) connection.send(chunk(data))
  const answer = await api.answerOn(connection.send(chunk("")), "PUT")
  connection.destroy()
  return answer
}

const goodTypes = formats.flatMap((format) =>
  (acceptedTypes[format] ?? []).flatMap((type, n) =>
    // One variation each: letter case, a parameter, several of them.
    [type, [type.toUpperCase(), `${type};codecs=1`, `${type} ; a=b; c="d"`][n % 3] ?? type].map(
      (spelled) => [format, spelled] as const,
    ),
  ),
)

const types = [
  ...rows(
    goodTypes,
    ([format, type]) => `${format} may be sent as ${type}`,
    async (api, [format, type]) => {
      const { upload_url } = await api.upload(format)
      const answer = await api.put(upload_url, sampleOf[format]!(), { "content-type": type })
      expect(answer.status, answer.text).toBe(204)
    },
  ),
  ...rows(
    formats,
    (format) => `${format} may be sent as nothing else: 415 names what is expected`,
    async (api, format) => {
      const { upload_url } = await api.upload(format)
      const accepted = acceptedTypes[format] ?? []
      const foreign = Object.values(acceptedTypes)
        .flat()
        .filter((type) => !accepted.includes(type))
      const never = [
        null,
        "",
        "application/octet-stream",
        "multipart/form-data; boundary=x",
        "application/x-www-form-urlencoded",
        "text/plain",
        "application/json",
        "audio/*",
        "*/*",
        "audio/ogg",
        "audio/flac",
        "audio",
        `audio/${format}x`,
        `xaudio/${format}`,
        `audio/${format}, text/plain`,
      ]
      for (const type of [...never, ...new Set(foreign)]) {
        const answer = await api.put(upload_url, sampleOf[format]!(), { "content-type": type })
        expect(answer.code, String(type)).toBe("unsupported_content_type")
        const expected = answer.error.details?.expected
        expect(Object.keys(answer.error.details ?? {})).toEqual(["expected"])
        expect(expected).toContain(accepted[0])
        expect(new Set([...accepted, ...(expected as ReadonlyArray<string>)]).size).toBe(accepted.length)
      }
      // None of these began a transfer, or the fifth would have been the last.
      expect((await api.put(upload_url, sampleOf[format]!(), { "content-type": accepted[0]! })).status).toBe(204)
    },
  ),
]

const contents = [
  ...rows(
    formats.flatMap((declared) => formats.map((sent) => [declared, sent] as const)),
    ([declared, sent]) => `${sent} bytes declared as ${declared}`,
    async (api, [declared, sent]) => {
      const { id, upload_url } = await api.upload(declared)
      const answer = await api.put(upload_url, sampleOf[sent]!(), { "content-type": acceptedTypes[declared]![0]! })
      if (familyOf(declared) === familyOf(sent)) return expect(answer.status, answer.text).toBe(204)
      expect(answer.error).toMatchObject({
        code: "audio_format_mismatch",
        details: { declared, detected: familyOf(sent) },
      })
      expect(Object.keys(answer.error.details ?? {}).toSorted()).toEqual(["declared", "detected"])
      // Nothing readable was left behind, and the URL is free again.
      expect((await api.post("/v1/audio/transcriptions", { upload_id: id })).code).toBe("upload_not_ready")
      expect(
        (await api.put(upload_url, sampleOf[declared]!(), { "content-type": acceptedTypes[declared]![0]! })).status,
      ).toBe(204)
    },
  ),
  ...rows<readonly [string, Buffer]>(
    [
      ["text", Buffer.from("hello, this is no audio at all, whatever the header says ".repeat(4))],
      ["zeros", Buffer.alloc(4_096)],
      ["a PNG", Buffer.from("89504e470d0a1a0a0000000d49484452", "hex")],
      ["JSON", Buffer.from('{"RIFF":"WAVE"}')],
      ["RIFF of another kind", Buffer.from("RIFF\0\0\0\0AVI LIST", "latin1")],
      ["a cut RIFF header", Buffer.from("RIFF\0\0\0\0WAV", "latin1")],
      ["Matroska", matroskaStart()],
      ["one byte", Buffer.from("R")],
      ["a zip", Buffer.from("504b0304140000000800", "hex")],
    ],
    ([name]) => `${name} is not a supported format`,
    async (api, [, file]) => {
      for (const format of formats) {
        const { upload_url } = await api.upload(format)
        const answer = await api.put(upload_url, file, { "content-type": `audio/${format}` })
        expect(answer.error, format).toMatchObject({
          code: "audio_format_mismatch",
          details: { declared: format, detected: null },
        })
      }
    },
  ),
  row("bytes behind an ID3 tag tell WAVE from MP3", async (api) => {
    for (const tagBytes of [20, 9_000]) {
      const tag = Buffer.concat([
        Buffer.from([0x49, 0x44, 0x33, 4, 0, 0, 0, 0, tagBytes >> 7, tagBytes & 127]),
        Buffer.alloc(tagBytes),
      ])
      const { upload_url } = await api.upload("wav")
      const send = (file: Buffer) => api.put(upload_url, Buffer.concat([tag, file]), { "content-type": "audio/wav" })
      expect((await send(mp3())).error.details).toEqual({ declared: "wav", detected: "mp3" })
      expect((await send(wav(1))).status).toBe(204)
    }
  }),
  row("a file is judged by its first bytes only: the rest is for the worker", async (api) => {
    for (const file of [
      brokenWav(),
      Buffer.from("RIFF\0\0\0\0WAVE", "latin1"),
      Buffer.concat([wav(0), Buffer.from("<script>")]),
    ]) {
      const { upload_url } = await api.upload()
      expect((await api.put(upload_url, file)).status).toBe(204)
    }
  }),
  row("an empty file is 422, however it is empty", async (api) => {
    const { upload_url } = await api.upload()
    expect((await api.put(upload_url, new Uint8Array(0))).code).toBe("empty_file")
    expect((await putChunks(api, upload_url, [])).code).toBe("empty_file")
    expect((await api.put(upload_url, new Uint8Array(0), { "content-length": null })).code).toBe("empty_file")
    expect((await api.put(upload_url, wav(1))).status).toBe(204)
  }),
  row("a chunked file may be cut anywhere", async (api) => {
    const { id, upload_url } = await api.upload()
    const file = wav(0.2)
    expect(
      (
        await putChunks(
          api,
          upload_url,
          [...file].map((byte) => Buffer.from([byte])),
        )
      ).status,
    ).toBe(204)
    const job = await api.job("/v1/audio/transcriptions", { upload_id: id })
    expect((await api.finished(job.path)).status).toBe("done")
  }),
]

const fileOf = (length: number) => Buffer.concat([wav(1), Buffer.alloc(length - wav(1).length)])

const sizes = [
  row("the limit is announced, and inclusive", async (api) => {
    const upload = await api.upload()
    expect(upload.max_bytes).toBe(MAX_BYTES)
    expect((await api.put(upload.upload_url, fileOf(MAX_BYTES))).status).toBe(204)
    expect((await putChunks(api, (await api.upload()).upload_url, [fileOf(MAX_BYTES)])).status).toBe(204)
  }),
  ...rows(
    [MAX_BYTES + 1, MAX_BYTES * 2],
    (length) => `${length} bytes are 413, after all of them were sent`,
    async (api, length) => {
      const { id, upload_url } = await api.upload()
      const answer = await api.put(upload_url, fileOf(length))
      expect(answer.error).toMatchObject({ code: "file_too_large", details: { max_bytes: MAX_BYTES } })
      expect((await api.post("/v1/audio/transcriptions", { upload_id: id })).code).toBe("upload_not_ready")
      expect((await api.put(upload_url, wav(1))).status).toBe(204)
    },
  ),
  ...rows(
    [MAX_BYTES + 1, MAX_BYTES + 70_000],
    (length) => `${length} bytes in chunks are 413, although nobody said so`,
    async (api, length) => {
      const { id, upload_url } = await api.upload()
      const file = fileOf(length)
      const answer = await putChunks(api, upload_url, [file.subarray(0, 1_000), file.subarray(1_000)])
      expect(answer.error).toMatchObject({ code: "file_too_large", details: { max_bytes: MAX_BYTES } })
      expect((await api.post("/v1/audio/transcriptions", { upload_id: id })).code).toBe("upload_not_ready")
      expect((await api.put(upload_url, wav(1))).status).toBe(204)
    },
  ),
  row("an endless file is 413 once it is past twice the limit", async (api) => {
    const connection = await begin(api, (await api.upload()).upload_url, chunkedHeaders)
    connection.send(chunk(wav(1)))
    for (let sent = 0; sent <= 2 * MAX_BYTES; sent += 50_000) connection.send(chunk(Buffer.alloc(50_000)))
    expect((await api.answerOn(connection, "PUT")).code).toBe("file_too_large")
    connection.destroy()
  }),
]

const early: ReadonlyArray<
  readonly [code: string, prepare: (api: Api) => Promise<readonly [url: string, headers: Headers]>]
> = [
  ["file_too_large", async (api) => [(await api.upload()).upload_url, { "content-length": String(MAX_BYTES + 1) }]],
  ["file_too_large", async (api) => [(await api.upload()).upload_url, { "content-length": "99999999999" }]],
  [
    "unsupported_content_type",
    async (api) => [(await api.upload()).upload_url, { "content-type": "text/plain", "content-length": "100" }],
  ],
  ["upload_url_invalid", async (api) => [`${(await api.upload()).upload_url}x`, { "content-length": "100" }]],
  [
    "upload_already_completed",
    async (api) => {
      const { upload_url } = await api.upload()
      await api.put(upload_url, wav(1))
      return [upload_url, { "content-length": "100" }]
    },
  ],
]

const expectations = [
  ...rows(
    early,
    ([code]) => `Expect: 100-continue is refused with ${code} and no 100`,
    async (api, [code, prepare]) => {
      const [url, headers] = await prepare(api)
      const connection = await begin(api, url, { expect: "100-continue", ...headers })
      const answer = await api.answerOn(connection, "PUT")
      connection.destroy()
      expect({ code: answer.code, interim: answer.wire.interim }).toEqual({ code, interim: [] })
    },
  ),
  row("Expect: 100-continue of a good transfer gets 100, then 204", async (api) => {
    const file = wav(1)
    const connection = await begin(api, (await api.upload()).upload_url, {
      expect: "100-continue",
      "content-length": String(file.length),
    })
    await new Promise((resolve) => setTimeout(resolve, 50))
    const answer = await api.answerOn(connection.send(file), "PUT")
    connection.destroy()
    expect({ status: answer.status, interim: answer.wire.interim }).toEqual({ status: 204, interim: [100] })
  }),
]

const authorizations = rows<string | ReadonlyArray<string>>(
  ["Bearer x", "Basic eDp5", "", "Bearer kiln_test_x", ["Bearer a", "Bearer b"]],
  (authorization) => `Authorization ${JSON.stringify(authorization)} is ignored`,
  async (api, authorization) => {
    const answer = await api.put((await api.upload()).upload_url, wav(1), { authorization })
    expect(answer.status, answer.text).toBe(204)
  },
)

export const uploads = table("uploads", types, contents, sizes, expectations, authorizations)
