import { randomBytes } from "node:crypto"
import { Cause, Effect, Exit, Layer } from "effect"
import { layerCrypto, layerEngine } from "@kiln/core/effect"
import { SecretStore } from "@kiln/core/ports"
import { MemoryBlobStore, MemoryStores } from "@kiln/testing"
import { describe, expect, it } from "vitest"
import {
  defaultHttpSettings,
  defaultRateLimits,
  HttpConfig,
  HttpService,
  type HttpSettings,
  Readiness,
} from "../../src/index.ts"
import { signingKeyring } from "../../src/server/signingKeyring.ts"
import { signUpload } from "../../src/wire/SignedUrls.ts"
import { head, RawConnection } from "./RawConnection.ts"
import { startServer, type TestServer } from "./startServer.ts"

const failureOf = async (http: Partial<HttpSettings>): Promise<unknown> => {
  const service = HttpService.layer.pipe(
    Layer.provide(Readiness.layer),
    Layer.provide(layerEngine),
    Layer.provide([MemoryStores.layer, MemoryBlobStore.layer, layerCrypto]),
    Layer.provide(Layer.succeed(HttpConfig, { ...defaultHttpSettings, port: 0, ...http })),
  )
  const exit = await Effect.runPromiseExit(Effect.scoped(Layer.build(service)))
  return Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
}

describe("HttpService", () => {
  it("names the port that it cannot use", async () => {
    await using server = await startServer()
    expect(await failureOf({ port: server.port })).toMatchObject({
      _tag: "ListenFailed",
      host: "127.0.0.1",
      port: server.port,
    })
  })

  it("names the invalid setting and why, without repeating a key", async () => {
    const key = randomBytes(16).toString("base64")
    const failure = await failureOf({ signingKeys: `k1:${key}` })
    expect(failure).toMatchObject({ _tag: "HttpSettingInvalid", setting: "signingKeys" })
    expect(JSON.stringify(failure)).not.toContain(key)
    expect(await failureOf({ trustedProxies: ["10.0.0.0/99"] })).toMatchObject({ setting: "trustedProxies" })
    for (const publicUrl of [
      "api.example",
      "ftp://api.example",
      "https://a:b@api.example",
      "https://api.example/?x",
      "",
    ])
      expect(await failureOf({ publicUrl }), publicUrl).toMatchObject({ setting: "publicUrl" })
  })

  it("creates URLs with the configured address, or with its actual port", async () => {
    await using plain = await startServer()
    expect(plain.url).toBe(`http://127.0.0.1:${plain.port}`)
    await using configured = await startServer({ http: { publicUrl: "https://api.example/base/" } })
    expect(configured.url).toBe("https://api.example/base")
  })
})

describe("reloading settings", () => {
  const reload = (server: TestServer, http: Partial<HttpSettings>) =>
    server.run(
      Effect.exit(Effect.flatMap(HttpService, (service) => service.reload({ ...defaultHttpSettings, ...http }))),
    )
  const limitOf = async (server: TestServer, key: string) => {
    const headers = { authorization: `Bearer ${key}` }
    const response = await fetch(`http://127.0.0.1:${server.port}/v1/jobs/x`, { headers })
    return response.headers.get("ratelimit-policy")
  }

  it("applies them to new requests, and keeps the previous ones if they are invalid", async () => {
    await using server = await startServer()
    const { secret } = await server.createKey()
    const before = await limitOf(server, secret)
    const rateLimits = { ...defaultRateLimits, read: { perMinute: 600, burst: 7 } }
    expect(Exit.isSuccess(await reload(server, { rateLimits }))).toBe(true)
    const after = await limitOf(server, secret)
    expect(after).toContain("600")
    expect(after).not.toBe(before)
    const refused = await reload(server, { trustedProxies: ["10.0.0.0/99"] })
    expect(Exit.isFailure(refused) && Cause.squash(refused.cause)).toMatchObject({ setting: "trustedProxies" })
    expect(await limitOf(server, secret)).toBe(after)
  })

  it("lets requests that have begun finish", async () => {
    await using server = await startServer()
    const { secret } = await server.createKey()
    using half = new RawConnection(server.port)
    const body = JSON.stringify({ input: "x" })
    half.send(
      head(
        "POST /v1/audio/speech",
        `Authorization: Bearer ${secret}`,
        "Content-Type: application/json",
        "Idempotency-Key: one",
        `Content-Length: ${body.length}`,
      ) + body.slice(0, 5),
    )
    // The request above has arrived before this response.
    await limitOf(server, secret)
    expect(Exit.isSuccess(await reload(server, { pages: false }))).toBe(true)
    expect((await half.send(body.slice(5)).read()).status).toBe(202)
    expect((await fetch(`http://127.0.0.1:${server.port}/docs`)).status).toBe(404)
  })
})

it("processes that share a store use the same signing key permanently", async () => {
  const url = { publicUrl: "", uploadId: "upl_x", expiresAtSeconds: 1 }
  const sign = Effect.map(signingKeyring(undefined), (keyring) => signUpload(keyring, url))
  const [first, second, elsewhere] = await Effect.runPromise(
    Effect.gen(function* () {
      const shared = yield* Effect.provideService(Effect.all([sign, sign]), SecretStore, yield* SecretStore)
      return [...shared, yield* Effect.provide(sign, Layer.fresh(MemoryStores.layer))]
    }).pipe(Effect.provide(MemoryStores.layer)),
  )
  expect(second).toBe(first)
  expect(elsewhere).not.toBe(first)
})
