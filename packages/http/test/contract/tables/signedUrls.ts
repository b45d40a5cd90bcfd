import { expect } from "vitest"
import { targetOf } from "../support/Api.ts"
import { expectInvalid, forEachCapability, parts } from "../support/capabilities.ts"
import { filePath, masters, signedTarget, uploadPath } from "../support/signing.ts"
import { row, table } from "../support/tables.ts"

/** What a signature stands for: method, path, purpose, object, key, end. */

const forged = forEachCapability(
  ({ name }) => `${name}: a genuine signature for another method, path, purpose, object or key is 403`,
  async (api, one, target) => {
    const { e, path } = parts(target)
    const expires = Number(e.slice(2))
    const purpose = one.name === "upload" ? "upload" : "download"
    const other = one.name === "upload" ? "download" : "upload"
    const withPath = (signed: string) => `${path}?${signed.split("?")[1]}`
    const unknownUpload = uploadPath("upl_00000000000000000000000000")
    await expectInvalid(api, one, [
      [
        "the other method",
        withPath(signedTarget({ purpose, path, expires, method: one.name === "upload" ? "GET" : "PUT" })),
      ],
      ["HEAD", withPath(signedTarget({ purpose, path, expires, method: "HEAD" }))],
      [
        "the other purpose",
        withPath(signedTarget({ purpose: other, path, expires, method: one.name === "upload" ? "PUT" : "GET" })),
      ],
      [
        "another object",
        withPath(
          signedTarget({
            purpose,
            path: path.replace(/.(?=(\/file)?$)/, (last) => (last === "0" ? "1" : "0")),
            expires,
          }),
        ),
      ],
      [
        "the public URL signed with it",
        withPath(signedTarget({ purpose, path: `https://api.kiln.example${path}`, expires })),
      ],
      [
        "another master",
        withPath(signedTarget({ purpose, path, expires, master: { kid: "k1", bytes: Buffer.alloc(32, "guessed") } })),
      ],
      [
        "the older master under the newer name",
        withPath(signedTarget({ purpose, path, expires, master: { kid: "k1", bytes: masters[1].bytes } })),
      ],
      ["a text for a time", withPath(signedTarget({ purpose, path, expires: "9999999999e0" }))],
      ["a leading zero, signed", withPath(signedTarget({ purpose, path, expires: `0${expires}` }))],
      ...(one.name === "upload"
        ? [["an unknown upload", signedTarget({ purpose, path: unknownUpload, expires })] as const]
        : []),
      ...(one.name === "upload"
        ? [["a malformed upload", signedTarget({ purpose, path: uploadPath("upl_x"), expires })] as const]
        : []),
    ])
  },
)

const genuine = forEachCapability(
  ({ name }) => `${name}: the signature is the one the contract writes down, and an older key still verifies`,
  async (api, { call, works }, target) => {
    const { e, path } = parts(target)
    const purpose = path.startsWith("/v1/files") ? "download" : "upload"
    expect(target).toBe(signedTarget({ purpose, path, expires: e.slice(2) }))
    expect(
      works(await api.quietly(call(signedTarget({ purpose, path, expires: e.slice(2), master: masters[1] })))),
    ).toBe(true)
  },
)

const ends = forEachCapability(
  ({ expired, name }) => `${name}: a genuine URL that has expired is ${expired}, a spoilt one still 403`,
  async (api, { call, expired, invalid }, target) => {
    const { path } = parts(target)
    const purpose = path.startsWith("/v1/files") ? "download" : "upload"
    const now = Math.floor(Date.now() / 1000)
    for (const expires of [now, now - 1, 1]) {
      const old = signedTarget({ purpose, path, expires })
      expect((await api.send(call(old))).code).toBe(expired)
      expect((await api.send(call(old.replace(/.$/, (last) => (last === "A" ? "B" : "A"))))).code).toBe(invalid)
    }
  },
)

const hosts = forEachCapability(
  ({ name }) => `${name}: neither Host nor forwarding headers are part of it`,
  async (api, { call, works }, target) => {
    const one = call(target)
    const headers = {
      ...one.headers,
      host: "evil.example",
      "x-forwarded-host": "evil.example",
      "x-forwarded-proto": "http",
      forwarded: "host=evil.example",
    }
    expect(works(await api.quietly({ ...one, headers }))).toBe(true)
  },
)

const configured = row("absolute URLs come from configuration, whatever Host says", async (api) => {
  const headers = {
    host: "evil.example",
    "x-forwarded-host": "evil.example",
    "x-forwarded-proto": "http",
    forwarded: "host=evil.example",
  }
  const upload = await api.post("/v1/audio/uploads", { format: "wav", declared_seconds: 1 }, { headers })
  const job = await api.post("/v1/audio/speech", { input: "x" }, { headers: { ...headers, "idempotency-key": "k" } })
  const answers = `${upload.text}${job.header("location")}`
  expect(answers).not.toContain("evil")
  expect(answers.split("https://api.kiln.example/v1/")).toHaveLength(3)
})

const swapped = row("a URL of one kind opens nothing of the other", async (api) => {
  const upload = parts(targetOf((await api.upload()).upload_url))
  const fileId = `fil_${/upl_([0-9a-z]+)/i.exec(upload.path)?.[1]}`
  expect((await api.get(`${filePath(fileId)}?${upload.query}`, { key: null })).code).toBe("file_url_invalid")
})

export const signedUrls = table("signed URLs", forged, genuine, ends, hosts, configured, swapped)
