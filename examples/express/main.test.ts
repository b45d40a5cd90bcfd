import { join } from "node:path"
import { expect, it } from "vitest"
import { clientOf } from "./support/clientOf.ts"
import { startServer } from "./support/startServer.ts"

const audio = "/api/kiln/v1/audio"

it("creates speech, transcribes it, keeps its own routes, and shuts down on a signal", async () => {
  await using server = await startServer(join(import.meta.dirname, "main.ts"), "API key: kiln_test_")
  const key = server.printed("an API key: ")
  const client = clientOf(server.url, { authorization: `Bearer ${key}` })

  const spoken = await client.run(`${audio}/speech`, { input: "Hello from Express" })
  expect(spoken.job.status).toBe("done")
  const speech = await client.download(spoken.job.output.audio_url)
  expect([speech.mediaType, speech.bytes.length]).toEqual(["audio/mpeg", 12_816])

  const upload = await client.ask("POST", `${audio}/uploads`, { format: "mp3", declared_seconds: 2 })
  const put = { method: "PUT", headers: { "content-type": "audio/mpeg" }, body: speech.bytes }
  expect((await fetch(client.here(upload.body.upload_url), put)).status).toBe(204)
  const heard = await client.run(`${audio}/transcriptions`, { upload_id: upload.body.id })
  expect(heard.job.output).toEqual({ transcript: "Sandbox transcript of an mp3 file of 2.0 seconds." })

  const greeting = await fetch(`${server.url}/greetings`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ name: "Ada" }),
  })
  expect([greeting.status, greeting.headers.get("content-type")]).toEqual([200, "audio/mpeg"])
  expect((await greeting.arrayBuffer()).byteLength).toBeGreaterThan(1_000)

  expect((await client.ask("DELETE", `${spoken.location}/data`)).status).toBe(204)
  expect((await fetch(client.here(spoken.job.output.audio_url))).status).toBe(410)
  const nobody = await clientOf(server.url, {}).ask("GET", spoken.location)
  expect([nobody.status, nobody.body.error.code]).toEqual([401, "missing_api_key"])

  expect(await server.end("SIGTERM")).toEqual({
    exitCode: 0,
    stderr: "",
    stdout: "listens at http://127.0.0.1:PORT\nan API key: KEY\nstops at SIGTERM\nstopped\n",
  })
})

it("shuts down at Ctrl-C while a job runs", async () => {
  await using server = await startServer(join(import.meta.dirname, "main.ts"), "API key: kiln_test_")
  const client = clientOf(server.url, { authorization: `Bearer ${server.printed("an API key: ")}` })
  const { headers } = await client.ask("POST", `${audio}/speech`, { input: "sandbox:delay:1" })
  const location = client.here(headers.get("location")!).slice(server.url.length)
  while ((await client.ask("GET", location)).body.status === "queued");
  expect(await server.end("SIGINT")).toEqual({
    exitCode: 0,
    stderr: "",
    stdout: "listens at http://127.0.0.1:PORT\nan API key: KEY\nstops at SIGINT\nstopped\n",
  })
})
