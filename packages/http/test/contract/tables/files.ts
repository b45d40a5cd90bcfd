import { createHash } from "node:crypto"
import { expect } from "vitest"
import type { Answer } from "../support/Answer.ts"
import { type Api, type Headers, putCall, targetOf } from "../support/Api.ts"
import { wav } from "@kiln/service-lab"
import { uploadPath } from "../support/signing.ts"
import { row, rows, table } from "../support/tables.ts"

/** What a file URL gives: bytes, headers, ranges; and what other origins may do with signed URLs. */

interface StoredFile {
  readonly jobId: string
  readonly path: string
  readonly url: string
  readonly bytes: Buffer
}

const speechFile = async (api: Api, input = "A file to be fetched"): Promise<StoredFile> => {
  const job = await api.job("/v1/audio/speech", { input })
  const url = targetOf((await api.finished(job.path)).output.audio_url)
  const answer = await api.quietly({ path: url, key: null })
  return { jobId: job.id, path: job.path, url, bytes: answer.wire.body }
}

const imageFile = async (api: Api, prompt = "A picture to be fetched"): Promise<StoredFile> => {
  const job = await api.job("/v1/images/generations", { prompt })
  const url = targetOf((await api.finished(job.path)).output.image_url)
  const answer = await api.quietly({ path: url, key: null })
  return { jobId: job.id, path: job.path, url, bytes: answer.wire.body }
}

const fetchFile = (api: Api, { url }: StoredFile, headers: Headers = {}, method = "GET") =>
  api.send({ method, path: url, key: null, headers })

const expectFileHeaders = (answer: Answer, { jobId }: StoredFile, mediaType: string, extension: string) => {
  expect(answer.header("content-type")).toBe(mediaType)
  expect(answer.header("cache-control")).toBe("private, no-store")
  expect(answer.header("content-security-policy")).toBe("default-src 'none'; sandbox")
  expect(answer.header("referrer-policy")).toBe("no-referrer")
  expect(answer.header("content-disposition")).toBe(`inline; filename="${jobId}.${extension}"`)
}

const kinds = [
  { name: "speech", make: speechFile, mediaType: "audio/mpeg", extension: "mp3" },
  { name: "image", make: imageFile, mediaType: "image/png", extension: "png" },
] as const

const whole = rows(
  kinds,
  ({ name }) => `${name}: GET gives the whole file, HEAD the same headers, with any key or none`,
  async (api, { extension, make, mediaType }) => {
    const file = await make(api)
    for (const headers of [
      {},
      { authorization: "Bearer x" },
      { authorization: ["a", "b"] },
    ] satisfies ReadonlyArray<Headers>) {
      const get = await fetchFile(api, file, headers)
      const head = await fetchFile(api, file, headers, "HEAD")
      expect([get.status, head.status]).toEqual([200, 200])
      expect(get.wire.body.equals(file.bytes)).toBe(true)
      for (const answer of [get, head]) {
        expectFileHeaders(answer, file, mediaType, extension)
        expect(answer.header("content-length")).toBe(String(file.bytes.length))
      }
      expect(head.comparable).toBe(get.comparable.slice(0, get.comparable.indexOf("\n\n") + 2))
    }
  },
)

const contents = [
  row("a speech file is an MP3", async (api) => {
    const { bytes } = await speechFile(api)
    expect(bytes.subarray(0, 3).toString("latin1") === "ID3" || bytes.readUInt16BE(0) >= 0xffe0).toBe(true)
    expect(bytes.length).toBeGreaterThan(400)
  }),
  row("an image is a PNG of 1024 × 1024 derived from its prompt, and nothing but its prompt", async (api) => {
    const hash = ({ bytes }: StoredFile) => createHash("sha256").update(bytes).digest("hex")
    const [first, same, other] = [await imageFile(api, "one"), await imageFile(api, "one"), await imageFile(api, "two")]
    expect(first.bytes.subarray(0, 16).toString("hex")).toBe("89504e470d0a1a0a0000000d49484452")
    expect([first.bytes.readUInt32BE(16), first.bytes.readUInt32BE(20)]).toEqual([1024, 1024])
    expect(hash(first)).toBe(hash(same))
    expect(hash(first)).not.toBe(hash(other))
  }),
  row("a voice turn's file is an MP3 named after its job", async (api) => {
    const job = await api.job("/v1/voice/turns", { upload_id: await api.uploaded(wav(1)), max_output_tokens: 1024 })
    const answer = await api.get((await api.finished(job.path)).output.audio_url, { key: null })
    expectFileHeaders(answer, { jobId: job.id, path: "", url: "", bytes: Buffer.alloc(0) }, "audio/mpeg", "mp3")
  }),
  row("each poll returns a new URL, and all of them work", async (api) => {
    const file = await speechFile(api)
    await new Promise((resolve) => setTimeout(resolve, 1_050))
    const later = targetOf((await api.get(file.path)).json.output.audio_url)
    expect(later).not.toBe(file.url)
    for (const url of [file.url, later]) expect((await fetchFile(api, { ...file, url })).status).toBe(200)
  }),
]

/** Ranges of a file of `n` bytes, and the part they stand for: `undefined` for all of it, `null` for none. */
const ranges: ReadonlyArray<
  readonly [header: string, part: (n: number) => readonly [from: number, to: number] | null | undefined]
> = [
  ["bytes=0-0", () => [0, 0]],
  ["bytes=0-1", () => [0, 1]],
  ["bytes=0-", (n) => [0, n - 1]],
  ["bytes=5-9", () => [5, 9]],
  ["bytes=100-", (n) => [100, n - 1]],
  ["bytes=#last-", (n) => [n - 1, n - 1]],
  ["bytes=#last-#last", (n) => [n - 1, n - 1]],
  ["bytes=10-#beyond", (n) => [10, n - 1]],
  ["bytes=0-99999999999999999999", (n) => [0, n - 1]],
  ["bytes=-1", (n) => [n - 1, n - 1]],
  ["bytes=-5", (n) => [n - 5, n - 1]],
  ["bytes=-#n", (n) => [0, n - 1]],
  ["bytes=-#beyond", (n) => [0, n - 1]],
  ["BYTES=0-0", () => [0, 0]],
  ["bytes=#n-", () => null],
  ["bytes=#n-#beyond", () => null],
  ["bytes=#beyond-", () => null],
  ["bytes=99999999999999999999-", () => null],
  ["bytes=-0", () => null],
  // Malformed ranges are ignored, as RFC 9110 requires.
  ["bytes=", () => undefined],
  ["bytes", () => undefined],
  ["bytes=a-b", () => undefined],
  ["bytes=5-2", () => undefined],
  ["bytes=-", () => undefined],
  ["bytes=1.5-2", () => undefined],
  ["bytes=0x0-0x1", () => undefined],
  ["lines=0-1", () => undefined],
  ["0-1", () => undefined],
]

const spelledFor = (header: string, n: number) =>
  header
    .replaceAll("#last", String(n - 1))
    .replaceAll("#beyond", String(n + 1_000))
    .replaceAll("#n", String(n))

const partial = rows(
  ranges,
  ([header]) => `Range: ${header}`,
  async (api, [header, part]) => {
    const file = await speechFile(api)
    const n = file.bytes.length
    const expected = part(n)
    const answer = await fetchFile(api, file, { range: spelledFor(header, n) })
    if (expected === undefined) {
      expect([answer.status, answer.wire.body.length, answer.header("content-range")]).toEqual([200, n, undefined])
    } else if (expected === null) {
      expect(answer.code).toBe("range_not_satisfiable")
      expect(answer.header("content-range")).toBe(`bytes */${n}`)
    } else {
      const [from, to] = expected
      expect([answer.status, answer.header("content-range"), answer.header("content-length")]).toEqual([
        206,
        `bytes ${from}-${to}/${n}`,
        String(to - from + 1),
      ])
      expect(answer.wire.body.equals(file.bytes.subarray(from, to + 1))).toBe(true)
      expectFileHeaders(answer, file, "audio/mpeg", "mp3")
    }
  },
)

const severalRanges = row("several ranges are answered whole or in parts, never wrongly", async (api) => {
  const file = await speechFile(api)
  const answer = await fetchFile(api, file, { range: "bytes=0-0,2-3" })
  if (answer.status === 200) expect(answer.wire.body.equals(file.bytes)).toBe(true)
  else expect([answer.status, answer.header("content-type")?.split(";")[0]]).toEqual([206, "multipart/byteranges"])
  expect(
    (
      await fetchFile(api, file, {
        range: `bytes=${Array.from({ length: 1_000 }, (_, at) => `${at}-${at}`).join(",")}`,
      })
    ).status,
  ).toBeLessThan(500)
})

const conditional = row("a range that depends on a version nobody has is not a range", async (api) => {
  const file = await speechFile(api)
  for (const ifRange of ['"abc"', "Wed, 21 Oct 2015 07:28:00 GMT"]) {
    const answer = await fetchFile(api, file, { range: "bytes=0-0", "if-range": ifRange })
    expect([answer.status, answer.wire.body.length]).toEqual([200, file.bytes.length])
  }
})

const reassembled = row("the parts of a file make the file", async (api) => {
  const file = await imageFile(api)
  const step = Math.ceil(file.bytes.length / 7)
  const parts: Array<Buffer> = []
  for (let at = 0; at < file.bytes.length; at += step)
    parts.push((await fetchFile(api, file, { range: `bytes=${at}-${at + step - 1}` })).wire.body)
  expect(Buffer.concat(parts).equals(file.bytes)).toBe(true)
})

const gone = rows(
  kinds,
  ({ name }) => `${name}: after deletion every URL issued before is 410 file_gone, also for HEAD and ranges`,
  async (api, { make }) => {
    const file = await make(api)
    expect((await api.delete(`${file.path}/data`)).status).toBe(204)
    expect((await fetchFile(api, file)).code).toBe("file_gone")
    expect((await fetchFile(api, file, { range: "bytes=0-0" })).code).toBe("file_gone")
    expect((await fetchFile(api, file, {}, "HEAD")).status).toBe(410)
    // A spoilt URL of what is gone is spoilt before it is gone.
    expect((await fetchFile(api, { ...file, url: `${file.url}x` })).code).toBe("file_url_invalid")
  },
)

const preflight = rows<readonly [string, (api: Api) => Promise<string>, string]>(
  [
    ["an upload", (api) => api.upload().then(({ upload_url }) => targetOf(upload_url)), "PUT"],
    ["an upload without its signature", (api) => api.upload().then(({ id }) => uploadPath(id)), "PUT"],
    ["a file", (api) => speechFile(api).then(({ url }) => url), "GET"],
    ["a file without its signature", (api) => speechFile(api).then(({ url }) => url.split("?")[0]!), "GET"],
  ],
  ([name]) => `a preflight for ${name} is answered without a look at the signature`,
  async (api, [, target, method]) => {
    const headers = {
      origin: "https://app.example",
      "access-control-request-method": method,
      "access-control-request-headers": method === "PUT" ? "content-type" : "range",
    }
    const answer = await api.send({ method: "OPTIONS", path: await target(api), key: null, headers })
    expect([200, 204]).toContain(answer.status)
    expect(["*", "https://app.example"]).toContain(answer.header("access-control-allow-origin"))
    expect(answer.header("access-control-allow-methods")?.split(/, */)).toContain(method)
    const allowed = answer.header("access-control-allow-headers")?.toLowerCase().split(/, */)
    expect(allowed?.includes("*") === true || allowed?.includes(headers["access-control-request-headers"])).toBe(true)
    expect(answer.header("access-control-allow-credentials")).toBeUndefined()
  },
)

const openOrigins = row("browsers may read every answer on signed URLs, refusals too", async (api) => {
  const headers = { origin: "https://app.example" }
  const { upload_url } = await api.upload()
  const file = await speechFile(api)
  const answers = [
    await api.put(`${upload_url}x`, wav(1), headers),
    await api.put(upload_url, wav(1), { ...headers, "content-type": "text/plain" }),
    await api.put(upload_url, wav(1), headers),
    await api.put(upload_url, wav(1), headers),
    await api.send({ ...putCall(`${upload_url}&x`, wav(1)), headers }),
    await fetchFile(api, file, headers),
    await fetchFile(api, file, { ...headers, range: "bytes=0-1" }),
    await fetchFile(api, file, { ...headers, range: "bytes=99999999-" }),
    await fetchFile(api, { ...file, url: `${file.url}x` }, headers),
  ]
  for (const answer of answers)
    expect(["*", "https://app.example"], `${answer.status}`).toContain(answer.header("access-control-allow-origin"))
})

export const files = table(
  "files",
  whole,
  contents,
  partial,
  severalRanges,
  conditional,
  reassembled,
  gone,
  preflight,
  openOrigins,
)
