import { join } from "node:path"
import { expect, it } from "vitest"
import { clientOf } from "../express/support/clientOf.ts"
import { startServer } from "../express/support/startServer.ts"

it("creates images, accepts files, keeps its own parsers, and shuts down on a signal", async () => {
  await using server = await startServer(join(import.meta.dirname, "main.ts"), "API key: kiln_test_")
  const client = clientOf(server.url, { authorization: `Bearer ${server.printed("an API key: ")}` })

  const drawn = await client.run("/api/kiln/v1/images/generations", { prompt: "A kiln" })
  expect(drawn.job).toMatchObject({ status: "done", output: { format: "png", size: "1024x1024" } })
  const image = await client.download(drawn.job.output.image_url)
  expect([image.mediaType, String.fromCharCode(...image.bytes.slice(1, 4))]).toEqual(["image/png", "PNG"])

  const spoken = await client.run("/api/kiln/v1/audio/speech", { input: "Hello from Fastify" })
  const speech = await client.download(spoken.job.output.audio_url)
  const announced = await client.ask("POST", "/api/kiln/v1/audio/uploads", { format: "mp3", declared_seconds: 2 })
  // Fastify has no parser for this type and would reject it.
  const put = { method: "PUT", headers: { "content-type": "audio/mpeg" }, body: speech.bytes }
  expect((await fetch(client.here(announced.body.upload_url), put)).status).toBe(204)

  expect(await client.ask("POST", "/echo", { some: ["json"] })).toMatchObject({
    status: 200,
    body: { received: { some: ["json"] } },
  })
  const elsewhere = await client.ask("GET", "/api/kiln/v1/nothing")
  expect([elsewhere.status, elsewhere.body.error.code]).toEqual([404, "not_found"])

  expect(await server.end("SIGTERM")).toEqual({
    exitCode: 0,
    stderr: "",
    stdout: "listens at http://127.0.0.1:PORT\nan API key: KEY\nstops at SIGTERM\nstopped\n",
  })
})
