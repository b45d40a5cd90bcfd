import { request } from "node:http"
import { join } from "node:path"
import { expect, it } from "vitest"
import { clientOf } from "../express/support/clientOf.ts"
import { startServer } from "../express/support/startServer.ts"

const speech = "/api/kiln/v1/audio/speech"

it("serves signed-in users, each with their own jobs, and shuts down cleanly", async () => {
  await using server = await startServer(join(import.meta.dirname, "main.ts"), "listens at http://127.0.0.1:")
  const signIn = async (name: string, password: string) => {
    const response = await fetch(`${server.url}/session`, { method: "POST", body: JSON.stringify({ name, password }) })
    return { status: response.status, cookie: response.headers.get("set-cookie") }
  }
  const clientFor = async (name: string, password: string) => {
    const { cookie } = await signIn(name, password)
    expect(cookie).toMatch(/^session=[\w-]{36}; Path=\/; HttpOnly; Secure; SameSite=Lax$/)
    return clientOf(server.url, { cookie: cookie!.split(";")[0]! })
  }
  const [ann, bob] = [await clientFor("ann", "clay"), await clientFor("bob", "glaze")]

  const { job, location } = await ann.run(speech, { input: "Hello from Hono" })
  expect(job.status).toBe("done")
  const { bytes, mediaType } = await ann.download(job.output.audio_url)
  expect([mediaType, bytes.length > 1_000]).toEqual(["audio/mpeg", true])
  expect((await bob.ask("GET", location)).status).toBe(404)
  expect((await ann.ask("DELETE", `${location}/data`)).status).toBe(204)

  const upload = await bob.ask("POST", "/api/kiln/v1/audio/uploads", { format: "mp3", declared_seconds: 2 })
  const put = { method: "PUT", headers: { "content-type": "audio/mpeg" }, body: bytes }
  expect((await fetch(bob.here(upload.body.upload_url), put)).status).toBe(204)

  expect(await signIn("ann", "glaze")).toEqual({ status: 401, cookie: null })
  const nobody = clientOf(server.url, { cookie: "session=made-up" })
  expect(await nobody.ask("POST", speech, { input: "x" })).toMatchObject({
    status: 401,
    body: {
      error: {
        code: "missing_api_key",
        message: "This request is not authenticated. Send the credentials that this service expects.",
      },
    },
  })
  const image = await ann.ask("POST", "/api/kiln/v1/images/generations", { prompt: "x" })
  expect([image.status, image.body.error.code]).toEqual([403, "insufficient_scope"])

  expect(await server.end("SIGTERM")).toEqual({
    exitCode: 0,
    stderr: "",
    stdout: "listens at http://127.0.0.1:PORT\nstops at SIGTERM\nstopped\n",
  })
})

it("releases an upload whose sender disconnected, which may be sent again", async () => {
  await using server = await startServer(join(import.meta.dirname, "main.ts"), "listens at http://127.0.0.1:")
  const signedIn = await fetch(`${server.url}/session`, {
    method: "POST",
    body: JSON.stringify({ name: "ann", password: "clay" }),
  })
  const ann = clientOf(server.url, { cookie: signedIn.headers.get("set-cookie")!.split(";")[0]! })
  const announced = await ann.ask("POST", "/api/kiln/v1/audio/uploads", { format: "mp3", declared_seconds: 2 })
  const url = ann.here(announced.body.upload_url)
  const put = async (type: string) => {
    const sent = { method: "PUT", headers: { "content-type": type }, body: Buffer.from("fffb9000", "hex") }
    return (await fetch(url, sent)).status
  }

  const leaving = request(url, {
    method: "PUT",
    headers: { "content-type": "audio/mpeg", "content-length": 1_000_000 },
  })
  leaving.on("error", () => {}).write(Buffer.from("fffb9000", "hex"))
  // While a transfer is in progress, the content type of another is not checked.
  while ((await put("text/plain")) !== 409);
  leaving.destroy()
  while ((await put("text/plain")) === 409);
  expect(await put("audio/mpeg")).toBe(204)
})
