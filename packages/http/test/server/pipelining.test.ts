import { connect } from "node:net"
import { expect, it } from "vitest"
import { codeOf, head, RawConnection } from "./RawConnection.ts"
import { defaultRateLimits } from "../../src/server/rateLimits.ts"
import { startServer } from "./startServer.ts"

const pipelined = 1_500

it("1,500 pipelined requests for the OpenAPI document are answered one by one, and so is another client meanwhile", async () => {
  const rateLimits = { ...defaultRateLimits, pages: { perMinute: 0, burst: 0 } }
  await using server = await startServer({ http: { rateLimits } })
  const socket = connect(server.port, "127.0.0.1")
  const size = (await (await fetch(`${server.url}/openapi.json`)).text()).length
  const got = { answers: 0, bytes: 0 }
  socket.on("data", (data) => (got.bytes += data.length))
  socket.write(head("GET /openapi.json").repeat(pipelined))
  for (; got.bytes < pipelined * size; got.answers++) expect((await fetch(`${server.url}/healthz`)).status).toBe(200)
  socket.destroy()
  expect(got.answers).toBeGreaterThan(1)
})

it("sends nothing more to a client that reads nothing", async () => {
  const seen = { keys: 0 }
  await using counted = await startServer({
    wrapKeys: (keys) => ({
      ...keys,
      findKey: (hash) => {
        seen.keys++
        return keys.findKey(hash)
      },
    }),
  })
  const { secret } = await counted.createKey()
  const socket = connect(counted.port, "127.0.0.1").pause()
  // The answers fill what sockets hold; the keyed request behind them is not begun.
  const large = head("GET /docs", "Accept-Encoding: identity").repeat(50)
  socket.write(large + head("GET /v1/jobs/job_x", `Authorization: Bearer ${secret}`))
  await fetch(`${counted.url}/docs`)
  for (let n = 0; n < 100; n++) await fetch(`${counted.url}/healthz`)
  expect(seen.keys).toBe(0)
  socket.on("data", () => {}).resume()
  while (seen.keys === 0) await new Promise((resolve) => setTimeout(resolve, 10))
  socket.destroy()
})

it.each([
  ["a web socket", ["Connection: Upgrade", "Upgrade: websocket"]],
  ["HTTP/2", ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c"]],
])("a request to upgrade to %s is answered as an ordinary one, and the connection is closed", async (_, lines) => {
  await using server = await startServer()
  using connection = new RawConnection(server.port)
  connection.send(head("GET /healthz", ...lines) + head("GET /v1/nothing"))
  const answer = await connection.read()
  expect([answer.status, answer.headers.get("connection")]).toEqual([200, "close"])
  await connection.untilClosed()
})

it.each([[[]], [["Connection: keep-alive, upgrade-insecure"]]])(
  "an Upgrade that Connection does not name keeps the connection: %j",
  async (lines) => {
    await using server = await startServer()
    using connection = new RawConnection(server.port)
    connection.send(head("GET /healthz", ...lines, "Upgrade: h2c"))
    const answer = await connection.read()
    expect([answer.status, answer.headers.get("connection")]).toEqual([200, "keep-alive"])
    connection.send(head("GET /v1/nothing"))
    expect((await connection.read()).status).toBe(404)
  },
)

it.each([
  ["alone", "", [404]],
  ["behind another request", head("GET /healthz"), [200, 404]],
])("a tunnel is refused at once, %s", async (_, before, statuses) => {
  await using server = await startServer()
  using connection = new RawConnection(server.port)
  connection.send(`${before}CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n`)
  const answers = []
  for (const _status of statuses) answers.push(await connection.read())
  expect(answers.map(({ status }) => status)).toEqual(statuses)
  expect(answers.map(codeOf).at(-1)).toBe("not_found")
  await connection.untilClosed()
})
