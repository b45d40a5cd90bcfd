import { createHash } from "node:crypto"
import { runInNewContext } from "node:vm"
import { exampleIdempotencyKey } from "@kiln/client/api"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { defaultRateLimits } from "../../src/wire/RateLimiter.ts"
import { startServer, type TestServer } from "./startServer.ts"

let server: TestServer
beforeAll(async () => {
  server = await startServer({ http: { publicUrl: "https://api.example/base/" } })
})
afterAll(() => server.stop())

const local = () => `http://127.0.0.1:${server.port}`
const page = async (path: string) => {
  const response = await fetch(local() + path)
  return { response, text: await response.text(), policy: response.headers.get("content-security-policy") ?? "" }
}
/** Everything a page would load by itself. */
const loaded = (html: string) =>
  [
    ...html.matchAll(
      /<(?:script|img|link|iframe|source|video|audio|object|embed)\b[^>]*?\s(?:src|href|data)="([^"]*)"/g,
    ),
  ].map(([, url = ""]) => url)

describe("/", () => {
  it("runs only its own script and style, and connects only to the service", async () => {
    const { policy, response, text } = await page("/")
    expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8")
    for (const [element, directive] of [
      ["script", "script-src"],
      ["style", "style-src"],
    ] as const) {
      const content = [...text.matchAll(new RegExp(`<${element}>([\\s\\S]*?)</${element}>`, "g"))].map(
        ([, code = ""]) => code,
      )
      expect(content).toHaveLength(1)
      const hash = createHash("sha256")
        .update(content[0] ?? "")
        .digest("base64")
      expect(policy).toContain(`${directive} 'sha256-${hash}'`)
    }
    expect(policy).toContain("default-src 'none'")
    expect(policy).toContain("connect-src 'self' https://api.example;")
    expect(loaded(text).filter((url) => !url.startsWith("data:"))).toEqual([])
    expect(text).not.toMatch(/\son[a-z]+=|\sstyle="/)
  })

  it("labels every field for screen readers", async () => {
    const { text } = await page("/")
    const fields = [...text.matchAll(/<(?:input|textarea|select) id="([\w-]+)"/g)].map(([, id = ""]) => id)
    expect(fields.length).toBeGreaterThan(5)
    for (const id of fields) expect(text, id).toContain(`<label for="${id}">`)
    expect(text).toContain('lang="en"')
    expect(text).toContain('aria-live="polite"')
  })
})

describe("/docs", () => {
  it("is self-contained and may load nothing from elsewhere", async () => {
    const { policy, response, text } = await page("/docs")
    expect(response.status).toBe(200)
    expect(
      loaded(text.replaceAll(/<script>[\s\S]*?<\/script>/g, "")).filter((url) => !url.startsWith("data:")),
    ).toEqual([])
    expect(text).not.toMatch(/<script[^>]*\ssrc=/)
    expect(policy).toContain("default-src 'none'")
    expect(policy.match(/https?:\/\/[^\s;]+/g)).toEqual(["https://api.example"])
    expect(text).toContain("/v1/voice/turns")
  })
})

describe("the reference's requests", () => {
  /** The requests that the page's first script lets through. */
  const sentBy = async (...keys: ReadonlyArray<string>) => {
    const { text } = await page("/docs")
    const [, script = ""] = /^[\s\S]*?<head><script>([\s\S]*?)<\/script>/.exec(text) ?? []
    const sent: Array<string | null> = []
    const scope: { fetch: (input: Request | string, init?: RequestInit) => void } = {
      fetch: (input, init) => void sent.push(new Request(input, init).headers.get("idempotency-key")),
    }
    runInNewContext(script.replaceAll("globalThis", "scope"), { scope, Request, crypto, Uint8Array, Array })
    for (const key of keys) scope.fetch(`${local()}/v1/x`, { method: "POST", headers: { "Idempotency-Key": key } })
    return sent
  }

  it("have a new idempotency key each, unless the reader types one", async () => {
    const example = exampleIdempotencyKey
    const [one, two, own] = await sentBy(example, example, "mine")
    expect(one).toMatch(/^[0-9a-f]{32}$/)
    expect(two).toMatch(/^[0-9a-f]{32}$/)
    expect(two).not.toBe(one)
    expect(own).toBe("mine")
    expect(JSON.stringify(JSON.parse((await page("/openapi.json")).text))).toContain(example)
  })
})

describe("/openapi.json", () => {
  it("describes this installation", async () => {
    const { response, text } = await page("/openapi.json")
    expect(response.headers.get("content-type")).toBe("application/json; charset=utf-8")
    expect(JSON.parse(text)).toMatchObject({ openapi: "3.1.0", servers: [{ url: "https://api.example/base" }] })
  })
})

it.each(["/", "/docs", "/openapi.json"])(
  "%s is sent compressed, and not again to a client that has it cached",
  async (path) => {
    const ask = (headers: Readonly<Record<string, string>>) => fetch(local() + path, { headers })
    const plain = await (await ask({ "accept-encoding": "identity" })).text()
    const tags = new Set<string>()
    for (const coding of ["identity", "gzip", "br"]) {
      const response = await ask({ "accept-encoding": coding })
      expect(response.headers.get("content-encoding")).toBe(coding === "identity" ? null : coding)
      expect(response.headers.get("vary")).toBe("accept-encoding")
      expect((await response.text()) === plain).toBe(true)
      const tag = response.headers.get("etag") ?? ""
      tags.add(tag)
      const again = await ask({ "accept-encoding": coding, "if-none-match": tag })
      expect([again.status, again.headers.get("etag"), await again.text()]).toEqual([304, tag, ""])
    }
    expect(tags.size).toBe(3)
  },
)

it("HEAD of a page has its headers and no body; other methods are 405", async () => {
  const response = await fetch(`${local()}/`, { method: "HEAD" })
  expect([response.status, await response.text()]).toEqual([200, ""])
  expect((await fetch(`${local()}/docs`, { method: "POST" })).headers.get("allow")).toBe("GET, HEAD")
})

it("an address that exceeded its page limit is refused, except for cached pages and HEAD", async () => {
  const rateLimits = { ...defaultRateLimits, pages: { perMinute: 1, burst: 3 } }
  await using fresh = await startServer({ http: { rateLimits } })
  const ask = (init?: RequestInit) => fetch(`${fresh.url}/openapi.json`, init)
  const tag = (await ask()).headers.get("etag") ?? ""
  for (let n = 0; n < 10; n++) expect((await ask({ headers: { "if-none-match": tag } })).status).toBe(304)
  expect([(await ask()).status, (await ask()).status]).toEqual([200, 200])
  for (const path of ["/", "/docs", "/openapi.json"]) {
    const refused = await fetch(fresh.url + path)
    expect([refused.status, Number(refused.headers.get("retry-after")) > 0]).toEqual([429, true])
    expect(await refused.json()).toMatchObject({ error: { code: "rate_limited", type: "rate_limit_error" } })
  }
  expect((await ask({ method: "HEAD" })).status).toBe(200)
  expect((await ask({ headers: { "if-none-match": tag } })).status).toBe(304)
  expect((await fetch(`${fresh.url}/healthz`)).status).toBe(200)
})

it("if pages are off, they are not served, and everything else is unchanged", async () => {
  await using bare = await startServer({ http: { pages: false } })
  for (const path of ["/", "/docs", "/openapi.json"]) expect((await fetch(bare.url + path)).status).toBe(404)
  expect((await fetch(`${bare.url}/healthz`)).status).toBe(200)
})
