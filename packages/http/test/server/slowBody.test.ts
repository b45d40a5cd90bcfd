import { KeyDirectory } from "@kiln/core/ports"
import { Effect } from "effect"
import { expect, it } from "vitest"
import { RawConnection } from "./RawConnection.ts"
import { startServer } from "./startServer.ts"

const body = JSON.stringify({ input: "hello" })

it("a key that is revoked while its body arrives is refused", async () => {
  await using server = await startServer()
  const { id, secret } = await server.createKey()
  using slow = new RawConnection(server.port)
  slow.send(
    `POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${secret}\r\nIdempotency-Key: a\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`,
  )
  const poll = () =>
    fetch(`${server.url}/v1/jobs/job_00000000000000000000000000`, { headers: { authorization: `Bearer ${secret}` } })
  // The headers of the slow one were taken before: they came first, on a connection of its own.
  expect((await poll()).status).toBe(404)
  await server.run(Effect.flatMap(KeyDirectory, (keys) => keys.revokeKey(id)))
  while ((await poll()).status !== 401) await new Promise((resolve) => setTimeout(resolve, 100))
  slow.send(body)
  expect((await slow.read("POST")).status).toBe(401)
})
