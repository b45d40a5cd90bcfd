import express from "express"
import { expect, it } from "vitest"
import { fetchHandler, nodeHandler } from "@kiln/http/mount"
import { wav } from "@kiln/service-lab"
import { Client } from "./support/Client.ts"
import { listenerOf } from "./support/listenerOf.ts"
import { openEngine } from "./support/MountedEngine.ts"
import { listen, publicUrl } from "./support/servers.ts"

const places = [
  { given: { publicUrl: "https://app.example/api/kiln" }, at: "/api/kiln", shown: "https://app.example/api/kiln" },
  { given: { publicUrl: "https://app.example/api/kiln/" }, at: "/api/kiln", shown: "https://app.example/api/kiln" },
  { given: { publicUrl: "https://app.example", prefix: "/jobs" }, at: "/jobs", shown: "https://app.example/jobs" },
  {
    given: { publicUrl: "https://app.example/jobs", prefix: "/jobs/" },
    at: "/jobs",
    shown: "https://app.example/jobs",
  },
  // Behind a proxy that takes a part of the path away.
  { given: { publicUrl: "https://app.example/edge", prefix: "" }, at: "", shown: "https://app.example/edge" },
  { given: { publicUrl: "https://app.example" }, at: "", shown: "https://app.example" },
]

it.each(places)("$given is at $at", async ({ at, given, shown }) => {
  await using mounted = await openEngine()
  const secret = await mounted.createKey()
  const handler = await fetchHandler(mounted.engine, given)
  const send = (path: string, init?: RequestInit) => handler(new Request(`http://inside${path}`, init))
  const json = { authorization: `Bearer ${secret}`, "content-type": "application/json" }
  const body = JSON.stringify({ format: "wav", declared_seconds: 1 })
  const response = await send(`${at}/v1/audio/uploads`, { method: "POST", headers: json, body })
  const { upload_url } = await response.json()
  expect(upload_url).toMatch(new RegExp(`^${shown}/v1/audio/uploads/`))
  const put = `${at}${upload_url.slice(shown.length)}`
  const wrongType = await send(put, { method: "PUT", headers: { "content-type": "text/plain" }, body: "x" })
  expect([wrongType.status, (await send(`/x${at}/v1/jobs/x`)).status, (await send(`${at}/v1/jobs/x`)).status]).toEqual([
    415, 404, 401,
  ])
})

const useless = [
  [{ publicUrl: "app.example" }, "publicUrl"],
  [{ publicUrl: "https://app.example/x?y" }, "publicUrl"],
  [{ publicUrl, prefix: "api" }, "prefix"],
  [{ publicUrl, prefix: "/a b" }, "prefix"],
  [{ publicUrl, trustedProxies: ["everybody"] }, "trustedProxies"],
  [{ publicUrl, signingKeys: "k1:c2hvcnQ=" }, "signingKeys"],
] as const

it.each(useless)("%j is refused for its %s", async (options, setting) => {
  await using mounted = await openEngine()
  await expect(fetchHandler(mounted.engine, options)).rejects.toMatchObject({ _tag: "HttpSettingInvalid", setting })
})

it("explains that a body parser came first, and does not blame the client", async () => {
  await using mounted = await openEngine()
  const handler = await nodeHandler(mounted.engine, { publicUrl })
  await using server = await listen(express().use(express.json(), handler))
  const client = new Client(server.port, await mounted.createKey())
  const created = await client.ask("POST", "/v1/audio/speech", { input: "x" })
  expect(created).toMatchObject({ status: 500, body: { error: { code: "internal_error" } } })
  expect(mounted.logged.join("\n")).toContain("mount kiln before body parsers such as express.json()")
  // The client reports the id of its request; the log must have it.
  expect(mounted.logged.join("\n")).toContain(`"requestId":"${created.body.error.request_id}"`)
  expect(mounted.logged.join("\n")).not.toContain("[object Object]")
  expect(JSON.stringify(created.body)).not.toContain("express")
  expect((await client.ask("GET", "/v1/jobs/x")).status).toBe(404)
})

it("explains the same for a web-standard request whose body was read", async () => {
  await using mounted = await openEngine()
  const handler = await fetchHandler(mounted.engine, { publicUrl })
  await using server = await listen(
    listenerOf(async (request) => {
      await request.text()
      return handler(request)
    }),
  )
  const created = await new Client(server.port, await mounted.createKey()).ask("POST", "/v1/audio/speech", {
    input: "x",
  })
  expect(created).toMatchObject({ status: 500, body: { error: { code: "internal_error" } } })
  expect(mounted.logged.join("\n")).toContain("mount kiln before body parsers")
})

it("handles only paths under its prefix, and without a prefix only its routes", async () => {
  await using mounted = await openEngine()
  const inside = await nodeHandler(mounted.engine, { publicUrl })
  const bare = await nodeHandler(mounted.engine, { publicUrl: "https://app.example" })
  const app = express()
    .use(inside)
    .use(bare)
    .use((request, response) => void response.send(`app ${request.url}`))
  await using server = await listen(app)
  const at = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${server.port}${path}`)
    return `${response.status} ${(await response.text()).slice(0, 20)}`
  }
  expect(await Promise.all(["/api/kiln", "/api/kiln/x", "/v1/jobs/x"].map(at))).toEqual([
    '404 {"error":{"type":"no',
    '404 {"error":{"type":"no',
    '401 {"error":{"type":"au',
  ])
  expect(await Promise.all(["/api/kilns", "/api/KILN/v1/jobs/x", "/v1/mine", "/"].map(at))).toEqual([
    "200 app /api/kilns",
    "200 app /api/KILN/v1/job",
    "200 app /v1/mine",
    "200 app /",
  ])
})

it("an aborted request ends its transfer, even if its body does not end", async () => {
  await using mounted = await openEngine()
  const handler = await fetchHandler(mounted.engine, { publicUrl })
  const headers = { authorization: `Bearer ${await mounted.createKey()}`, "content-type": "application/json" }
  const body = JSON.stringify({ format: "wav", declared_seconds: 1 })
  const { upload_url } = await (
    await handler(new Request(`${publicUrl}/v1/audio/uploads`, { method: "POST", headers, body }))
  ).json()
  const put = (type: string, content: BodyInit, signal = new AbortController().signal) => {
    const request = { method: "PUT", headers: { "content-type": type }, body: content, signal, duplex: "half" }
    return handler(new Request(upload_url, request))
  }
  const endless = new ReadableStream<Uint8Array>({ start: (stream) => stream.enqueue(new Uint8Array(wav(1))) })
  const leaving = new AbortController()
  const transfer = put("audio/wav", endless, leaving.signal)
  while ((await put("text/plain", "x")).status !== 409);
  leaving.abort()
  expect((await transfer).status).toBe(503)
  expect((await put("audio/wav", new Uint8Array(wav(1)))).status).toBe(204)
})

it("shows pages only if enabled", async () => {
  await using mounted = await openEngine()
  const [without, with_] = await Promise.all(
    [false, true].map((pages) => fetchHandler(mounted.engine, { publicUrl, pages })),
  )
  const openApi = new Request(`${publicUrl}/openapi.json`)
  expect((await without?.(openApi))?.status).toBe(404)
  expect(await (await with_?.(openApi))?.json()).toMatchObject({ servers: [{ url: publicUrl }] })
})
