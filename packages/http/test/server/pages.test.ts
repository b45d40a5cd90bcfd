import { createHash, randomUUID } from "node:crypto"
import { get } from "node:http"
import { Effect } from "effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { Switchboard } from "@kiln/core/ports"
import type { HttpSettings } from "../../src/index.ts"
import { defaultRateLimits } from "../../src/server/rateLimits.ts"
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
const compressedLength = (path: string, coding: string): Promise<number> =>
  new Promise((resolve, reject) => {
    get(local() + path, { headers: { "accept-encoding": coding } }, (response) => {
      let bytes = 0
      response.on("data", (chunk: Buffer) => (bytes += chunk.length)).on("end", () => resolve(bytes))
    }).on("error", reject)
  })
/** Everything a page would load by itself. */
const loaded = (html: string) =>
  [
    ...html.matchAll(
      /<(?:script|img|link|iframe|source|video|audio|object|embed)\b[^>]*?\s(?:src|href|data)="([^"]*)"/g,
    ),
  ].map(([, url = ""]) => url)

describe.each([
  ["/", 150_000],
  ["/docs", 200_000],
] as const)("%s", (path, most) => {
  it("runs only its own script and style, and connects only to the service", async () => {
    const { policy, response, text } = await page(path)
    expect(response.status).toBe(200)
    expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8")
    for (const [element, directive] of [
      ["script", "script-src"],
      ["style", "style-src"],
    ] as const) {
      const content = [...text.matchAll(new RegExp(`<${element}[^>]*>([\\s\\S]*?)</${element}>`, "g"))].map(
        ([, code = ""]) => code,
      )
      expect(content).toHaveLength(1)
      const hash = createHash("sha256")
        .update(content[0] ?? "")
        .digest("base64")
      expect(policy).toContain(`${directive} 'sha256-${hash}';`)
    }
    expect(policy).toContain("default-src 'none'")
    expect(policy).not.toContain("unsafe")
    expect(policy).toContain("connect-src 'self' https://api.example;")
    const markup = text.replaceAll(/<(script|style)[^>]*>[\s\S]*?<\/\1>/g, "")
    expect(loaded(markup).filter((url) => !url.startsWith("data:"))).toEqual([])
    expect(markup).not.toMatch(/\son[a-z]+=|\sstyle="/)
    expect(markup).toContain('lang="en"')
  })

  it(`is small: at most ${most / 1_000} kB compressed`, async () => {
    for (const coding of ["br", "gzip"]) {
      // `fetch` would decompress it.
      const bytes = await compressedLength(path, coding)
      expect(bytes).toBeLessThan(most)
      // A build that lost its content would be small, too.
      expect(bytes).toBeGreaterThan(15_000)
    }
  })

  it("knows the kinds and the URL of this installation", async () => {
    const { text } = await page(path)
    const [, config = ""] = /<body data-config="([^"]*)">/.exec(text) ?? []
    expect(JSON.parse(config.replaceAll("&quot;", '"'))).toMatchObject({
      url: "https://api.example/base",
      // Not only this machine can reach `api.example`.
      playground: false,
      kinds: [
        { name: "transcription", upload: "upload_id" },
        { name: "speech_synthesis", path: "/v1/audio/speech", poll: "/v1/jobs/", upload: null },
        { name: "voice_turn" },
        { name: "image_generation", poll: "/v1/images/jobs/" },
      ],
    })
  })
})

describe("the keys of the playground", () => {
  const ask = (url: string, init: RequestInit = {}) =>
    fetch(`${url}/playground/key`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: "{}",
      ...init,
    })
  const speak = (url: string, key: string) =>
    fetch(`${url}/v1/audio/speech`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json", "idempotency-key": randomUUID() },
      body: JSON.stringify({ input: "x" }),
    })

  it("are sandbox keys that expire after an hour and have limits of their own", async () => {
    await using local = await startServer()
    const response = await ask(local.url)
    expect([response.status, response.headers.get("cache-control")]).toEqual([201, "no-store"])
    const { expires_at, key } = (await response.json()) as { readonly expires_at: string; readonly key: string }
    expect(key).toMatch(/^kiln_test_/)
    expect(Math.abs(Date.parse(expires_at) - Date.now() - 3_600_000)).toBeLessThan(60_000)
    const job = await speak(local.url, key)
    expect([job.status, job.headers.get("ratelimit-policy")]).toEqual([202, '"create";q=20;w=60'])
    expect(await job.json()).toMatchObject({ mode: "sandbox" })
  })

  it("are at most 20 an address", async () => {
    await using local = await startServer()
    const statuses: Array<number> = []
    for (let n = 0; n < 21; n++) statuses.push((await ask(local.url)).status)
    expect(statuses).toEqual([...Array<number>(20).fill(201), 429])
    const refused = await ask(local.url)
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(3_500)
    expect(await refused.json()).toMatchObject({ error: { code: "rate_limited" } })
  })

  it("are removed a day after they expired, by the next visitor", async () => {
    const pruned: Array<unknown> = []
    await using local = await startServer({
      wrapKeys: (keys) => ({
        ...keys,
        pruneKeys: (...given) => {
          pruned.push(given)
          return keys.pruneKeys(...given)
        },
      }),
    })
    for (let n = 0; n < 3; n++) await ask(local.url)
    // Once an hour is enough.
    expect(pruned).toEqual([["prj_playground", 86_400_000]])
  })

  it("are not made for other sites, which cannot send JSON in a visitor's name", async () => {
    await using local = await startServer()
    const sent = await ask(local.url, { headers: { "content-type": "text/plain" } })
    expect(sent.status).toBe(415)
    const preflight = await fetch(`${local.url}/playground/key`, { method: "OPTIONS" })
    expect([preflight.status, preflight.headers.get("access-control-allow-origin")]).toEqual([405, null])
  })

  it.each<readonly [string, Partial<HttpSettings>, number]>([
    ["a local service", {}, 201],
    ["a local service that says so", { publicUrl: "http://localhost:8787" }, 201],
    ["a service with a public URL", { publicUrl: "https://kiln.example" }, 404],
    ["a service that other machines reach", { host: "0.0.0.0" }, 404],
    ["a public service that wants it", { publicUrl: "https://kiln.example", playground: true }, 201],
    ["a local service with KILN_PLAYGROUND=off", { playground: false }, 404],
    ["a service without pages", { pages: false }, 404],
  ])("%s: %o responds with %i", async (_, http, status) => {
    await using one = await startServer({ http })
    expect((await ask(`http://127.0.0.1:${one.port}`)).status).toBe(status)
  })
})

describe("the prices of the playground", () => {
  it("are told to holders of a key, by kind, as far as live jobs are accepted under them", async () => {
    await using local = await startServer()
    const { secret } = await local.createKey()
    const ask = (headers: Readonly<Record<string, string>>) => fetch(`${local.url}/playground/prices`, { headers })
    for (const headers of [{}, { authorization: `Bearer ${secret}0` }]) expect((await ask(headers)).status).toBe(401)
    await local.run(
      Effect.gen(function* () {
        const board = yield* Switchboard
        yield* board.setPrice({ name: "svc-image", currency: "eur", unitAmounts: { images: "0.011", other: "9" } })
        yield* board.activatePrice("svc-image", true)
        // It lacks the tokens of voice turns.
        const unitAmounts = { input_audio_seconds: "0.0001", input_characters: "0.000015" }
        yield* board.setPrice({ name: "svc-audio", currency: "usd", unitAmounts })
        yield* board.activatePrice("svc-audio", true)
      }),
    )
    const response = await ask({ authorization: `Bearer ${secret}` })
    expect([response.status, await response.json()]).toEqual([
      200,
      {
        prices: {
          transcription: { currency: "usd", unit_amounts: { input_audio_seconds: "0.0001" } },
          speech_synthesis: { currency: "usd", unit_amounts: { input_characters: "0.000015" } },
          image_generation: { currency: "eur", unit_amounts: { images: "0.011" } },
        },
      },
    ])
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
