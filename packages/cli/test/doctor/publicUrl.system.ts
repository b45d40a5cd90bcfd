import { execFileSync, spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { createServer, type RequestListener } from "node:http"
import { createServer as createTlsServer } from "node:https"
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from "node:net"
import { join } from "node:path"
import * as tls from "node:tls"
import { temporaryDirectory } from "@kiln/service-lab"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { checkPublicUrl } from "../../src/doctor/checkPublicUrl.ts"
import { readSettings } from "../../src/Settings.ts"

/** Says what `/readyz` and an unknown path of a service say. Without checks, a proxy keeps `/readyz` from the public. */
const kilnWith =
  (checks?: Readonly<Record<string, string>>): RequestListener =>
  ({ url }, response) => {
    const isReady = checks === undefined || Object.values(checks).every((result) => result === "ok")
    const body =
      url === "/readyz"
        ? { status: isReady ? "ready" : "unavailable", checks }
        : {
            error: {
              type: "not_found_error",
              code: "not_found",
              message: "",
              param: null,
              details: null,
              request_id: "req_1",
            },
          }
    response.writeHead(url === "/readyz" ? (checks === undefined ? 403 : isReady ? 200 : 503) : 404)
    response.end(checks === undefined && url === "/readyz" ? "forbidden" : JSON.stringify(body))
  }

const listening = async (server: Server) => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const { port } = server.address() as AddressInfo
  return { port, [Symbol.asyncDispose]: () => new Promise<void>((resolve) => void server.close(() => resolve())) }
}

const examine = async (url: string) => {
  const read = readSettings({ PUBLIC_URL: url })
  if (!read.ok) throw new Error("the URL is invalid")
  const [check] = await Effect.runPromise(checkPublicUrl(read.settings))
  if (check === undefined) throw new Error("there is no result")
  return check
}

const noOpenssl = spawnSync("openssl", ["version"]).status === 0 ? "" : "openssl is not installed"

/** A self-signed certificate of localhost. */
const certificate = (directory: string, days: number) => {
  const [key, cert] = [join(directory, "key.pem"), join(directory, "cert.pem")]
  const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
  execFileSync(
    "openssl",
    [
      "req",
      "-x509",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:prime256v1",
      "-nodes",
      "-days",
      String(days),
      "-keyout",
      key,
      "-out",
      cert,
      ...subject,
    ],
    { stdio: "ignore" },
  )
  return { key: readFileSync(key, "utf8"), cert: readFileSync(cert, "utf8") }
}

describe("the public URL", () => {
  it("is reachable and ready", async () => {
    await using server = await listening(createServer(kilnWith({ store: "ok" })))
    expect(await examine(`http://127.0.0.1:${server.port}`)).toMatchObject({ status: "ok" })
  })

  it("is reachable behind a proxy that keeps health checks from the public", async () => {
    await using server = await listening(createServer(kilnWith()))
    expect(await examine(`http://127.0.0.1:${server.port}`)).toMatchObject({ status: "ok" })
  })

  it("leads to a service that is not ready", async () => {
    await using server = await listening(createServer(kilnWith({ store: "ok", blobs: "failing" })))
    expect(await examine(`http://127.0.0.1:${server.port}`)).toMatchObject({
      status: "problem",
      summary: expect.stringMatching(/is not ready: blobs$/),
    })
  })

  it.each([
    [200, /status 200, and not as kiln does/, /forward all paths below \/v1 unchanged/],
    [404, /status 404/, /correct PUBLIC_URL/],
    [502, /status 502/, /start kiln serve, and see whether the proxy/],
  ])("leads to something else, which responds with %i", async (status, summary, remedy) => {
    await using server = await listening(createServer((_, response) => response.writeHead(status).end("hello")))
    expect(await examine(`http://127.0.0.1:${server.port}`)).toMatchObject({
      status: "problem",
      summary: expect.stringMatching(summary),
      remedy: expect.stringMatching(remedy),
    })
  })

  it("leads nowhere", async () => {
    const { port } = await (async () => {
      await using server = await listening(createServer())
      return { port: server.port }
    })()
    expect(await examine(`http://127.0.0.1:${port}`)).toMatchObject({
      status: "problem",
      summary: expect.stringMatching(/cannot be reached from here: ECONNREFUSED/),
      remedy: expect.stringMatching(/start kiln serve/),
    })
  })

  it("leads to a server that accepts connections and says nothing", async () => {
    const sockets = new Set<Socket>()
    await using server = await listening(createTcpServer((socket) => void sockets.add(socket)))
    const check = await examine(`https://127.0.0.1:${server.port}`)
    for (const socket of sockets) socket.destroy()
    expect(check).toMatchObject({ status: "problem", summary: expect.stringMatching(/TLS handshake takes too long/) })
  })

  it("has a certificate that clients reject", async ({ skip }) => {
    if (noOpenssl !== "") skip(noOpenssl)
    using directory = temporaryDirectory()
    await using server = await listening(createTlsServer(certificate(directory.path, 90), kilnWith({})))
    expect(await examine(`https://localhost:${server.port}`)).toMatchObject({
      status: "problem",
      summary: expect.stringMatching(/clients reject the certificate of .*SELF_SIGNED/),
      remedy: expect.stringMatching(/public authority/),
    })
  })

  it("has a certificate that expires soon", async ({ skip }) => {
    if (noOpenssl !== "") skip(noOpenssl)
    using directory = temporaryDirectory()
    const pair = certificate(directory.path, 5)
    await using server = await listening(createTlsServer(pair, kilnWith({})))
    const authorities = tls.getCACertificates()
    tls.setDefaultCACertificates([...authorities, pair.cert])
    try {
      expect(await examine(`https://localhost:${server.port}`)).toMatchObject({
        status: "warning",
        summary: expect.stringMatching(/expires in (4|5) d/),
        remedy: expect.stringMatching(/certbot renew/),
      })
    } finally {
      tls.setDefaultCACertificates(authorities)
    }
  })
})
